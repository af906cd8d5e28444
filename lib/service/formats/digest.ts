/**
 * A digest of reports, by which pages are compared: two pages with other cursors around the same reports have the same
 * one. It covers every character, so pages that differ only at their end are different. It is no proof against a
 * service that wants two pages to look equal, and need not be: SHA would take a third of the parser's time.
 */

import type { Token } from './json-tokens.ts';

export interface Digest {
  /** Adds a token. A text may come in any number of chunks. */
  readonly add: (token: Token) => void;
  readonly value: () => string;
}

/** Odd, so that no difference is lost when it is multiplied. */
const factor = 0x85ebca6b;

export function createDigest(): Digest {
  let hash = 0;
  let characters = 0;
  return {
    add({ name, value }) {
      if (typeof value !== 'string') {
        // No character has this code, and no two names have the same.
        hash = Math.imul(hash ^ (65_536 * name.length + 256 * name.charCodeAt(0) + name.charCodeAt(5)), factor);
        return;
      }
      // Without a call for each character: that takes twice as long.
      for (let index = 0; index < value.length; index += 1) hash = Math.imul(hash ^ value.charCodeAt(index), factor);
      characters += value.length;
    },
    value: () => [hash >>> 0, characters].join('-'),
  };
}
