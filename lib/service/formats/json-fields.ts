/** The first fields of a document, for a message that names what a page has in the place of its reports. */

import type { Field } from './format-check.ts';
import type { Token } from './json-tokens.ts';

/** Limits on how many are held, and on the length of a key or a text. */
const maxFields = 40;
const maxText = 60;

/** Tokens below are not read. */
export const maxNotedDepth = 2;

const shortened = (text: string | undefined, chunk: string): string | undefined =>
  text === undefined || text.length + chunk.length > maxText ? undefined : text + chunk;

const pointerOf = (key = ''): string => `/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;

export function createFieldNotes() {
  const fields: { path: string; text?: string | null | undefined }[] = [];
  /** The keys in the open objects; undefined for a long key, and for an array. */
  const keys: (string | undefined)[] = [];
  let isKey = false;

  const startValue = (text?: string | null): void => {
    if (keys.length === 0 || keys.includes(undefined) || fields.length >= maxFields) return;
    fields.push({ path: keys.map(pointerOf).join(''), text });
  };
  const addChunk = (chunk: string): void => {
    const field = fields.at(-1);
    if (isKey) keys.push(shortened(keys.pop(), chunk));
    else if (typeof field?.text === 'string') field.text = shortened(field.text, chunk);
  };

  return {
    /** Adds a token in the root, or in an object or an array there. */
    add({ name, value }: Token): void {
      if (fields.length >= maxFields) return;
      if (name === 'startObject' || name === 'startArray') {
        startValue();
        // Neither the contents nor the end of a deeper one are added.
        if (keys.length < maxNotedDepth) keys.push(name === 'startObject' ? '' : undefined);
      } else if (name === 'endObject' || name === 'endArray') {
        keys.pop();
      } else if (name === 'startKey') {
        isKey = true;
        keys[keys.length - 1] = '';
      } else if (name === 'endKey') {
        isKey = false;
      } else if (name === 'startString' || name === 'startNumber') {
        startValue('');
      } else if (name.endsWith('Chunk')) {
        addChunk(String(value));
      } else if (name.endsWith('Value')) {
        startValue(value === null ? null : String(value));
      }
    },
    all: (): readonly Field[] => fields,
  };
}
