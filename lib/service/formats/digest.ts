/**
 * A digest of reports, by which pages are compared: two pages with other cursors around the same reports have the same
 * one. It is no proof against a service that wants two pages to look equal, and need not be. So only the beginning is
 * compared in full, and of the rest the length: everything would take as long as the parser takes.
 */

import type { Token } from './json-tokens.ts';

export interface Digest {
  /** Adds a token. A text may come in any number of chunks. */
  readonly add: (token: Token) => void;
  readonly value: () => string;
}

const maxComparedCharacters = 64 * 1024;

/** Odd, so that no difference is lost when it is multiplied. */
const factor = 0x85ebca6b;

export function createDigest(): Digest {
  let hash = 0;
  let characters = 0;
  const addCode = (code: number): void => {
    hash = Math.imul(hash ^ code, factor);
  };
  return {
    add({ name, value }) {
      if (characters >= maxComparedCharacters) {
        if (typeof value === 'string') characters += value.length;
        return;
      }
      // No character has this code, and no two names have the same.
      if (typeof value !== 'string')
        return addCode(65_536 * name.length + 256 * name.charCodeAt(0) + name.charCodeAt(5));
      const end = Math.min(value.length, maxComparedCharacters - characters);
      for (let index = 0; index < end; index += 1) addCode(value.charCodeAt(index));
      characters += value.length;
    },
    value: () => [hash >>> 0, characters].join('-'),
  };
}
