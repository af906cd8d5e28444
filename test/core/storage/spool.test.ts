import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import type { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { createSpool, openSpoolFile } from '../../../lib/core/storage/spool.ts';
import { inRandomChunks, randomBody, sha256Of } from '../../support/builders.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

async function* chunksOf(body: Uint8Array) {
  yield* inRandomChunks(body);
}
const never = () => {
  throw new Error('no file is needed');
};
const failed = (cause: unknown) => new Error('Could not write', { cause });

describe('a spooled body', () => {
  it.each([
    ['empty', 0],
    ['small', 500_000],
  ])('that is %s stays in memory', async (_, length) => {
    const body = randomBody(length);
    await using spool = createSpool(never, failed);
    expect(await spool.fill(chunksOf(body))).toEqual({ bytes: length, sha256: sha256Of(body) });
    expect(sha256Of(spool.read() as Uint8Array)).toBe(sha256Of(body));
  });

  it('that is large goes to a file, and can be read several times, also concurrently', async () => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, 'file');
    const body = randomBody(2_500_000);
    await using spool = createSpool(() => openSpoolFile(path), failed);
    expect(await spool.fill(chunksOf(body))).toEqual({ bytes: body.length, sha256: sha256Of(body) });
    const read = () => buffer(spool.read() as Readable);
    const reads = [...(await Promise.all([read(), read()])), await read()];
    expect(reads.map(sha256Of)).toEqual(Array(3).fill(sha256Of(body)));
  });

  it.each([0, 1_000, 524_288, 524_289])('of %i bytes is in the file once that is synced', async (length) => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, 'file');
    const body = randomBody(length);
    await using spool = createSpool(() => openSpoolFile(path), failed);
    await spool.fill(chunksOf(body));
    await spool.sync();
    expect(sha256Of(await readFile(path))).toBe(sha256Of(body));
  });

  it('ends its source if the file cannot be created, and says why', async () => {
    const cause = Object.assign(new Error('no space'), { code: 'ENOSPC' });
    let ended = false;
    async function* endless() {
      try {
        for (;;) yield randomBody(1_000_000);
      } finally {
        ended = true;
      }
    }
    const openFile = () => {
      throw cause;
    };
    await using spool = createSpool(openFile, failed);
    await expect(spool.fill(endless())).rejects.toMatchObject({ message: 'Could not write', cause });
    expect(ended).toBe(true);
  });
});
