/**
 * A digest of reports, by which pages are compared: two pages with other cursors around the same reports have the same
 * one. It covers every character, so pages that differ only at their end are different.
 */

import { createHash } from 'node:crypto';
import { createJsonWriter } from './json-writer.ts';
import type { Token } from './json-tokens.ts';

export interface Digest {
  /** Adds a token. A text may come in any number of chunks. */
  readonly add: (token: Token) => void;
  readonly value: () => string;
}

/** So many characters are hashed at a time: a call for each token would take longer than the parser. */
const pieceLength = 16 * 1024;

export function createDigest(): Digest {
  const hash = createHash('sha1');
  const writer = createJsonWriter();
  const hashText = () => hash.update(writer.takeText());
  return {
    add(token) {
      writer.write(token);
      if (writer.length() > pieceLength) hashText();
    },
    value() {
      hashText();
      return hash.copy().digest('base64url');
    },
  };
}
