/** Pages on their way into the store, compressed as streams. What is stored is tested by the suite in `test/contracts`. */

import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { objectToStore } from '../../../lib/core/storage/compression.ts';
import { collect, randomBody, sha256Of } from '../../support/builders.ts';

/** Random chunks of 64 KiB, and what has become of them. */
function aContent(chunks: number) {
  const state = { read: 0, isEnded: false };
  async function* content() {
    try {
      for (; state.read < chunks; state.read += 1) yield randomBody(65_536);
    } finally {
      state.isEnded = true;
    }
  }
  return { state, content: content() };
}

describe('the object of a compressed page', () => {
  it('is a gzip file that depends on the content alone, not on its chunks', async () => {
    const page = randomBody(300_000);
    const chunksOf = async function* (size: number) {
      for (let start = 0; start < page.length; start += size) yield page.subarray(start, start + size);
    };
    const objects = [];
    for (const size of [300_000, 65_536, 777]) {
      const object = objectToStore('gzip', chunksOf(size));
      objects.push(Buffer.concat(await collect(object.chunks)));
      expect(object.describe({ bytes: 1, sha256: 'that of the object' })).toEqual({
        bytes: page.length,
        sha256: sha256Of(page),
        compression: 'gzip',
        storedBytes: 1,
        storedSha256: 'that of the object',
      });
    }
    expect(gunzipSync(objects[0] ?? '').equals(page)).toBe(true);
    expect(new Set(objects.map(sha256Of)).size).toBe(1);
  });

  it('is compressed only as fast as it is read', async () => {
    const { state, content } = aContent(1_000);
    for await (const _ of objectToStore('gzip', content).chunks) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      break;
    }
    expect(state.read).toBeLessThan(20);
  });

  it('ends the iteration of its content, and with it the response, if it is not read to its end', async () => {
    const { state, content } = aContent(1_000);
    for await (const _ of objectToStore('gzip', content).chunks) break;
    expect(state.isEnded).toBe(true);
  });
});
