/** Collects the values of a JSON document that are asked for, while it is read. */

import { maxValueLength } from './format-check.ts';
import { addFound, type Found, type OpenValue, type Part, partsIn, pathOf } from './json-parts.ts';
import { createJsonWriter } from './json-writer.ts';

/** Called with each value that was asked for, once it is complete. Returns a problem, or undefined. */
export type OnValue = (value: OpenValue) => string | undefined;

/** Objects and arrays that are asked for as a whole are held as JSON, or as digests. Returned texts are problems. */
export function createJsonValues(root: Part | undefined, onValue: OnValue | undefined, holds: 'text' | 'digest') {
  let document: Found | undefined;
  /** The open objects and arrays that may contain values. */
  const open: OpenValue[] = [];
  /** The key or the scalar that is being read. */
  let keyOf: OpenValue | undefined;
  let scalar: OpenValue | undefined;
  /** The value that is held as JSON, and its writer. */
  let whole: { readonly found: Found; readonly writer: ReturnType<typeof createJsonWriter> } | undefined;

  const start = (type: Found['type'], text?: string): OpenValue | undefined => {
    const parent = open.at(-1);
    const parts = parent === undefined ? [root ?? []].flat() : partsIn(parent);
    if (parent !== undefined) parent.found.items += 1;
    return parts.length === 0 ? undefined : { parts, found: { type, text, parts: new Map(), items: 0 }, key: '' };
  };
  /** Notes a value that is complete in the one that it is part of. */
  const end = (value: OpenValue): string | undefined => {
    const { parts, found } = value;
    const parent = open.at(-1)?.found;
    if (parent === undefined) document = found;
    let problem = onValue?.(value);
    if (parent !== undefined) for (const part of parts) problem ??= addFound(parent, part, found);
    return problem;
  };

  return {
    /** Returns the value if it may contain values that are asked for. Otherwise nothing inside it is to be added. */
    startContainer(type: 'object' | 'array'): OpenValue | undefined {
      const value = start(type);
      if (value === undefined) return undefined;
      open.push(value);
      if (whole === undefined && value.parts.some(({ isWhole }) => isWhole === true || isWhole === type)) {
        whole = { found: value.found, writer: createJsonWriter(holds === 'digest') };
      }
      return value;
    },
    endContainer(): string | undefined {
      const value = open.pop();
      if (value === undefined) return undefined;
      if (value.found === whole?.found) {
        value.found.json = whole.writer.end();
        whole = undefined;
      }
      return end(value);
    },
    startKey(): void {
      keyOf = open.at(-1);
      if (keyOf !== undefined) keyOf.key = '';
    },
    endKey(): void {
      keyOf = undefined;
    },
    startScalar(type: Found['type'], text?: string): void {
      scalar = start(type, text);
    },
    addChunk(chunk: string): string | undefined {
      // A longer key is none of those that lead to a value.
      if (keyOf !== undefined && keyOf.key.length <= maxValueLength) keyOf.key += chunk;
      if (scalar === undefined) return undefined;
      scalar.found.text += chunk;
      return Number(scalar.found.text?.length) > maxValueLength
        ? `the value at ${pathOf(scalar)} is too long`
        : undefined;
    },
    endScalar(): string | undefined {
      const value = scalar;
      scalar = undefined;
      return value && end(value);
    },
    /** The writer of the value that is held as JSON and being read. */
    writer: () => whole?.writer,
    document: () => document,
  };
}
