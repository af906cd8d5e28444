/**
 * A digest of the text of a list, by which pages are compared: two pages with other cursors around the same reports
 * have the same one. It covers every character, so pages that differ only at their end are different. It is no proof
 * against a service that wants two pages to look equal, and need not be: a digest of the tokens of a page, or its SHA,
 * takes a third of the parser's time.
 */

import { crc32 } from 'node:zlib';
import type { Token } from './json-tokens.ts';

export type Digest = ReturnType<typeof createDigest>;

export function createDigest() {
  let lists = 0;
  let crc = 0;
  let characters = 0;
  /** Whether the end of the list was found in the text. */
  let isExact = true;
  const add = (text: string): void => {
    crc = crc32(text, crc);
    characters += text.length;
  };
  return {
    startList(): void {
      lists += 1;
    },
    /** Adds text that is part of the list. */
    add,
    /** Adds a text in which the list ends. `after` are the tokens after it. */
    addEnd(text: string, after: readonly Token[]): void {
      const end = endOfList(text, after);
      if (end === undefined) isExact = false;
      else add(text.slice(0, end));
    },
    /** Undefined: there is no list, or more than one, or its end is uncertain. */
    value: () => (lists === 1 && isExact ? `${crc}-${characters}` : undefined),
  };
}

/** Where the list ends in the text. Each `]` after it is a token of its own, or part of a string. */
function endOfList(text: string, after: readonly Token[]): number | undefined {
  let end = text.lastIndexOf(']');
  for (let brackets = after.reduce((sum, token) => sum + bracketsIn(token), 0); brackets > 0; brackets -= 1)
    end = text.lastIndexOf(']', end - 1);
  // A string may have `\u005d` in the place of a bracket.
  return text.includes('\\', end) ? undefined : end;
}

function bracketsIn({ name, value }: Token): number {
  if (typeof value === 'string') return value.split(']').length - 1;
  return name === 'endArray' ? 1 : 0;
}
