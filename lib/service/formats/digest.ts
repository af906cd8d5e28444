/**
 * A digest of reports, by which pages are compared: two pages with other cursors around the same reports have the same one. It is no
 * proof against a service that wants two pages to look equal, and need not be.
 */

interface Token {
  readonly name: string;
  readonly value: unknown;
}

export interface Digest {
  /** Adds a token. A text may come in any number of chunks. */
  readonly add: (token: Token) => void;
  readonly value: () => string;
}

const names = [
  'startObject',
  'endObject',
  'startArray',
  'endArray',
  'startKey',
  'endKey',
  'startString',
  'endString',
  'startNumber',
  'endNumber',
  'trueValue',
  'falseValue',
  'nullValue',
];
/** Codes that no character has, the same in every process. */
const codes = new Map(names.map((name, index) => [name, 65_536 + index]));

/** Two lanes of 32 bits: faster in JavaScript than a call of a native hash for every token. */
export function createDigest(): Digest {
  let high = 0x2545f491;
  let low = 0x9e3779b9;
  const addCode = (code: number): void => {
    high = Math.imul(high ^ code, 0x85ebca6b);
    high = (high << 13) | (high >>> 19);
    low = Math.imul(low ^ code, 0xc2b2ae35);
    low = (low << 15) | (low >>> 17);
  };
  return {
    add({ name, value }) {
      if (name === 'stringChunk' || name === 'numberChunk') {
        const text = String(value);
        for (let index = 0; index < text.length; index += 1) addCode(text.charCodeAt(index));
        return;
      }
      addCode(codes.get(name) ?? 0);
    },
    value: () => [high, low].map((lane) => (lane >>> 0).toString(16).padStart(8, '0')).join(''),
  };
}
