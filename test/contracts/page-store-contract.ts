/**
 * What every page store promises, whatever it is made of: the port's docstrings as tests.
 * Nothing here knows of disks or buckets. Each test keeps to keys of its own, so a slow storage may be shared.
 */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { asCursor, type Cursor, type LatestPointer, type StoredCursor } from '../../lib/core/model.ts';
import type { PageStore, StoreReader } from '../../lib/core/ports.ts';
import {
  aCursor,
  aFetchedPage,
  aLatest,
  anExportName,
  aPageIdentity,
  aRunFolder,
  at,
  collect,
  inRandomChunks,
  randomBody,
  sha256Of,
} from '../support/builders.ts';
import { inLanes } from '../support/in-lanes.ts';

export interface PageStoreHarness {
  readonly store: PageStore & StoreReader;
  /** Another adapter on the same storage, as another process would make it. */
  readonly another?: PageStore;
  /** The bytes at `key` as a reader downstream gets them; undefined where there is nothing to see. */
  read(key: string): Promise<Uint8Array | undefined>;
  /** The keys a reader downstream sees under `prefix`, in any order. */
  list(prefix: string): Promise<readonly string[]>;
  cleanup(): Promise<void>;
}

export interface PageStoreContractOptions {
  /** How many put the same page at once. */
  readonly writers?: number;
  /** Bytes of a page that the storage takes in parts, if it does. */
  readonly largest?: number;
  /** Objects in the folder that is listed; more than the storage shows at once. */
  readonly listed?: number;
  /** For each test; storages behind a network need more. */
  readonly timeoutMs?: number;
}

export function pageStoreContract(
  name: string,
  makeHarness: () => Promise<PageStoreHarness> | PageStoreHarness,
  options: PageStoreContractOptions = {},
): void {
  const { writers = 8, largest = 9 * 1_024 * 1_024, listed = 1_100, timeoutMs = 20_000 } = options;

  describe(`${name} keeps the page store's promises`, { timeout: timeoutMs }, () => {
    let harness: PageStoreHarness;
    let store: PageStore & StoreReader;
    beforeAll(async () => {
      harness = await makeHarness();
      store = harness.store;
    }, timeoutMs);
    afterAll(async () => await harness?.cleanup(), timeoutMs);

    /** The adapters that write at once: two, where the harness has two. */
    const writer = (index: number): PageStore => (index % 2 === 1 && harness.another) || store;
    const text = async (key: string) => {
      const bytes = await harness.read(key);
      return bytes && Buffer.from(bytes).toString();
    };
    const nothingAt = async (key: string) => {
      expect(await harness.read(key)).toBeUndefined();
      expect(await harness.list(key)).toEqual([]);
    };

    describe('pages', () => {
      it('a page comes back with its bytes and all its facts', async () => {
        const identity = aPageIdentity({ page: 7, cursor: aCursor() });
        const body = '<reports><report n="1"/><report n="2"/></reports>';
        const nextCursor = aCursor();
        const serviceTime = at('2026-11-20T02:00:01.250Z');

        const put = await store.put(identity, aFetchedPage({ body, nextCursor, serviceTime, reports: 2 }));

        const facts = { bytes: body.length, sha256: sha256Of(body), reports: 2, nextCursor, serviceTime };
        const { revision } = put.page;
        expect(put).toEqual({ stored: true, page: { ...identity, ...facts, revision } });
        expect(await store.find(identity.key)).toEqual(put.page);
        expect(await text(identity.key)).toBe(body);
      });

      it('a page that is not there is not found', async () => {
        expect(await store.find(aPageIdentity().key)).toBeUndefined();
      });

      it('what is unknown stays unknown: the first and only page, not XML, of a service without a clock', async () => {
        const identity = aPageIdentity({ page: 1, cursor: null });
        const page = aFetchedPage({ body: '{}', nextCursor: null, serviceTime: null, reports: null });

        const put = await store.put(identity, page);

        expect(put.page).toEqual({
          ...identity,
          bytes: 2,
          sha256: sha256Of('{}'),
          reports: null,
          nextCursor: null,
          serviceTime: null,
          revision: put.page.revision,
        });
        expect(await store.find(identity.key)).toEqual(put.page);
      });

      it('a page without reports counts none, not an unknown number', async () => {
        const identity = aPageIdentity();
        await store.put(identity, aFetchedPage({ body: '<reports/>', reports: 0 }));
        expect((await store.find(identity.key))?.reports).toBe(0);
      });

      const printable = Array.from({ length: 95 }, (_, index) => String.fromCharCode(32 + index)).join('');
      it.each([
        ['all of printable ASCII', `x${printable}x`],
        ['blanks at both ends', '  1588888888888,a b  '],
        ['what looks like an encoded word', '=?UTF-8?Q?=41?='],
        ['percent signs and plus signs', '1588888888888%2C+%00%'],
        ['1 KB', printable.repeat(11).slice(0, 1_024)],
        ['4 KB', printable.repeat(44).slice(0, 4_096)],
      ])('an odd cursor is kept whole, or as its hash: %s', async (_, odd) => {
        const identity = aPageIdentity({ page: 2, cursor: asCursor(odd) });
        const nextCursor = asCursor(odd.split('').reverse().join(''));

        const put = await store.put(identity, aFetchedPage({ nextCursor }));
        const found = await store.find(identity.key);

        for (const page of [put.page, found]) {
          expectWholeOrHash(page?.cursor, asCursor(odd));
          expectWholeOrHash(page?.nextCursor, nextCursor);
        }
        expect(found?.sha256).toBe(put.page.sha256);
      });

      it.each([
        ['empty', 0],
        ['a single byte', 1],
        ['just over 6 MiB', 6 * 1_024 * 1_024 + 1],
      ])('a body is kept byte for byte: %s, in chunks of any length', async (_, length) => {
        const identity = aPageIdentity();
        const body = randomBody(length);

        const put = await store.put(identity, aFetchedPage({ body: inRandomChunks(body) }));

        expect(put.page).toMatchObject({ bytes: length, sha256: sha256Of(body) });
        expect(await store.find(identity.key)).toEqual(put.page);
        const read = await harness.read(identity.key);
        expect(read && sha256Of(read)).toBe(sha256Of(body));
      });

      it('nothing of a page shows before the last of it has come', async () => {
        const identity = aPageIdentity();
        const seen: unknown[] = [];
        async function* body() {
          yield randomBody(100_000);
          seen.push(await harness.read(identity.key), await store.find(identity.key));
          yield Buffer.from('the end');
        }
        await store.put(identity, aFetchedPage({ body: body() }));

        expect(seen).toEqual([undefined, undefined]);
        expect((await store.find(identity.key))?.bytes).toBe(100_007);
      });

      it('a page shows when its turn has come, and not before', async () => {
        const identity = aPageIdentity();
        const loop = Promise.withResolvers<void>();
        const whole = Promise.withResolvers<void>();
        async function* body() {
          yield randomBody(100_000);
          whole.resolve();
        }
        const put = store.put(identity, { ...aFetchedPage({ body: body() }), predecessorStored: loop.promise });
        await whole.promise;
        // Time enough to show, for whoever does not wait.
        await new Promise((resolve) => setTimeout(resolve, 100));
        expect([await harness.read(identity.key), await store.find(identity.key)]).toEqual([undefined, undefined]);

        loop.resolve();
        expect((await put).stored).toBe(true);
        expect((await store.find(identity.key))?.bytes).toBe(100_000);
      });

      it('a page whose turn does not come leaves nothing', async () => {
        const identity = aPageIdentity();
        const notNow = new Error('not its turn');
        const loop = Promise.reject(notNow);
        // Until the store comes to wait for it, it is nobody's error.
        loop.catch(() => {});
        const page = { ...aFetchedPage({ body: 'whole' }), predecessorStored: loop };
        expect(await store.put(identity, page).catch((error: unknown) => error)).toBe(notNow);
        expect(await store.find(identity.key)).toBeUndefined();
        await nothingAt(identity.key);

        // The page before may be answered anew, with another cursor to this one; and this one be the same all the same.
        const anew = { ...identity, cursor: aCursor() };
        const put = await store.put(anew, aFetchedPage({ body: 'whole' }));
        expect(put).toMatchObject({ stored: true, page: { sha256: sha256Of('whole') } });
        expectWholeOrHash(put.page.cursor, anew.cursor);
      });

      it.each([
        ['at its start', 0],
        ['in the middle', 100_000],
        ['at its very end, after 6 MiB', 6 * 1_024 * 1_024],
      ])('a body that breaks %s leaves nothing, and its error comes through as it was', async (_, length) => {
        const identity = aPageIdentity();
        const broken = new Error('the service broke off');
        function* body() {
          yield* inRandomChunks(randomBody(length));
          throw broken;
        }
        const failure = await store.put(identity, aFetchedPage({ body: body() })).catch((error: unknown) => error);

        expect(failure).toBe(broken);
        expect(await store.find(identity.key)).toBeUndefined();
        await nothingAt(identity.key);

        const again = await store.put(identity, aFetchedPage({ body: 'whole' }));
        expect(again.stored).toBe(true);
        expect(await text(identity.key)).toBe('whole');
      });

      it('a page once stored is never overwritten: who comes later gets the first one back', async () => {
        const identity = aPageIdentity({ page: 3 });
        const first = await store.put(identity, aFetchedPage({ body: 'first', reports: 1 }));

        const second = await writer(1).put(identity, aFetchedPage({ body: 'second', reports: 2 }));
        const same = await writer(1).put(identity, aFetchedPage({ body: 'first', reports: 1 }));

        expect(second).toEqual({ stored: false, page: first.page });
        expect(same).toEqual({ stored: false, page: first.page });
        expect(await store.find(identity.key)).toEqual(first.page);
        expect(await text(identity.key)).toBe('first');
      });

      it('a broken body does no harm to the page that is there', async () => {
        const identity = aPageIdentity();
        const first = await store.put(identity, aFetchedPage({ body: 'first' }));
        const broken = new Error('the service broke off');
        function* body() {
          yield Buffer.from('fir');
          throw broken;
        }

        const failure = await store.put(identity, aFetchedPage({ body: body() })).catch((error: unknown) => error);

        // A store that looks before it reads may also have answered with the page that is there.
        expect([broken, { stored: false, page: first.page }]).toContainEqual(failure);
        expect(await store.find(identity.key)).toEqual(first.page);
        expect(await text(identity.key)).toBe('first');
      });

      it.each([
        ['each with other bytes', (index: number) => `page as writer ${index} got it`],
        ['all with the same bytes but another way on', () => 'the same for all'],
      ])('of many who store a page at once, one does and all agree on it: %s', async (_, bodyOf) => {
        const identity = aPageIdentity({ page: 2 });
        const offers = Array.from({ length: writers }, (_, index) => ({
          body: bodyOf(index),
          nextCursor: aCursor(),
          reports: index,
        }));

        const results = await Promise.all(
          offers.map((offer, index) => writer(index).put(identity, aFetchedPage(offer))),
        );

        const winner = results.findIndex(({ stored }) => stored);
        const offer = offers[winner];
        expect(results.filter(({ stored }) => stored)).toHaveLength(1);
        expect(await text(identity.key)).toBe(offer?.body);
        const page = await store.find(identity.key);
        expect(page).toMatchObject({ nextCursor: offer?.nextCursor, reports: offer?.reports });
        for (const result of results) expect(result.page).toEqual(page);
      });

      it('what one adapter stores, another finds', async () => {
        const identity = aPageIdentity();
        const { page } = await writer(1).put(identity, aFetchedPage());
        expect(await store.find(identity.key)).toEqual(page);
      });

      it('a reader who lists a run sees its pages and its manifest, and nothing else', async () => {
        const folder = aRunFolder();
        const keys = [1, 2, 3].map((page) => aPageIdentity({ folder, page }).key);
        for (const [index, key] of keys.entries()) {
          await store.put(aPageIdentity({ folder, key, page: index + 1 }), aFetchedPage());
        }
        await store.putManifest(`${folder}/manifest.json`, stream('{}'));

        expect([...(await harness.list(`${folder}/`))].sort()).toEqual([`${folder}/manifest.json`, ...keys]);
      });
    });

    describe('manifests', () => {
      const aManifestKey = () => `${aRunFolder()}/manifest.json`;

      it('a manifest is kept as it was streamed, in UTF-8', async () => {
        const key = aManifestKey();
        await store.putManifest(key, stream('{"pages":[', '"Zürich",', '"北",', '"🜁"', ']}'));
        expect(await text(key)).toBe('{"pages":["Zürich","北","🜁"]}');
      });

      it('a manifest of more than 6 MiB is kept whole', async () => {
        const key = aManifestKey();
        const line = `${'x'.repeat(1_023)}\n`;
        await store.putManifest(key, stream(...Array.from({ length: 6 * 1_024 + 1 }, () => line)));
        expect((await harness.read(key))?.length).toBe((6 * 1_024 + 1) * 1_024);
      });

      it('the same manifest written again, in other chunks, changes nothing', async () => {
        const key = aManifestKey();
        await store.putManifest(key, stream('{"pages":', '[]}'));
        await writer(1).putManifest(key, stream('{', '"pages":[]', '}'));
        expect(await text(key)).toBe('{"pages":[]}');
      });

      it('another manifest is refused, and the first one stays', async () => {
        const key = aManifestKey();
        await store.putManifest(key, stream('{"pages":[]}'));
        await expect(writer(1).putManifest(key, stream('{"pages":{}}'))).rejects.toMatchObject({
          name: 'PageConflictError',
        });
        expect(await text(key)).toBe('{"pages":[]}');
      });

      it('of many different manifests written at once, one is kept and the others are refused', async () => {
        const key = aManifestKey();
        const results = await Promise.allSettled(
          Array.from({ length: writers }, (_, index) => writer(index).putManifest(key, stream(`{"by":${index}}`))),
        );
        const kept = results.flatMap(({ status }, index) => (status === 'fulfilled' ? [index] : []));
        expect(kept).toHaveLength(1);
        expect(await text(key)).toBe(`{"by":${kept[0]}}`);
        const refusals = results.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : []));
        for (const refusal of refusals) expect(refusal).toMatchObject({ name: 'PageConflictError' });
      });

      it('of the same manifest written many times at once, all are content', async () => {
        const key = aManifestKey();
        await Promise.all(
          Array.from({ length: writers }, (_, index) => writer(index).putManifest(key, stream('{"by":', '"all"}'))),
        );
        expect(await text(key)).toBe('{"by":"all"}');
      });

      it.each([
        ['at its start', []],
        ['after a little', ['{"pages":[']],
        ['after 6 MiB', Array.from({ length: 6 }, () => 'x'.repeat(1_024 * 1_024))],
      ])('a manifest that breaks off %s leaves nothing, and its error comes through as it was', async (_, chunks) => {
        const key = aManifestKey();
        const broken = new Error('the page log broke off');
        async function* breaking() {
          yield* chunks;
          throw broken;
        }
        expect(await store.putManifest(key, breaking()).catch((error: unknown) => error)).toBe(broken);
        await nothingAt(key);

        await store.putManifest(key, stream('{}'));
        expect(await text(key)).toBe('{}');
      });
    });

    describe('reading', () => {
      const readWhole = async (key: string) => {
        const chunks = await store.read(key);
        return chunks && Buffer.concat(await collect(chunks)).toString('latin1');
      };

      it('gives back what was stored, byte for byte, whether a page or not', async () => {
        const identity = aPageIdentity();
        const body = randomBody(200_000);
        await store.put(identity, aFetchedPage({ body }));
        expect(await readWhole(identity.key)).toBe(Buffer.from(body).toString('latin1'));

        const manifest = `${aRunFolder()}/manifest.json`;
        await store.putManifest(manifest, stream('{"pages":', '[]}'));
        expect(await readWhole(manifest)).toBe('{"pages":[]}');
      });

      it('gives back an empty page as no bytes, and nothing where there is nothing', async () => {
        const identity = aPageIdentity();
        await store.put(identity, aFetchedPage({ body: '' }));
        expect(await readWhole(identity.key)).toBe('');
        expect(await readWhole(aPageIdentity().key)).toBeUndefined();
        expect(await readWhole(`${anExportName()}/latest.json`)).toBeUndefined();
      });

      it('may be left early', async () => {
        const identity = aPageIdentity();
        await store.put(identity, aFetchedPage({ body: randomBody(3_000_000) }));
        for await (const chunk of (await store.read(identity.key)) ?? []) {
          expect(chunk.length).toBeGreaterThan(0);
          break;
        }
        expect((await readWhole(identity.key))?.length).toBe(3_000_000);
      });
    });

    describe('the pointer to the newest manifest', () => {
      const pointer = async (key: string) => JSON.parse((await text(key)) ?? 'null') as LatestPointer | null;
      const hasBegun = async () => true;

      it('names the newest manifest, and moves on with the next one', async () => {
        const exportName = anExportName();
        const key = `${exportName}/latest.json`;
        const first = aLatest({ export: exportName, sequence: 1 });
        const second = aLatest({ export: exportName, sequence: 2 });

        await store.putLatest(key, first, hasBegun);
        expect(await pointer(key)).toEqual(first);
        await writer(1).putLatest(key, second, hasBegun);
        expect(await pointer(key)).toEqual(second);
      });

      it('never goes back: not to 9 from 10, and not by a writer that comes late', async () => {
        const exportName = anExportName();
        const key = `${exportName}/latest.json`;
        const tenth = aLatest({ export: exportName, sequence: 10 });

        await store.putLatest(key, aLatest({ export: exportName, sequence: 9 }), hasBegun);
        await store.putLatest(key, tenth, hasBegun);
        await writer(1).putLatest(key, aLatest({ export: exportName, sequence: 9 }), hasBegun);
        await store.putLatest(key, aLatest({ export: exportName, sequence: 1 }), hasBegun);

        expect(await pointer(key)).toEqual(tenth);
      });

      it('can be written again for the same run', async () => {
        const latest = aLatest();
        const key = `${latest.export}/latest.json`;
        await store.putLatest(key, latest, hasBegun);
        await writer(1).putLatest(key, latest, hasBegun);
        expect(await pointer(key)).toEqual(latest);
      });

      it('gives way where it claims a run that has never begun, however often it is asked', async () => {
        const latest = aLatest({ sequence: 8 });
        const key = `${latest.export}/latest.json`;
        await store.putLatest(key, aLatest({ export: latest.export, sequence: Number.MAX_SAFE_INTEGER }), hasBegun);
        const asked: number[] = [];
        await writer(1).putLatest(key, latest, async (sequence) => {
          asked.push(sequence);
          return sequence <= 8;
        });
        expect(await pointer(key)).toEqual(latest);
        expect(asked).toEqual([Number.MAX_SAFE_INTEGER]);
      });

      it('asks about no other run while it moves forward', async () => {
        const exportName = anExportName();
        const key = `${exportName}/latest.json`;
        const asked = async () => {
          throw new Error('there was nothing to ask');
        };
        for (const sequence of [7, 8, 8]) await store.putLatest(key, aLatest({ export: exportName, sequence }), asked);
        expect(await pointer(key)).toMatchObject({ sequence: 8 });
      });

      it('ends at the newest of many written at once', async () => {
        const exportName = anExportName();
        const key = `${exportName}/latest.json`;
        const pointers = Array.from({ length: writers }, (_, index) =>
          aLatest({ export: exportName, sequence: index + 1 }),
        );
        const newestInTheMiddle = [...pointers.filter(isOdd), ...pointers.filter((latest) => !isOdd(latest)).reverse()];

        await Promise.all(newestInTheMiddle.map((latest, index) => writer(index).putLatest(key, latest, hasBegun)));

        expect(await pointer(key)).toEqual(pointers.at(-1));
      });
    });

    describe('a listing', () => {
      it('shows the pages of a folder as they were committed, and its manifest', async () => {
        const folder = aRunFolder();
        const pages = [];
        for (const [index, body] of ['', 'one', randomBody(largest)].entries()) {
          const put = await store.put(aPageIdentity({ folder, page: index + 1 }), aFetchedPage({ body }));
          pages.push({ key: put.page.key, bytes: body.length, revision: put.page.revision });
        }
        await store.putManifest(`${folder}/manifest.json`, stream('{}'));

        const listed = (await collect(store.list(folder))).sort((a, b) => (a.key < b.key ? -1 : 1));

        const manifest = { key: `${folder}/manifest.json`, bytes: 2, revision: listed[0]?.revision };
        expect(listed).toEqual([manifest, ...pages]);
      });

      it('names another revision for other bytes of the same length, or none at all', async () => {
        const folder = aRunFolder();
        for (const page of [1, 2, 3]) {
          await store.put(aPageIdentity({ folder, page }), aFetchedPage({ body: `page ${page}` }));
        }
        const revisions = (await collect(store.list(folder))).map(({ revision }) => revision);
        expect(new Set(revisions).size).toBe(revisions.includes(null) ? 1 : 3);
      });

      it('of a folder that is not there is empty', async () => {
        expect(await collect(store.list(aRunFolder()))).toEqual([]);
      });

      it('keeps to its folder: not what lies deeper, nor in one whose name begins the same', async () => {
        const folder = aRunFolder();
        const keys = ['page.xml', 'deeper/page.xml'].map((name) => `${folder}/${name}`);
        for (const key of [...keys, `${folder}0/page.xml`]) await store.put(aPageIdentity({ key }), aFetchedPage());
        expect((await collect(store.list(folder))).map(({ key }) => key)).toEqual([keys[0]]);
      });

      it(`shows all of ${listed} objects, each once`, async () => {
        const folder = aRunFolder();
        const keys = Array.from({ length: listed }, (_, index) => `${folder}/${String(index).padStart(4, '0')}.json`);
        await inLanes(16, keys, (key) => store.putManifest(key, stream('{}')));
        expect((await collect(store.list(folder))).map(({ key }) => key).sort()).toEqual(keys);
      });

      it('shows a page as soon as it is stored, and may be left early', async () => {
        const folder = aRunFolder();
        for (const page of [1, 2, 3]) {
          await store.put(aPageIdentity({ folder, page }), aFetchedPage());
          const seen = await collect(writer(page).list(folder));
          expect(seen).toHaveLength(page);
        }
        for await (const { bytes } of store.list(folder)) {
          expect(bytes).toBeGreaterThan(0);
          break;
        }
      });
    });

    it('tells a person where a key is to be found', () => {
      const { key } = aPageIdentity();
      expect(store.locate(key).endsWith(key)).toBe(true);
    });
  });
}

const isOdd = ({ sequence }: LatestPointer) => sequence % 2 === 1;

async function* stream(...chunks: readonly string[]): AsyncGenerator<string> {
  yield* chunks;
}

/** A store that cannot hold a cursor whole gives back its hash; nothing in between. */
function expectWholeOrHash(actual: StoredCursor | undefined, cursor: Cursor): void {
  expect([cursor, { sha256: sha256Of(cursor) }]).toContainEqual(actual);
}
