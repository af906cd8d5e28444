/** Pages on their way into the store, compressed as streams. The suite in `test/contracts` tests stored pages. */

import { gunzipSync, gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { DifferentContentError, readPage } from '../../../lib/core/storage/compression.ts';
import { fillWithPage, type Spool } from '../../../lib/core/storage/spool.ts';
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
  const gzip = { compression: 'gzip' } as const;

  it('is a gzip file that depends on the content alone, not on its chunks', async () => {
    const page = randomBody(300_000);
    const chunksOf = async function* (size: number) {
      for (let start = 0; start < page.length; start += size) yield page.subarray(start, start + size);
    };
    const objects: Buffer[] = [];
    const fill: Spool['fill'] = async (chunks) => {
      objects.push(Buffer.concat(await collect(chunks as AsyncIterable<Uint8Array>)));
      return { bytes: 1, sha256: 'that of the object' };
    };
    for (const size of [300_000, 65_536, 777]) {
      expect(await fillWithPage({ fill }, gzip, chunksOf(size))).toEqual({
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

  it('is compressed only as fast as it is stored, and ends the response if that fails', async () => {
    const { state, content } = aContent(1_000);
    const full = new Error('the disk is full');
    const fill: Spool['fill'] = async (chunks) => {
      for await (const _ of chunks) {
        await new Promise((resolve) => setTimeout(resolve, 50));
        throw full;
      }
      return { bytes: 0, sha256: '' };
    };
    await expect(fillWithPage({ fill }, gzip, content)).rejects.toBe(full);
    expect(state.read).toBeLessThan(20);
    expect(state.isEnded).toBe(true);
  });
});

describe('a page that is read', () => {
  const page = randomBody(300_000);
  const object = gzipSync(page);
  const expected = { bytes: page.length, sha256: sha256Of(page) };
  const compressed = {
    ...expected,
    compression: 'gzip',
    storedBytes: object.length,
    storedSha256: sha256Of(object),
  } as const;
  const chunksOf = async function* (bytes: Uint8Array) {
    for (let start = 0; start < bytes.length; start += 65_536) yield bytes.subarray(start, start + 65_536);
  };

  it('is the one that was stored', async () => {
    expect(Buffer.concat(await collect(readPage(expected, chunksOf(page)))).equals(page)).toBe(true);
    expect(Buffer.concat(await collect(readPage(compressed, chunksOf(object)))).equals(page)).toBe(true);
  });

  it('is read and decompressed no further than the bytes it should have', async () => {
    const bomb = gzipSync(Buffer.alloc(10_000_000));
    const other = aContent(1_000);
    for (const [description, chunks, message] of [
      [expected, other.content, 'has more than 300000 bytes'],
      [{ ...compressed, storedBytes: bomb.length }, chunksOf(bomb), 'has more than 300000 bytes after decompression'],
    ] as const) {
      let read = 0;
      const reading = async () => {
        for await (const chunk of readPage(description, chunks)) read += chunk.length;
      };
      await expect(reading()).rejects.toEqual(new DifferentContentError(message));
      expect(read).toBeLessThanOrEqual(300_000);
    }
    expect(other.state).toEqual({ read: 4, isEnded: true });
  });
});
