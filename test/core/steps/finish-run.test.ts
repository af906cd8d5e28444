/** The last look before a run is published: what its log names must add up, and must lie in the store. */

import { describe, expect, it } from 'vitest';
import type { PageEntry } from '../../../lib/core/model.ts';
import type { ListedObject, PageLog, PageStore } from '../../../lib/core/ports.ts';
import { storedEntries } from '../../../lib/core/steps/inventory.ts';
import { pageKey, pageNumberAt } from '../../../lib/core/storage/keys.ts';
import { manifestChunks } from '../../../lib/core/storage/manifest.ts';
import { type ExecutionEnd, interpretExecution } from '../../../lib/local/interpreter.ts';
import { aCursor, anExportRequest, aPageEntry, aRun, aRunId, at, collect, sha256Of } from '../../support/builders.ts';
import { anExportBench, type Bench } from '../../support/export-bench.ts';
import { someReports } from '../../support/scripted-service.ts';

const manifestsIn = ({ store }: Bench) => [...store.objects.keys()].filter((key) => key.endsWith('/manifest.json'));
const pagesIn = ({ store }: Bench) => [...store.objects.keys()].filter((key) => key.includes('/page-'));

function failure(end: ExecutionEnd) {
  if (end.status !== 'failed') throw new Error(`expected a failed run, got ${JSON.stringify(end)}`);
  return end.failed;
}

/** A bench that is cut off where its run is to be finished: every page logged, nothing published. */
async function allLogged(): Promise<{ readonly bench: Bench; readonly pages: readonly string[] }> {
  let down = true;
  const crash = (moment: string) => {
    if (down && moment === 'before the manifest is written') throw new Error('cut off');
  };
  const bench = anExportBench({ reports: someReports(5), size: 2, crash });
  await bench.start();
  down = false;
  expect(manifestsIn(bench)).toEqual([]);
  return { bench, pages: pagesIn(bench) };
}

describe('a page that is not in the store any more as it was logged', () => {
  it.each<[string, (objects: Map<string, string>, keys: readonly string[]) => unknown, RegExp]>([
    [
      'it was deleted',
      (objects, [, second = '']) => objects.delete(second),
      /^Page 2 of run .*page-000002\.xml is gone/,
    ],
    ['all were', (objects) => objects.clear(), /^Page 1 of run .* is gone/],
    ['it was cut', (objects, [, , third = '']) => objects.set(third, ''), /^Page 3 of run .* has 0 bytes now, not \d+/],
    [
      'it was replaced by one of the same size',
      (objects, [first = '']) => objects.set(first, (objects.get(first) ?? '').replace('r1', 'r9')),
      /^Page 1 of run .* was replaced: it is [0-9a-f]{32} now, not [0-9a-f]{32}/,
    ],
    [
      'it changed places with another',
      (objects, [first = '', second = '']) => {
        const [one = '', two = ''] = [objects.get(first), objects.get(second)];
        objects.set(first, two).set(second, one);
      },
      /^Page 1 of run/,
    ],
    [
      'there is one more, which nobody logged',
      (objects, [first = '']) => objects.set(first.replace('page-000001', 'page-000004'), '<reports/>'),
      /^Page 4 of run .*page-000004\.xml is there, but was never logged/,
    ],
  ])('is named, and nothing is published: %s', async (_, change, says) => {
    const { bench, pages } = await allLogged();
    change(bench.store.objects, pages);
    const failed = failure(await bench.start());
    expect(failed).toMatchObject({ error: 'PageConflictError', resumable: true, pages: 3 });
    expect(failed.message).toMatch(says);
    expect(failed.message).toMatch(/put things back as they were and start again, or start with restart/);
    expect(manifestsIn(bench)).toEqual([]);
    expect(bench.store.objects.has(`${bench.deps.definition.name}/latest.json`)).toBe(false);
  });

  it('does not stand in the way of a new run', async () => {
    const { bench, pages } = await allLogged();
    bench.store.objects.delete(pages[0] ?? '');
    failure(await bench.start());
    const again = await bench.start({ restart: true });
    if (again.status !== 'completed') throw new Error(JSON.stringify(again));
    expect(manifestsIn(bench)).toEqual([again.result.manifest]);
    expect(again.result.reports).toBe(5);
  });

  it('once put back, is published by the next start', async () => {
    const { bench, pages } = await allLogged();
    const [first = ''] = pages;
    const body = bench.store.objects.get(first) ?? '';
    bench.store.objects.delete(first);
    failure(await bench.start());
    bench.store.objects.set(first, body);
    expect(await bench.start()).toMatchObject({ status: 'completed', result: { reports: 5 } });
  });

  it('does not mind what else lies there: other files, hidden ones, pages of other forms', async () => {
    const { bench, pages } = await allLogged();
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

  it('is looked for again where the manifest stands already: the run ends as it would have', async () => {
    let down = true;
    const crash = (moment: string) => {
      if (down && moment === 'after the manifest is written') throw new Error('cut off');
    };
    const bench = anExportBench({ reports: someReports(5), size: 2, crash });
    await bench.start();
    const [manifest = ''] = manifestsIn(bench);
    const text = bench.store.objects.get(manifest);
    down = false;

    expect(await bench.start()).toMatchObject({ status: 'completed', result: { manifest } });
    expect(bench.store.objects.get(manifest)).toBe(text);
  });
});

describe('stocktaking in a long run', () => {
  const run = aRun({ request: anExportRequest() });
  const numbers = Array.from({ length: 9_000 }, (_, index) => index + 1);
  const entry = (page: number): PageEntry => ({ ...entryOf, page, key: pageKey(run, page), bytes: page });
  const entryOf = aPageEntry({ export: run.export, run: run.run, revision: 'one' });

  /** A log of so many pages, and a store that lists them as `objects` says, each time it is asked. */
  function needsOf(objects: (page: number) => ListedObject | undefined) {
    let listings = 0;
    const log = {
      async *entries() {
        for (const page of numbers) yield entry(page);
      },
    } as unknown as PageLog;
    const store = {
      async *list() {
        listings += 1;
        // As a directory might: in no order anybody would expect.
        for (const page of numbers.toSorted((a, b) => (a % 97) - (b % 97) || b - a)) {
          const object = objects(page);
          if (object !== undefined) yield object;
        }
      },
      locate: (key: string) => `memory:${key}`,
    } as unknown as PageStore;
    return { deps: { log, store }, listings: () => listings };
  }

  it('takes one listing where all is well, in whatever order it comes', async () => {
    const { deps, listings } = needsOf(entry);
    expect(await collect(storedEntries(deps, run))).toHaveLength(numbers.length);
    expect(listings()).toBe(1);
  });

  it('names the first of several changes, however far in', async () => {
    const { deps, listings } = needsOf((page) => {
      if (page === 8_999 || page === 8_300) return undefined;
      return page === 8_400 ? { ...entry(page), revision: 'two' } : entry(page);
    });
    await expect(collect(storedEntries(deps, run))).rejects.toThrow(/^Page 8300 of run .* is gone/);
    expect(listings()).toBe(2);
  });

  it('does not take two changes for none: pages of one stretch that changed places', async () => {
    const { deps } = needsOf((page) => ({ ...entry(page), bytes: page === 5 ? 6 : page === 6 ? 5 : page }));
    await expect(collect(storedEntries(deps, run))).rejects.toThrow(/^Page 5 of run .* has 6 bytes now, not 5/);
  });

  it('says so where the store changes while it is looked at', async () => {
    const { deps, listings } = needsOf((page) => (page === 5_000 && listings() === 1 ? undefined : entry(page)));
    await expect(collect(storedEntries(deps, run))).rejects.toThrow(
      /^Page 4097 of run .*: it, or one behind it, changed while the store was looked at/,
    );
  });

  it.each([1, 999_999, 1_000_000, 123_456_789_012])('knows page %i by its key', (page) => {
    expect(pageNumberAt(run, pageKey(run, page))).toBe(page);
  });
});

describe('a log that does not add up', () => {
  const run = { ...aRun(), completedAt: at('2026-11-20T03:00:00Z') };
  const cursor = aCursor();
  const bases = { export: run.export, run: run.run, bytes: 100, reports: 2 };
  const first = aPageEntry({ ...bases, page: 1, key: pageKey(run, 1), nextCursor: cursor });
  const last = aPageEntry({ ...bases, page: 2, key: pageKey(run, 2), cursor, nextCursor: null });

  const manifestOf = async (entries: readonly PageEntry[], ends = { first, last: entries.at(-1) ?? last }) => {
    async function* each() {
      yield* entries;
    }
    return (await collect(manifestChunks(run, ends, each()))).join('');
  };

  it('is published where it does', async () => {
    const manifest = JSON.parse(await manifestOf([first, last]));
    expect(manifest.totals).toEqual({ pages: 2, reports: 4, bytes: 200 });
    expect(sha256Of(await manifestOf([first, last]))).toBe(sha256Of(await manifestOf([first, last])));
  });

  it('does not know its reports from the page on where one page does not', async () => {
    const unknown = { ...last, reports: null, totals: { reports: null, bytes: 200 } };
    expect(JSON.parse(await manifestOf([first, unknown])).totals.reports).toBeNull();
    const counted = { ...last, totals: { reports: 2, bytes: 200 } };
    const uncounted = { ...first, reports: null, totals: { reports: null, bytes: 100 } };
    await expect(manifestOf([uncounted, counted])).rejects.toThrow(/totals of page 2/);
  });

  it.each<[string, readonly PageEntry[], RegExp]>([
    ['a page is missing', [last], /page 2 follows page 0/],
    ['a page comes twice', [first, first], /page 1 follows page 1/],
    ['there is none', [], /ends with page 0/],
    ['it goes on', [first, { ...last, nextCursor: aCursor() }], /ends with page 2/],
    ['a cursor is not that of the page before', [first, { ...last, cursor: aCursor() }], /page 2 was not asked for/],
    ['page 1 was asked for with one', [{ ...first, cursor: aCursor() }, last], /page 1 was not asked for/],
    ['a page is another run’s', [first, { ...last, run: aRunId() }], /page 2 is one of run/],
    ['a page is another export’s', [first, { ...last, export: 'other' }], /page 2 is one of run .* of export other/],
    ['a page is said to lie elsewhere', [first, { ...last, key: first.key }], /page 2 is said to lie at .*page-000001/],
    [
      'its pages go in circles',
      [{ ...first, repeats: true }, last],
      /page 1 goes on with a cursor that was met before/,
    ],
    ['the bytes do not add up', [first, { ...last, totals: { reports: 4, bytes: 201 } }], /totals of page 2/],
    ['the reports do not', [first, { ...last, totals: { reports: 5, bytes: 200 } }], /totals of page 2/],
    ['the reports are lost', [first, { ...last, totals: { reports: null, bytes: 200 } }], /totals of page 2/],
    ['a page has less than no bytes', [first, { ...last, bytes: -1, totals: { reports: 4, bytes: 99 } }], /page 2/],
    ['a page has half a report', [first, { ...last, reports: 0.5, totals: { reports: 2.5, bytes: 200 } }], /page 2/],
  ])('is not published: %s', async (_, entries, says) => {
    const manifest = manifestOf(entries);
    await expect(manifest).rejects.toMatchObject({ name: 'PageConflictError' });
    await expect(manifest).rejects.toThrow(says);
    await expect(manifest).rejects.toThrow(
      /is not published; put its log back as it was and start again, or start with/,
    );
  });

  it('is not published where its last page changed while it was read', async () => {
    const ends = { first, last: { ...last, serviceTime: null } };
    await expect(manifestOf([first, last], ends)).rejects.toThrow(/ends with page 2/);
  });
});

describe('latest.json', () => {
  const latestOf = (bench: Bench) => `${bench.deps.definition.name}/latest.json`;

  it.each<[string, (text: string) => string]>([
    ['a sequence beyond every run', (text) => text.replace(/"sequence":\d+/, '"sequence":9007199254740991')],
    ['a sequence that is text', (text) => text.replace(/"sequence":(\d+)/, '"sequence":"$1"')],
    ['a sequence no number can hold', (text) => text.replace(/"sequence":\d+/, '"sequence":1e999')],
    ['half of it', (text) => text.slice(0, 30)],
    ['nothing', () => ''],
    ['something else', () => '[[[[]]]]'],
  ])('points at the newest run again, whatever somebody made of it: %s', async (_, change) => {
    const bench = anExportBench();
    await bench.start();
    const key = latestOf(bench);
    bench.store.objects.set(key, change(bench.store.objects.get(key) ?? ''));

    const end = await bench.start();

    if (end.status !== 'completed') throw new Error(JSON.stringify(end));
    const head = await bench.head();
    expect(JSON.parse(bench.store.objects.get(key) ?? '')).toMatchObject({
      manifest: end.result.manifest,
      sequence: head.sequence,
    });
  });

  it('is left to a newer run that began, and published, while an older one was still being finished', async () => {
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
    const slow = () => interpretExecution({ ...bench.deps, store }, { name: 'slow', input: {} }, { pauseSeconds: 0 });
    overtake = async () => {
      expect(await bench.start({ restart: true })).toMatchObject({ status: 'completed' });
    };
    expect(await slow()).toMatchObject({ status: 'skipped' });
    expect(JSON.parse(bench.store.objects.get(latestOf(bench)) ?? '')).toMatchObject({
      sequence: (await bench.head()).sequence,
    });
  });
});
