import { hash } from 'node:crypto';
import { describe, expect } from 'vitest';
import type { PageEntry } from '../../../lib/core/model.ts';
import { withDistinctCursors } from '../../../lib/core/steps/repeated-cursors.ts';
import { fc, it } from '../../support/property.ts';

const entriesFor = (cursors: readonly (string | null)[]) =>
  cursors.map((cursor, index) => ({ page: index + 1, cursor }) as PageEntry);

async function read(cursors: readonly (string | null)[]): Promise<number> {
  const log = {
    async *entries() {
      yield* entriesFor(cursors);
    },
  };
  let pages = 0;
  for await (const _ of withDistinctCursors(log.entries(), log)) pages += 1;
  return pages;
}

/** A run with two slices. */
async function readSlices([first, second]: readonly (readonly (string | null)[])[], parent?: string): Promise<void> {
  const slices = [first ?? [], second ?? []].map((cursors, index) =>
    entriesFor(cursors).map((entry) => ({ ...entry, slice: index + 1, attempt: 1, parent })),
  );
  const log = {
    async *entries({ slice = 1 }: { readonly slice?: number | undefined }) {
      yield* slices[slice - 1] ?? [];
    },
  };
  async function* all() {
    for (const entries of slices) yield* entries;
  }
  for await (const _ of withDistinctCursors(all(), log));
}

describe('the log entries of a run that is to be published', () => {
  it('are read to the end if only the digests of two cursors are equal', async () => {
    // Found by trying some millions: the first 48 bits of their SHA-256 are equal.
    const cursors = ['cursor-795772', 'cursor-4689402'];
    const [one, other] = cursors.map((cursor) => hash('sha256', cursor).slice(0, 12));
    expect(one).toBe(other);
    expect(await read([null, ...cursors])).toBe(3);
    await expect(read([null, ...cursors, 'cursor-795772'])).rejects.toThrow('the cursor of page 2,');
  });

  it('may have the same cursor in two slices, but not twice in one, which the error names', async () => {
    const distinct = [null, 'a', 'b'];
    const repeated = [null, 'b', 'c', 'b'];
    await readSlices([distinct, distinct]);
    await expect(readSlices([[null, 'a', 'a'], distinct])).rejects.toMatchObject({ chain: { slice: 1 } });
    await expect(readSlices([distinct, repeated])).rejects.toMatchObject({
      chain: { slice: 2 },
      message: expect.stringContaining('Page 4 of slice 2'),
    });
    await expect(readSlices([distinct, repeated], 'a/b')).rejects.toThrow('Page 4 of parent 2');
  });

  it.prop([fc.uniqueArray(fc.string(), { maxLength: 3_000, size: 'max' })])(
    'are read to the end if no two pages have the same cursor',
    async (cursors) => {
      expect(await read([null, ...cursors])).toBe(cursors.length + 1);
    },
  );

  it.prop([fc.uniqueArray(fc.string(), { minLength: 1, maxLength: 3_000, size: 'max' }), fc.nat(), fc.nat()])(
    'are rejected if two have, wherever they are',
    async (cursors, from, to) => {
      const repeated = cursors[from % cursors.length] as string;
      const withRepetition = [null, ...cursors].toSpliced((to % cursors.length) + 1, 0, repeated);
      const pages = withRepetition.flatMap((cursor, index) => (cursor === repeated ? [index + 1] : []));
      await expect(read(withRepetition)).rejects.toMatchObject({
        name: 'RepeatedCursorError',
        message: expect.stringContaining(`Page ${pages[1]} of run`),
      });
      await expect(read(withRepetition)).rejects.toThrow(`the cursor of page ${pages[0]},`);
    },
  );
});
