/** Writes the tokens of a JSON value as text, with its numbers as they were received. */

import { createHash } from 'node:crypto';
import { maxValueLength } from './format-check.ts';
import type { Token } from './json-tokens.ts';

/** `isHashed`: the text is hashed while it is written, so that it may be of any length. */
export function createJsonWriter(isHashed: boolean) {
  const hash = isHashed ? createHash('sha256') : undefined;
  let text = '';
  let needsComma = false;
  const begin = (characters: string): void => {
    text += needsComma ? `,${characters}` : characters;
    needsComma = false;
  };
  const end = (characters: string): void => {
    text += characters;
    needsComma = true;
  };
  const literal = (characters: string): void => {
    begin(characters);
    needsComma = true;
  };
  const writers: Readonly<Record<string, (value: Token['value']) => void>> = {
    startObject: () => begin('{'),
    endObject: () => end('}'),
    startArray: () => begin('['),
    endArray: () => end(']'),
    startKey: () => begin('"'),
    endKey: () => {
      text += '":';
    },
    startString: () => begin('"'),
    endString: () => end('"'),
    stringChunk: (value) => {
      text += JSON.stringify(value).slice(1, -1);
    },
    startNumber: () => begin(''),
    numberChunk: (value) => {
      text += value;
    },
    endNumber: () => end(''),
    trueValue: () => literal('true'),
    falseValue: () => literal('false'),
    nullValue: () => literal('null'),
  };
  return {
    write({ name, value }: Token): void {
      writers[name]?.(value);
      if (hash === undefined || text.length <= maxValueLength) return;
      hash.update(text);
      text = '';
    },
    /** How many characters are held. */
    length: () => text.length,
    /** The text that was written, or its digest. */
    end: () => hash?.update(text).digest('hex') ?? text,
  };
}
