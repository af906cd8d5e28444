/** What must hold before a run is published: its log is consistent, and the store holds every page that it names. */

import { describe, expect, it } from 'vitest';
import { asDocumentRoot } from '../../../lib/core/document-root.ts';
import { asRunId, type LogEntry, type PageEntry } from '../../../lib/core/model.ts';
import type { ListedObject, PageLog, PageStore, StepDependencies } from '../../../lib/core/ports.ts';
import { exportPage } from '../../../lib/core/steps/export-page.ts';
import { finishRun } from '../../../lib/core/steps/finish-run.ts';
import { storedEntries } from '../../../lib/core/steps/inventory.ts';
import { pageKey, pageAt } from '../../../lib/core/storage/keys.ts';
import { manifestChunks } from '../../../lib/core/storage/manifest.ts';
import { foldContent } from '../../../lib/core/storage/run-content.ts';
import { runExecution } from '../../../lib/local/execution.ts';
import { aCursor, anEndEntry, anExportRequest, aPageEntry, aRun, aRunId, at, collect } from '../../support/builders.ts';
import {
  anExportBench,
  begin,
  type Bench,
  completed,
  cutOffAt,
  failed,
  manifestsIn,
  pagesIn,
} from '../../support/export/export-bench.ts';
import { createMemoryLog, createMemoryStore } from '../../support/export/memory-adapters.ts';
import { someReports } from '../../support/export/scripted-service.ts';

const nothingPlaced = { ends: new Map(), attempts: new Map() };

/** A bench whose run was interrupted before publication: every page is logged, nothing is published. */
async function interruptedBeforePublication(): Promise<{ readonly bench: Bench; readonly pages: readonly string[] }> {
  const { bench, resume } = cutOffAt('before the manifest is written');
  await bench.start();
  resume();
  expect(manifestsIn(bench)).toEqual([]);
  return { bench, pages: pagesIn(bench) };
}

describe('the check of the store', () => {
  /** Finishes a run of three pages with another log, or another store. */
  async function finishWith(change: (bench: Bench) => Partial<Pick<StepDependencies, 'log' | 'store'>>) {
    const bench = anExportBench({ limits: { pagesPerInvocation: 25 } });
    const loop = await begin(bench.deps, 'one');
    await exportPage(bench.deps, { loop, execution: 'one' });
    return await finishRun({ ...bench.deps, ...change(bench) }, { run: asRunId(loop.run), execution: 'one' });
  }
  it('fails with the error of the store', async () => {
    const list = () => {
      throw new Error('the store cannot be listed');
    };
    await expect(finishWith(({ store }) => ({ store: { ...store, list } }))).rejects.toThrow('cannot be listed');
  });

  it('stops listing if the log cannot be read', async () => {
    let listing = 'not started';
    const finished = finishWith((bench) => ({
      log: {
        ...bench.log,
        async *entries(chain) {
          // The first page is read for the header of the manifest.
          yield* (await collect(bench.log.entries(chain))).slice(0, 1);
          throw new Error('the log cannot be read');
        },
      },
      store: {
        ...bench.store,
        async *list(folder) {
          try {
            for (let round = 0; round < 1_000; round += 1) yield* bench.store.list(folder);
            listing = 'complete';
          } finally {
            if (listing !== 'complete') listing = 'stopped';
          }
        },
      },
    }));
    await expect(finished).rejects.toThrow('the log cannot be read');
    expect(listing).toBe('stopped');
  });
});

describe('a page that is no longer stored as it was logged', () => {
  it.each<[string, (objects: Map<string, string>, keys: readonly string[]) => unknown, RegExp]>([
    [
      'it was deleted',
      (objects, [, second = '']) => objects.delete(second),
      /^Page 2 of run .*page-000002\.xml does not exist/,
    ],
    ['all pages were deleted', (objects) => objects.clear(), /^Page 1 of run .* does not exist/],
    [
      'it was truncated',
      (objects, [, , third = '']) => objects.set(third, ''),
      /^Page 3 of run .* has 0 bytes instead of \d+/,
    ],
    [
      'it was replaced by one of the same size',
      (objects, [first = '']) => objects.set(first, (objects.get(first) ?? '').replace('r1', 'r9')),
      /^Page 1 of run .* was replaced: its revision is [0-9a-f]{32} instead of [0-9a-f]{32}/,
    ],
    [
      'it was swapped with another page',
      (objects, [first = '', second = '']) => {
        const [one = '', two = ''] = [objects.get(first), objects.get(second)];
        objects.set(first, two).set(second, one);
      },
      /^Page 1 of run/,
    ],
    [
      'there is one more page that was never logged',
      (objects, [first = '']) => objects.set(first.replace('page-000001', 'page-000004'), '<reports/>'),
      /^Page 4 of run .*page-000004\.xml exists but was never logged/,
    ],
  ])('is named in the error, and nothing is published: %s', async (_, change, expected) => {
    const { bench, pages } = await interruptedBeforePublication();
    change(bench.store.objects, pages);
    const end = failed(await bench.start());
    expect(end).toMatchObject({ error: 'PageConflictError', resumable: true, pages: 3 });
    expect(end.message).toMatch(expected);
    expect(end.message).toMatch(/Restore the page and start again, or start with --restart/);
    expect(manifestsIn(bench)).toEqual([]);
    expect(bench.store.objects.has(`${bench.deps.definition.name}/latest.json`)).toBe(false);
  });

  it('is published by the next start once it is restored, or by a new run', async () => {
    for (const restart of [false, true]) {
      const { bench, pages } = await interruptedBeforePublication();
      const [first = ''] = pages;
      const body = bench.store.objects.get(first) ?? '';
      bench.store.objects.delete(first);
      failed(await bench.start());
      if (!restart) bench.store.objects.set(first, body);
      const { manifest, reports } = completed(await bench.start({ restart }));
      expect([manifestsIn(bench), reports]).toEqual([[manifest], 5]);
    }
  });

  it('is not confused with other objects in the folder', async () => {
    const { bench, pages } = await interruptedBeforePublication();
    const [first = ''] = pages;
    for (const name of [
      '.DS_Store',
      'notes.txt',
      'page-1.xml',
      'page-000009.json',
      'page-0000009.xml',
      'page-000000.xml',
    ])
      bench.store.objects.set(first.replace('page-000001.xml', name), 'something else');
    expect(await bench.start()).toMatchObject({ status: 'completed', result: { pages: 3 } });
  });

  it('is checked again if the manifest exists already, which stays the same', async () => {
    const { bench, resume } = cutOffAt('after the manifest is written');
    await bench.start();
    const [manifest = ''] = manifestsIn(bench);
    const text = bench.store.objects.get(manifest);
    resume();
    expect(completed(await bench.start()).manifest).toBe(manifest);
    expect(bench.store.objects.get(manifest)).toBe(text);
  });
});

describe('the inventory of a long run', () => {
  const run = aRun({ request: anExportRequest() });
  const numbers = Array.from({ length: 9_000 }, (_, index) => index + 1);
  const entry = (page: number): PageEntry => ({ ...entryOf, page, key: pageKey(run, { page }), bytes: page });
  const entryOf = aPageEntry({ export: run.export, run: run.run, revision: 'one' });

  /** A log of these pages, and a store that lists them as `objects` returns them, at each listing. */
  function dependenciesFor(objects: (page: number) => ListedObject | undefined) {
    let listings = 0;
    const log: PageLog = {
      ...createMemoryLog(),
      async *entries() {
        for (const page of numbers) yield entry(page);
      },
    };
    const store: PageStore = {
      ...createMemoryStore(),
      async *list() {
        listings += 1;
        // In an arbitrary order, as a directory may list.
        for (const page of numbers.toSorted((a, b) => (a % 97) - (b % 97) || b - a)) {
          const object = objects(page);
          if (object !== undefined) yield object;
        }
      },
    };
    return { deps: { log, store }, listings: () => listings };
  }

  it('needs one listing if nothing has changed, in any order', async () => {
    const { deps, listings } = dependenciesFor(entry);
    expect(await collect(storedEntries(deps, run, nothingPlaced))).toHaveLength(numbers.length);
    expect(listings()).toBe(1);
  });

  it('names the first of several changed pages', async () => {
    const { deps, listings } = dependenciesFor((page) => {
      if (page === 8_999 || page === 8_300) return undefined;
      return page === 8_400 ? { ...entry(page), revision: 'two' } : entry(page);
    });
    await expect(collect(storedEntries(deps, run, nothingPlaced))).rejects.toThrow(
      /^Page 8300 of run .* does not exist/,
    );
    expect(listings()).toBe(2);
  });

  it('detects two changes whose sizes cancel out within one chunk', async () => {
    const { deps } = dependenciesFor((page) => ({ ...entry(page), bytes: page === 5 ? 6 : page === 6 ? 5 : page }));
    await expect(collect(storedEntries(deps, run, nothingPlaced))).rejects.toThrow(
      /^Page 5 of run .* has 6 bytes instead of 5/,
    );
  });

  it('reports a store that changes during the check', async () => {
    const { deps, listings } = dependenciesFor((page) =>
      page === 5_000 && listings() === 1 ? undefined : entry(page),
    );
    await expect(collect(storedEntries(deps, run, nothingPlaced))).rejects.toThrow(
      /^Page 4097 of run .*: this page, or one after it, changed during the check/,
    );
  });

  it.each([1, 999_999, 1_000_000, 123_456_789_012])('finds page %i by its key', (page) => {
    expect(pageAt(run, pageKey(run, { page }))).toEqual({ page });
  });
});

describe('a page log that is inconsistent', () => {
  const run = { ...aRun(), completion: { at: at('2026-11-20T03:00:00Z'), isPublished: true } };
  const cursor = aCursor();
  const bases = { export: run.export, run: run.run, bytes: 100, reports: 2 };
  const first = aPageEntry({ ...bases, page: 1, key: pageKey(run, { page: 1 }), nextCursor: cursor });
  const last = aPageEntry({ ...bases, page: 2, key: pageKey(run, { page: 2 }), cursor, nextCursor: null });

  const end = anEndEntry({ ...last, nextCursor: cursor });
  const open = { ...last, nextCursor: cursor };

  const manifestOf = async (entries: readonly LogEntry[], ends = { first, last: entries.at(-1) ?? last }) => {
    const folded = foldContent(run);
    folded.add(ends.first, ends.last);
    const content = folded.content();
    async function* each() {
      yield* entries;
    }
    return (await collect(manifestChunks(run, content, each()))).join('');
  };

  it.each([[[first, last]], [[first, open, end]]])('is published if it is consistent', async (entries) => {
    const text = await manifestOf(entries);
    expect(JSON.parse(text).totals).toEqual({ pages: 2, reports: 4, bytes: 200 });
    expect(await manifestOf(entries)).toBe(text);
  });

  it('has no total of reports from the first page on whose reports are unknown', async () => {
    const unknown = { ...last, reports: null, totals: { reports: null, bytes: 200 } };
    expect(JSON.parse(await manifestOf([first, unknown])).totals.reports).toBeNull();
    const counted = { ...last, totals: { reports: 2, bytes: 200 } };
    const uncounted = { ...first, reports: null, totals: { reports: null, bytes: 100 } };
    await expect(manifestOf([uncounted, counted])).rejects.toThrow(/totals of page 2/);
  });

  it.each<[string, readonly LogEntry[], RegExp]>([
    ['a page is missing', [last], /page 2 follows page 0/],
    ['a page comes twice', [first, first], /page 1 follows page 1/],
    ['there is none', [], /it is empty/],
    ['the last page has a next cursor', [first, { ...last, nextCursor: aCursor() }], /ends with page 2/],
    [
      'a cursor is not that of the page before',
      [first, { ...last, cursor: aCursor() }],
      /page 2 was not requested with/,
    ],
    ['page 1 was requested with a cursor', [{ ...first, cursor: aCursor() }, last], /page 1 was not requested with/],
    ['a page is another run’s', [first, { ...last, run: aRunId() }], /page 2 belongs to run/],
    ['a page is another export’s', [first, { ...last, export: 'other' }], /page 2 belongs to run .* of export other/],
    ['a page has another key', [first, { ...last, key: first.key }], /page 2 has the key .*page-000001/],
    [
      'its pages go in circles',
      [{ ...first, repeats: true }, last],
      /page 1 returned a cursor that occurred earlier in the run/,
    ],
    [
      'its pages have different root elements',
      [first, { ...last, documentRoot: asDocumentRoot('error') }],
      /page 2 has the root element error, and pages before it have the root element reports/,
    ],
    ['the bytes do not add up', [first, { ...last, totals: { reports: 4, bytes: 201 } }], /totals of page 2/],
    ['the reports do not', [first, { ...last, totals: { reports: 5, bytes: 200 } }], /totals of page 2/],
    ['the reports are lost', [first, { ...last, totals: { reports: null, bytes: 200 } }], /totals of page 2/],
    ['an end has another cursor', [first, open, { ...end, cursor: null }], /not requested with the cursor/],
    ['an end leaves a gap', [first, open, { ...end, page: 4 }], /page 4 follows page 2/],
    ['an end has other totals', [first, open, { ...end, totals: { reports: 3, bytes: 200 } }], /the totals of page 3/],
    ['an end is another run’s', [first, open, { ...end, run: asRunId('x') }], /belongs to run x/],
    ['a page follows the end', [first, open, end, { ...first, page: 4 }], /page 4 follows the end/],
    ['there is no end', [first, open], /it ends with page 2/],
  ])('is not published: %s', async (_, entries, says) => {
    const manifest = manifestOf(entries);
    await expect(manifest).rejects.toMatchObject({ name: 'PageConflictError' });
    await expect(manifest).rejects.toThrow(says);
    await expect(manifest).rejects.toThrow(/is not published\. Restore its log and start again, or start with/);
  });

  it('is not published unless it has each slice to its end, in order', async () => {
    const parallel = { ...run, slices: { count: 2, lengthMs: 86_400_000, parallel: 2 } };
    const pagesOf = (slice: number) =>
      [first, last].map((entry) => {
        const ref = { slice, attempt: 1, page: entry.page };
        return { ...entry, ...ref, key: pageKey(run, ref) };
      }) as [PageEntry, PageEntry];
    const [one, two] = [pagesOf(1), pagesOf(2)];
    const folded = foldContent(parallel);
    for (const [start, final] of [one, two]) folded.add(start, final);
    const content = folded.content();
    async function* each(entries: readonly PageEntry[]) {
      yield* entries;
    }
    const chunksOf = async (entries: readonly PageEntry[]) =>
      await collect(manifestChunks(parallel, content, each(entries)));
    const { pages } = JSON.parse((await chunksOf([...one, ...two])).join(''));
    expect(pages.map(({ page, slice }: PageEntry) => [page, slice])).toEqual([
      [1, 1],
      [2, 1],
      [3, 2],
      [4, 2],
    ]);
    await expect(chunksOf([one[0], ...two])).rejects.toThrow('it ends with page 1 of slice 1');
    await expect(chunksOf(one)).rejects.toThrow('it has changed while it was read');
    await expect(chunksOf([...two, ...one])).rejects.toThrow('page 1 of slice 2 is not of slice 1');
    await expect(chunksOf([...one, ...two, ...one])).rejects.toThrow('page 1 of slice 1 is not of slice 3');
  });

  it('is not published if its last page changes while the log is read', async () => {
    const ends = { first, last: { ...last, serviceTime: null } };
    await expect(manifestOf([first, last], ends)).rejects.toThrow(/it has changed while it was read/);
  });
});

describe('latest.json', () => {
  const latestOf = (bench: Bench) => `${bench.deps.definition.name}/latest.json`;

  it.each<[string, (text: string) => string]>([
    ['a sequence beyond every run', (text) => text.replace(/"sequence":\d+/, '"sequence":9007199254740991')],
    ['a truncated file', (text) => text.slice(0, 30)],
  ])('points to the newest run again after it was changed to %s', async (_, change) => {
    const bench = anExportBench();
    await bench.start();
    const key = latestOf(bench);
    bench.store.objects.set(key, change(bench.store.objects.get(key) ?? ''));

    const { manifest } = completed(await bench.start());
    const { sequence } = await bench.state();
    expect(JSON.parse(bench.store.objects.get(key) ?? '')).toMatchObject({ manifest, sequence });
  });

  it('is not changed by an older run that finishes after a newer one', async () => {
    let overtake = async () => {};
    const bench = anExportBench({ reports: someReports(3) });
    const store: PageStore = {
      ...bench.store,
      async putLatest(key, latest, hasBegun) {
        const act = overtake;
        overtake = async () => {};
        await act();
        await bench.store.putLatest(key, latest, hasBegun);
      },
    };
    const slow = () => runExecution({ ...bench.deps, store }, { name: 'slow', input: {} });
    overtake = async () => {
      // It was abandoned, right before its manifest was written.
      const { active: _, ...idle } = await bench.state();
      await bench.log.replaceState({ ...idle, version: idle.version + 1 });
      expect(await bench.start()).toMatchObject({ status: 'completed' });
    };
    expect(await slow()).toMatchObject({ status: 'skipped' });
    expect(JSON.parse(bench.store.objects.get(latestOf(bench)) ?? '')).toMatchObject({
      sequence: (await bench.state()).sequence,
    });
  });
});
