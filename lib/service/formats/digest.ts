/**
 * A digest of the text of a list, by which pages are compared: two pages with other cursors around the same reports
 * have the same one. It covers every character, so pages that differ only at their end are different. It is no proof
 * against a service that wants two pages to look equal, and need not be: a digest of the tokens of a page, or its SHA,
 * takes a third of the parser's time.
 */

import { crc32 } from 'node:zlib';
import type { JsonReader } from './json-reader.ts';
import type { Token } from './json-tokens.ts';

/** Reads the document with `reader`. */
export function createDigest(reader: Pick<JsonReader, 'read' | 'isInList' | 'lists' | 'tokensAfterList'>) {
  let crc = 0;
  let characters = 0;
  /** Whether the end of the list was found in the text. */
  let isExact = true;
  const add = (text: string): void => {
    crc = crc32(text, crc);
    characters += text.length;
  };
  /** Reads up to the start of the list, and returns what follows. The list starts after one of the brackets. */
  const readBeforeList = (text: string): string => {
    let rest = text;
    while (rest !== '' && !reader.isInList()) {
      const end = rest.indexOf('[') + 1 || rest.length;
      if (reader.read(rest.slice(0, end)) !== undefined) break;
      rest = rest.slice(end);
    }
    return rest;
  };
  return {
    /** Returns a problem, or undefined. */
    read(text: string): string | undefined {
      const inList = reader.isInList() ? text : readBeforeList(text);
      const problem = reader.read(inList);
      if (inList === '' || problem !== undefined) return problem;
      const end = reader.isInList() ? inList.length : endOfList(inList, reader.tokensAfterList());
      if (end === undefined) isExact = false;
      else add(inList.slice(0, end));
      return undefined;
    },
    /** Undefined: there is no list, or more than one, or its end is uncertain. */
    value: () => (reader.lists() === 1 && isExact ? `${crc}-${characters}` : undefined),
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
