/**
 * The contract of the `PageStore` and `StoreReader` ports: every implementation passes these tests.
 * Each test uses its own keys, so that implementations may share one slow storage.
 */

import { Readable } from 'node:stream';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { asDocumentRoot, rootOfColumns } from '../../lib/core/document-root.ts';
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
  putPage,
} from '../support/builders.ts';
import { mapConcurrently } from '../../lib/core/concurrency.ts';

export interface PageStoreHarness {
  readonly store: PageStore & StoreReader;
  /** A second adapter on the same storage, as another process would create it: one that compresses to other bytes. */
  readonly another?: PageStore;
  /** The bytes at `key` as a consumer reads them; undefined if there are none. */
  read(key: string): Promise<Uint8Array | undefined>;
  /** The keys that a consumer sees under `prefix`, in any order. */
  list(prefix: string): Promise<readonly string[]>;
  cleanup(): Promise<void>;
}

export interface PageStoreContractOptions {
  /** The number of folders in a listed folder. */
  readonly listedFolders?: number;
  /** The size of a large page or document, in MiB. */
  readonly largeMiB?: number;
}

export function pageStoreContract(
  name: string,
  makeHarness: () => Promise<PageStoreHarness> | PageStoreHarness,
  options: PageStoreContractOptions = {},
): void {
  const { listedFolders = 30, largeMiB = 6 } = options;
  const largeBytes = largeMiB * 1_024 * 1_024;
  /** In a folder: more than a storage returns at once. */
  const listedObjects = 1_100;

  describe(`${name} implements the PageStore port`, () => {
    let harness: PageStoreHarness;
    let store: PageStore & StoreReader;
    beforeAll(async () => {
      harness = await makeHarness();
      store = harness.store;
    });
    afterAll(async () => await harness?.cleanup());

    /** Alternates between the two adapters, if the harness has two. */
    const writer = (index: number): PageStore => (index % 2 === 1 && harness.another) || store;
    const text = async (key: string) => {
      const bytes = await harness.read(key);
      return bytes && Buffer.from(bytes).toString();
    };
    const expectNothingAt = async (key: string) => {
      expect(await harness.read(key)).toBeUndefined();
      expect(await harness.list(key)).toEqual([]);
    };

    describe.each([
      ['as they are', undefined],
      ['compressed', 'gzip'],
    ] as const)('pages %s', (_, compression) => {
      const anIdentity = (overrides: Parameters<typeof aPageIdentity>[0] = {}) =>
        aPageIdentity({ compression, ...overrides });
      /** The page in the object at `key`, as a consumer reads it; undefined if there is none. */
      const readPage = async (key: string) => {
        const object = await harness.read(key);
        return object && compression === 'gzip' ? gunzipSync(object) : object;
      };
      const text = async (key: string) => {
        const bytes = await readPage(key);
        return bytes && Buffer.from(bytes).toString();
      };
      /** The facts of a compressed page's object. */
      const formOf = async (key: string) => {
        const object = (await harness.read(key)) ?? new Uint8Array();
        return compression && { compression, storedBytes: object.length, storedSha256: sha256Of(object) };
      };

      it('stores a page with its bytes and its metadata', async () => {
        const identity = anIdentity({ page: 7, cursor: aCursor() });
        const body = '<reports><report n="1"/><report n="2"/></reports>';
        const nextCursor = aCursor();
        const serviceTime = at('2026-11-20T02:00:01.250Z');

        const put = await putPage(
          store,
          identity,
          aFetchedPage({
            body,
            nextCursor,
            serviceTime,
            transferredBytes: 30,
            reports: 2,
            documentRoot: '{urn:a}reports',
          }),
        );

        const metadata = {
          transferredBytes: 30,
          bytes: body.length,
          sha256: sha256Of(body),
          reports: 2,
          documentRoot: '{urn:a}reports',
          nextCursor,
          serviceTime,
        };
        const { revision } = put.page;
        const form = await formOf(identity.key);
        expect(put).toEqual({ stored: true, page: { ...identity, ...metadata, ...form, revision } });
        expect(await store.find(identity.key)).toEqual(put.page);
        expect(await text(identity.key)).toBe(body);
      });

      const namespace = 'n'.repeat(190);
      it.each([
        [
          'with every character that a URI may have',
          asDocumentRoot("{http://a-z.example:80/~_!$&'()*+,;=:@%20?q[1]#f}r"),
        ],
        ['in Cyrillic', asDocumentRoot('{urn:\u043e}\u043e\u0442\u0447\u0451\u0442\u044b')],
        ['that looks like an encoded word', asDocumentRoot('{=?UTF-8?Q?=41?=}r')],
        ['of 200 characters', asDocumentRoot(`{${namespace}}reports1`)],
        ['of 100 KB', asDocumentRoot(`{${namespace.repeat(550)}}reports`)],
        ['of CSV, with blanks and of 200 characters', rootOfColumns(`id,"Order ID, new",${'x'.repeat(173)}`)],
        ['of CSV, with blanks at its end and line breaks', rootOfColumns('"a\r\nb",\u043e,c  ')],
      ])('keeps a document root %s', async (_, root) => {
        const identity = anIdentity();
        const put = await putPage(store, identity, { ...aFetchedPage(), documentRoot: root });
        expect(put.page.documentRoot).toBe(root);
        expect(await store.find(identity.key)).toEqual(put.page);
      });

      it.each([
        ['0 reports', { body: '<reports/>', reports: 0 }],
        [
          'null values: the only page, not XML, of a service without a clock',
          { nextCursor: null, serviceTime: null, reports: null },
        ],
      ])('finds a page only once it is stored, with %s', async (_, parts) => {
        const identity = anIdentity({ page: 1 });
        expect(await store.find(identity.key)).toBeUndefined();
        const received = aFetchedPage(parts);
        const put = await putPage(store, identity, received);
        const { reports, documentRoot, nextCursor, serviceTime } = received;
        expect(put.page).toEqual({ ...put.page, ...identity, reports, documentRoot, nextCursor, serviceTime });
        expect(await store.find(identity.key)).toEqual(put.page);
      });

      const printable = Array.from({ length: 95 }, (_, index) => String.fromCharCode(32 + index)).join('');
      it.each([
        ['all of printable ASCII', `x${printable}x`],
        ['spaces at both ends', '  1588888888888,a b  '],
        ['text that looks like an encoded word', '=?UTF-8?Q?=41?='],
        ['percent signs and plus signs', '1588888888888%2C+%00%'],
        ['1 KB', printable.repeat(11).slice(0, 1_024)],
        ['4 KB', printable.repeat(44).slice(0, 4_096)],
      ])('keeps an unusual cursor whole or as its hash, and the next one whole: %s', async (_, odd) => {
        const identity = anIdentity({ page: 2, cursor: asCursor(odd) });
        const nextCursor = asCursor(odd.split('').reverse().join(''));

        const put = await putPage(store, identity, aFetchedPage({ nextCursor }));
        const found = await store.find(identity.key);

        for (const page of [put.page, found]) {
          expectWholeOrHash(page?.cursor, asCursor(odd));
          expect(page?.nextCursor).toBe(nextCursor);
        }
        expect(found?.sha256).toBe(put.page.sha256);
      });

      it.each([
        ['empty', 0],
        ['a single byte', 1],
        ['large', largeBytes + 1],
      ])('keeps a body byte for byte, in chunks of any length: %s', async (_, length) => {
        const identity = anIdentity();
        const body = randomBody(length);

        const put = await putPage(store, identity, aFetchedPage({ body: inRandomChunks(body) }));

        expect(put.page).toMatchObject({ bytes: length, sha256: sha256Of(body) });
        expect(await store.find(identity.key)).toEqual(put.page);
        const read = await readPage(identity.key);
        expect(read && sha256Of(read)).toBe(sha256Of(body));
      });

      it('shows a page only once it is put, and nothing of it while its body arrives', async () => {
        const identity = anIdentity();
        const seen: unknown[] = [];
        const look = async () => seen.push(await harness.read(identity.key), await store.find(identity.key));
        async function* body() {
          yield randomBody(700_000);
          await look();
          yield Buffer.from('the end');
        }
        await using spool = store.spool(identity);
        await spool.fill(body());
        // A store that does not wait for the put would show the page within this time.
        await new Promise((resolve) => setTimeout(resolve, 100));
        await look();
        expect(seen).toEqual([undefined, undefined, undefined, undefined]);

        expect((await spool.put(aFetchedPage())).stored).toBe(true);
        expect((await store.find(identity.key))?.bytes).toBe(700_007);
      });

      it('stores nothing of a page that is not put, which leaves no trace on a later one with the same bytes', async () => {
        const identity = anIdentity();
        {
          await using spool = store.spool(identity);
          await spool.fill(aFetchedPage({ body: 'whole' }).body);
        }
        expect(await store.find(identity.key)).toBeUndefined();
        await expectNothingAt(identity.key);

        // Another attempt may receive another cursor for the same page.
        const retried = { ...identity, cursor: aCursor() };
        const again = await putPage(store, retried, aFetchedPage({ body: 'whole' }));
        expect(again).toMatchObject({ stored: true, page: { sha256: sha256Of('whole') } });
        expectWholeOrHash(again.page.cursor, retried.cursor);
      });

      it.each([
        ['at its start', 0],
        ['in the middle', 100_000],
        ['at its very end', largeBytes],
      ])('stores nothing if the body throws %s, and rethrows its error unchanged', async (_, length) => {
        const identity = anIdentity();
        const broken = new Error('the response was truncated');
        const page = aFetchedPage({ body: breaking(broken, ...inRandomChunks(randomBody(length))) });
        expect(await putPage(store, identity, page).catch((error: unknown) => error)).toBe(broken);
        expect(await store.find(identity.key)).toBeUndefined();
        await expectNothingAt(identity.key);

        const again = await putPage(store, identity, aFetchedPage({ body: 'whole' }));
        expect(again.stored).toBe(true);
        expect(await text(identity.key)).toBe('whole');
      });

      it('never overwrites a page, but returns the existing one', async () => {
        const identity = anIdentity({ page: 3 });
        const first = await putPage(store, identity, aFetchedPage({ body: 'first', reports: 1 }));

        const second = await putPage(writer(1), identity, aFetchedPage({ body: 'second', reports: 2 }));
        const same = await putPage(writer(1), identity, aFetchedPage({ body: 'first', reports: 1 }));
        // A store that looks for the page before it reads the body may return the existing one instead of the error.
        await putPage(writer(1), identity, aFetchedPage({ body: breaking(new Error('cut off')) })).catch(() => {});

        expect(second).toEqual({ stored: false, page: first.page });
        expect(same).toEqual({ stored: false, page: first.page });
        expect(await store.find(identity.key)).toEqual(first.page);
        expect(await text(identity.key)).toBe('first');
      });

      it.each([
        ['each with different bytes', (index: number) => `page as writer ${index} got it`],
        ['all with the same bytes but another next cursor', () => 'the same for all'],
      ])('lets one of several concurrent writers store a page, and returns it to all: %s', async (_, bodyOf) => {
        const identity = anIdentity({ page: 2 });
        const offers = Array.from({ length: 8 }, (_, index) => ({
          body: bodyOf(index),
          nextCursor: aCursor(),
          reports: index,
        }));

        const results = await Promise.all(
          offers.map((offer, index) => putPage(writer(index), identity, aFetchedPage(offer))),
        );

        const winner = results.findIndex(({ stored }) => stored);
        const offer = offers[winner];
        expect(results.filter(({ stored }) => stored)).toHaveLength(1);
        expect(await text(identity.key)).toBe(offer?.body);
        const page = await store.find(identity.key);
        expect(page).toMatchObject({ nextCursor: offer?.nextCursor, reports: offer?.reports });
        for (const result of results) expect(result.page).toEqual(page);
      });

      it('finds what another adapter stored', async () => {
        const identity = anIdentity();
        const { page } = await putPage(writer(1), identity, aFetchedPage());
        expect(await store.find(identity.key)).toEqual(page);
      });

      it('shows consumers the pages and the manifest of a run, and nothing else', async () => {
        const folder = aRunFolder();
        const keys = [1, 2, 3].map((page) => anIdentity({ folder, page }).key);
        for (const [index, key] of keys.entries()) {
          await putPage(store, anIdentity({ folder, key, page: index + 1 }), aFetchedPage());
        }
        await store.putDocument(`${folder}/manifest.json`, stream('{}'));

        expect([...(await harness.list(`${folder}/`))].sort()).toEqual([`${folder}/manifest.json`, ...keys]);
      });
    });

    describe('manifests', () => {
      const aManifestKey = () => `${aRunFolder()}/manifest.json`;

      it('stores a manifest as it was streamed, in UTF-8', async () => {
        const key = aManifestKey();
        await store.putDocument(key, stream('{"pages":[', '"Zürich",', '"北",', '"🜁"', ']}'));
        expect(await text(key)).toBe('{"pages":["Zürich","北","🜁"]}');
      });

      it('stores a large manifest', async () => {
        const key = aManifestKey();
        const line = `${'x'.repeat(1_023)}\n`;
        await store.putDocument(key, stream(...Array.from({ length: largeMiB * 1_024 + 1 }, () => line)));
        expect((await harness.read(key))?.length).toBe(largeBytes + 1_024);
      });

      it('accepts the same manifest again, in other chunks', async () => {
        const key = aManifestKey();
        await store.putDocument(key, stream('{"pages":', '[]}'));
        await writer(1).putDocument(key, stream('{', '"pages":[]', '}'));
        expect(await text(key)).toBe('{"pages":[]}');
      });

      it('rejects a different manifest, and keeps the first one', async () => {
        const key = aManifestKey();
        await store.putDocument(key, stream('{"pages":[]}'));
        await expect(writer(1).putDocument(key, stream('{"pages":{}}'))).rejects.toMatchObject({
          name: 'PageConflictError',
        });
        expect(await text(key)).toBe('{"pages":[]}');
      });

      it('keeps one of several different manifests that are written concurrently, and rejects the others', async () => {
        const key = aManifestKey();
        const results = await Promise.allSettled(
          Array.from({ length: 8 }, (_, index) => writer(index).putDocument(key, stream(`{"by":${index}}`))),
        );
        const kept = results.flatMap(({ status }, index) => (status === 'fulfilled' ? [index] : []));
        expect(kept).toHaveLength(1);
        expect(await text(key)).toBe(`{"by":${kept[0]}}`);
        const rejections = results.flatMap((result) =>
          result.status === 'rejected' ? [result.reason as unknown] : [],
        );
        for (const rejection of rejections) expect(rejection).toMatchObject({ name: 'PageConflictError' });
      });

      it('accepts the same manifest from several concurrent writers', async () => {
        const key = aManifestKey();
        await Promise.all(
          Array.from({ length: 8 }, (_, index) => writer(index).putDocument(key, stream('{"by":', '"all"}'))),
        );
        expect(await text(key)).toBe('{"by":"all"}');
      });

      it.each([
        ['at its start', []],
        ['after a little', ['{"pages":[']],
        ['after a lot', Array.from({ length: largeMiB }, () => 'x'.repeat(1_024 * 1_024))],
      ])('stores nothing if the manifest throws %s, and rethrows its error unchanged', async (_, chunks) => {
        const key = aManifestKey();
        const broken = new Error('the page log failed');
        async function* breaking() {
          yield* chunks;
          throw broken;
        }
        expect(await store.putDocument(key, breaking()).catch((error: unknown) => error)).toBe(broken);
        await expectNothingAt(key);

        await store.putDocument(key, stream('{}'));
        expect(await text(key)).toBe('{}');
      });
    });

    describe('reading', () => {
      const readWhole = async (key: string) => {
        const chunks = await store.read(key);
        return chunks && Buffer.concat(await collect(chunks)).toString('latin1');
      };

      it('returns pages and manifests byte for byte', async () => {
        const identity = aPageIdentity();
        const body = randomBody(200_000);
        await putPage(store, identity, aFetchedPage({ body }));
        expect(await readWhole(identity.key)).toBe(Buffer.from(body).toString('latin1'));

        const manifest = `${aRunFolder()}/manifest.json`;
        await store.putDocument(manifest, stream('{"pages":', '[]}'));
        expect(await readWhole(manifest)).toBe('{"pages":[]}');
      });

      it('returns no bytes for an empty page, and undefined if there is no object', async () => {
        const identity = aPageIdentity();
        await putPage(store, identity, aFetchedPage({ body: '' }));
        expect(await readWhole(identity.key)).toBe('');
        expect(await readWhole(aPageIdentity().key)).toBeUndefined();
        expect(await readWhole(`${anExportName()}/latest.json`)).toBeUndefined();
      });

      it('can be stopped early', async () => {
        const identity = aPageIdentity();
        await putPage(store, identity, aFetchedPage({ body: randomBody(3_000_000) }));
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

      it('points to the newest manifest', async () => {
        const exportName = anExportName();
        const key = `${exportName}/latest.json`;
        const first = aLatest({ export: exportName, sequence: 1 });
        const second = aLatest({ export: exportName, sequence: 2 });

        await store.putLatest(key, first, hasBegun);
        expect(await pointer(key)).toEqual(first);
        await writer(1).putLatest(key, second, hasBegun);
        expect(await pointer(key)).toEqual(second);
      });

      it('never moves back, neither from 10 to 9 nor by a late writer', async () => {
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

      it('is replaced if its run has never begun, after asking once', async () => {
        const latest = aLatest({ sequence: 8 });
        const key = `${latest.export}/latest.json`;
        await store.putLatest(key, aLatest({ export: latest.export, sequence: Number.MAX_SAFE_INTEGER }), hasBegun);
        const checked: number[] = [];
        await writer(1).putLatest(key, latest, async (sequence) => {
          checked.push(sequence);
          return sequence <= 8;
        });
        expect(await pointer(key)).toEqual(latest);
        expect(checked).toEqual([Number.MAX_SAFE_INTEGER]);
      });

      it('does not ask whether a run has begun while it moves forward', async () => {
        const exportName = anExportName();
        const key = `${exportName}/latest.json`;
        const neverCalled = async () => {
          throw new Error('hasBegun was called');
        };
        for (const sequence of [7, 8, 8])
          await store.putLatest(key, aLatest({ export: exportName, sequence }), neverCalled);
        expect(await pointer(key)).toMatchObject({ sequence: 8 });
      });

      it('ends at the newest of several that are written concurrently', async () => {
        const exportName = anExportName();
        const key = `${exportName}/latest.json`;
        const pointers = Array.from({ length: 8 }, (_, index) => aLatest({ export: exportName, sequence: index + 1 }));
        const shuffled = [...pointers.filter(isOdd), ...pointers.filter((latest) => !isOdd(latest)).reverse()];

        await Promise.all(shuffled.map((latest, index) => writer(index).putLatest(key, latest, hasBegun)));

        expect(await pointer(key)).toEqual(pointers.at(-1));
      });
    });

    describe('a listing', () => {
      it('returns the pages of a folder as they were stored, and its manifest', async () => {
        const folder = aRunFolder();
        const pages = [];
        for (const [index, body] of ['', 'one', randomBody(9 * 1_024 * 1_024)].entries()) {
          const put = await putPage(store, aPageIdentity({ folder, page: index + 1 }), aFetchedPage({ body }));
          pages.push({ key: put.page.key, bytes: body.length, revision: put.page.revision });
        }
        await store.putDocument(`${folder}/manifest.json`, stream('{}'));

        const listed = (await collect(store.list(folder))).sort((a, b) => (a.key < b.key ? -1 : 1));

        const manifest = { key: `${folder}/manifest.json`, bytes: 2, revision: listed[0]?.revision };
        expect(listed).toEqual([manifest, ...pages]);
      });

      it('returns the sizes of the objects of compressed pages, which can be read', async () => {
        const folder = aRunFolder();
        const identity = aPageIdentity({ folder, compression: 'gzip' });
        const { page } = await putPage(store, identity, aFetchedPage({ body: 'x'.repeat(10_000) }));
        const { key, revision, storedBytes, storedSha256 } = page;
        expect(await collect(store.list(folder))).toEqual([{ key, bytes: storedBytes, revision }]);
        expect(page.bytes).toBe(10_000);
        const object = Buffer.concat(await collect((await store.read(key)) ?? Readable.from([])));
        expect({ bytes: object.length, sha256: sha256Of(object) }).toEqual({
          bytes: storedBytes,
          sha256: storedSha256,
        });
      });

      it('returns different revisions for different bytes of the same length, or none', async () => {
        const folder = aRunFolder();
        for (const page of [1, 2, 3]) {
          await putPage(store, aPageIdentity({ folder, page }), aFetchedPage({ body: `page ${page}` }));
        }
        const revisions = (await collect(store.list(folder))).map(({ revision }) => revision);
        expect(new Set(revisions).size).toBe(revisions.includes(null) ? 1 : 3);
      });

      it('of a missing folder is empty', async () => {
        expect(await collect(store.list(aRunFolder()))).toEqual([]);
      });

      it('excludes subfolders, and folders whose names have the same prefix', async () => {
        const folder = aRunFolder();
        const keys = ['page.xml', 'deeper/page.xml'].map((name) => `${folder}/${name}`);
        for (const key of [...keys, `${folder}0/page.xml`])
          await putPage(store, aPageIdentity({ key }), aFetchedPage());
        expect((await collect(store.list(folder))).map(({ key }) => key)).toEqual([keys[0]]);
      });

      it(`returns all ${listedObjects} objects, each once`, async () => {
        const folder = aRunFolder();
        const keys = Array.from(
          { length: listedObjects },
          (_, index) => `${folder}/${String(index).padStart(4, '0')}.json`,
        );
        await mapConcurrently(keys, 16, (key) => store.putDocument(key, stream('{}')));
        expect((await collect(store.list(folder))).map(({ key }) => key).sort()).toEqual(keys);
      });

      it('returns a page as soon as it is stored, and can be stopped early', async () => {
        const folder = aRunFolder();
        for (const page of [1, 2, 3]) {
          await putPage(store, aPageIdentity({ folder, page }), aFetchedPage());
          const seen = await collect(writer(page).list(folder));
          expect(seen).toHaveLength(page);
        }
        for await (const { bytes } of store.list(folder)) {
          expect(bytes).toBeGreaterThan(0);
          break;
        }
      });
    });

    describe('a listing of folders', () => {
      const foldersIn = async (folder: string) => (await collect(store.listFolders(folder))).sort();

      it('returns the folders directly in a folder, each once, without what is in them', async () => {
        const exportName = anExportName();
        const keys = ['a/1.json', 'a/2.json', 'b/deeper/1.json', 'c.json'].map((name) => `${exportName}/${name}`);
        for (const key of [...keys, `${exportName}0/d/1.json`]) await store.putDocument(key, stream('{}'));
        expect(await foldersIn(exportName)).toEqual([`${exportName}/a`, `${exportName}/b`]);
        expect(await foldersIn(`${exportName}/b`)).toEqual([`${exportName}/b/deeper`]);
        expect(await foldersIn(`${exportName}/a`)).toEqual([]);
      });

      it('of a missing folder is empty', async () => {
        expect(await foldersIn(anExportName())).toEqual([]);
      });

      it('has no folders of the store itself', async () => {
        const identity = aPageIdentity();
        await putPage(store, identity, aFetchedPage());
        expect(await foldersIn(identity.key.split('/').slice(0, -1).join('/'))).toEqual([]);
      });

      it(`returns all ${listedFolders} folders`, async () => {
        const exportName = anExportName();
        const folders = Array.from(
          { length: listedFolders },
          (_, index) => `${exportName}/${String(index).padStart(4, '0')}`,
        );
        await mapConcurrently(folders, 16, (folder) => store.putDocument(`${folder}/run.json`, stream('{}')));
        expect(await foldersIn(exportName)).toEqual(folders);
      });
    });

    it('locates a key for messages', () => {
      const { key } = aPageIdentity();
      expect(store.locate(key).endsWith(key)).toBe(true);
    });
  });
}

const isOdd = ({ sequence }: LatestPointer) => sequence % 2 === 1;

function* breaking(error: Error, ...chunks: readonly Uint8Array[]): Generator<Uint8Array> {
  yield* chunks;
  throw error;
}

async function* stream(...chunks: readonly string[]): AsyncGenerator<string> {
  yield* chunks;
}

/** A store that cannot hold a cursor whole returns its hash. */
function expectWholeOrHash(actual: StoredCursor | undefined, cursor: Cursor): void {
  expect([cursor, { sha256: sha256Of(cursor) }]).toContainEqual(actual);
}
