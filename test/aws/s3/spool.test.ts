import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { fileSpool, type SpooledBody } from '../../../lib/aws/s3/spool.ts';
import { inRandomChunks, randomBody, sha256Of } from '../../support/builders.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

const spool =
  (directory: string) =>
  <Outcome>(chunks: AsyncIterable<Uint8Array>, use: (body: SpooledBody) => Promise<Outcome>) =>
    fileSpool(directory)(chunks, use, 'Free disk space');

describe('a spooled body', () => {
  it('has a length and a hash, and can be read several times, also concurrently', async () => {
    await using directory = await temporaryDirectory();
    const body = randomBody(2_500_000);
    async function* chunks() {
      yield* inRandomChunks(body);
    }
    await spool(directory.path)(chunks(), async (spooled) => {
      expect(spooled).toMatchObject({ bytes: body.length, sha256: sha256Of(body) });
      const reads = [
        ...(await Promise.all([spooled.read(), spooled.read()].map(buffer))),
        await buffer(spooled.read()),
      ];
      expect(reads.map(sha256Of)).toEqual(Array(3).fill(sha256Of(body)));
    });
  });

  it('can be empty', async () => {
    await using directory = await temporaryDirectory();
    async function* noChunks() {}
    await spool(directory.path)(noChunks(), async (spooled) => {
      expect(spooled).toMatchObject({ bytes: 0, sha256: sha256Of('') });
      expect(await buffer(spooled.read())).toHaveLength(0);
    });
  });

  it('has no file name even while it is in use, so that a killed function leaves nothing', async () => {
    await using directory = await temporaryDirectory();
    async function* chunks() {
      yield randomBody(3_000_000);
      expect(await readdir(directory.path)).toEqual([]);
    }
    await spool(directory.path)(chunks(), async ({ bytes }) => {
      expect(bytes).toBe(3_000_000);
      expect(await readdir(directory.path)).toEqual([]);
    });
  });

  it('ends its source if the directory cannot be written to, and says what to do', async () => {
    await using directory = await temporaryDirectory();
    let ended = false;
    async function* endless() {
      try {
        for (;;) yield randomBody(1_000_000);
      } finally {
        ended = true;
      }
    }
    const spooling = spool(join(directory.path, 'missing'))(endless(), async () => 'used');
    await expect(spooling).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringMatching(/^Cannot write .*missing \(ENOENT\)\. Free disk space$/) as unknown as string,
    });
    expect(ended).toBe(true);
  });
});
