/** Which published runs are listed, in which order, and how much is read for it. The store is in memory. */

import { describe, expect } from 'vitest';
import { createRunId, latestKey, manifestKey, runFolder, summaryKey } from '../../../lib/core/storage/keys.ts';
import type { RunSummary } from '../../../lib/core/storage/published-schemas.ts';
import { listPublishedRuns } from '../../../lib/core/storage/run-list.ts';
import { instantOf } from '../../../lib/core/timestamps.ts';
import { aLatest, anExportName, at, collect } from '../../support/builders.ts';
import { anExportBench } from '../../support/export/export-bench.ts';
import { createMemoryStore, type MemoryStore } from '../../support/export/memory-adapters.ts';
import { someReports } from '../../support/export/scripted-service.ts';
import { fc, it, test } from '../../support/property.ts';

const hourMs = 3_600_000;
const noon = Date.parse('2026-11-20T12:00:00Z');

interface ARun {
  readonly sequence: number;
  /** When it began, by the clock of the function that began it. */
  readonly startedMs: number;
  /** An abandoned run has pages only. */
  readonly published?: boolean;
}

/** An export with these runs, each with a page. `latest.json` names the one with the highest sequence. */
function anExport(runs: readonly ARun[]) {
  const name = anExportName();
  const store = createMemoryStore();
  const folders = runs.map((run) => addRun(store, name, run));
  const newest = Math.max(0, ...runs.filter(isPublished).map(({ sequence }) => sequence));
  if (newest > 0) {
    store.objects.set(latestKey(name), JSON.stringify(aLatest({ export: name, sequence: newest })));
  }
  return { name, store, folders };
}

const isPublished = ({ published = true }: ARun) => published;

function addRun(store: MemoryStore, name: string, run: ARun): string {
  const { sequence, startedMs } = run;
  const location = {
    export: name,
    run: createRunId(startedMs, sequence.toString(16).padStart(12, '0')),
    startedAt: instantOf(startedMs),
  };
  const folder = runFolder(location);
  store.objects.set(`${folder}/page-000001.xml`, '<reports/>');
  if (!isPublished(run)) return folder;
  const summary: RunSummary = {
    runVersion: 1,
    ...location,
    sequence,
    since: at('2026-11-01T00:00:00Z'),
    watermark: null,
    completedAt: location.startedAt,
    serviceStartedAt: null,
    serviceCompletedAt: null,
    format: 'XML',
    container: 'NONE',
    source: 'simulator',
    pages: 1,
    reports: 0,
    bytes: 10,
    manifest: manifestKey(location),
  };
  store.objects.set(summaryKey(location), `${JSON.stringify(summary)}\n`);
  store.objects.set(summary.manifest, '{}');
  return folder;
}

const sequencesOf = async (store: MemoryStore, name: string) =>
  (await collect(listPublishedRuns(store, name))).map(({ sequence }) => sequence);

async function listUntilError(runs: AsyncIterable<RunSummary>) {
  const listed: number[] = [];
  try {
    for await (const { sequence } of runs) listed.push(sequence);
  } catch (error) {
    return { listed, error };
  }
  return { listed, error: undefined };
}

/** The store, and the keys that are read from it. */
function observe(store: MemoryStore) {
  const reads: string[] = [];
  const observed: MemoryStore = {
    ...store,
    read(key) {
      reads.push(key);
      return store.read(key);
    },
    // oxlint-disable-next-line require-yield
    async *list() {
      throw new Error('pages are listed');
    },
  };
  return { observed, reads };
}

describe('the list of runs', () => {
  it('is what a run of the exporter has written', async () => {
    const bench = anExportBench({ reports: someReports(5), size: 2 });
    const [first, second] = [await bench.start(), await bench.start()];
    expect([first.status, second.status]).toEqual(['completed', 'completed']);
    const { name } = bench.deps.definition;
    const runs = await collect(listPublishedRuns(bench.store, name));
    expect(runs).toMatchObject([{ pages: 3, reports: 5 }, { run: second.status === 'completed' && second.result.run }]);
    const keys = [...bench.store.objects.keys()].filter((key) => key.endsWith('/run.json'));
    expect(runs).toEqual(keys.map((key) => JSON.parse(bench.store.objects.get(key) ?? '')));
  });

  it('reads no pages', async () => {
    const { name, store } = anExport([{ sequence: 1, startedMs: noon }]);
    const { observed, reads } = observe(store);
    expect(await sequencesOf(observed, name)).toEqual([1]);
    expect(reads.filter((key) => key.includes('/page-'))).toEqual([]);
  });

  const aHistory = fc
    .array(
      fc.record({
        gapHours: fc.integer({ min: 0, max: 60 }),
        skewHours: fc.integer({ min: -9_000, max: 9_000 }),
        published: fc.boolean(),
      }),
      { minLength: 1, maxLength: 30 },
    )
    .map((runs) => {
      let trueMs = noon;
      return runs.map(({ gapHours, skewHours, published }, index) => {
        trueMs += gapHours * hourMs;
        return { sequence: index + 1, startedMs: trueMs + skewHours * hourMs, published };
      });
    });

  test.prop([aHistory])('misses no run, although clocks differ by up to a year', async (runs) => {
    const { name, store } = anExport(runs);
    expect(await sequencesOf(store, name)).toEqual(runs.filter(isPublished).map(({ sequence }) => sequence));
  });
});

describe('a manifest that is missing', () => {
  it('ends the list after the runs before it, and is named', async () => {
    const { name, store, folders } = anExport([1, 2, 3].map((sequence) => ({ sequence, startedMs: noon + sequence })));
    store.objects.delete(`${folders[1]}/manifest.json`);
    const message = `The manifest memory:${folders[1]}/manifest.json is missing, although its run was published. Restore it`;
    expect(await listUntilError(listPublishedRuns(store, name))).toMatchObject({
      listed: [1],
      error: { message: expect.stringContaining(message) },
    });
  });

  it('of a bounded run ends the list, too', async () => {
    const bounds = (day: number) => ({
      since: at(`2026-11-0${day}T00:00:00Z`),
      until: at(`2026-11-0${day + 1}T00:00:00Z`),
    });
    const name = anExportName();
    const store = createMemoryStore();
    const folders = [1, 2, 3].map((day) => {
      const folder = addRun(store, name, { sequence: day, startedMs: noon + day });
      const summary = JSON.parse(store.objects.get(`${folder}/run.json`) ?? '') as RunSummary;
      store.objects.delete(`${folder}/run.json`);
      const bounded = { ...summary, ...bounds(day), bounded: true, watermark: null };
      store.objects.set(`${folder}/bounded.json`, JSON.stringify(bounded));
      return folder;
    });
    store.objects.delete(`${folders[1]}/manifest.json`);
    expect(await listUntilError(listPublishedRuns(store, name))).toMatchObject({
      listed: [1],
      error: { message: expect.stringContaining(`${folders[1]}/manifest.json is missing`) },
    });
  });
});

it('a run that latest.json names, and whose folder is missing, ends the list after all others', async () => {
  const { name, store, folders } = anExport([1, 2].map((sequence) => ({ sequence, startedMs: noon + sequence })));
  for (const key of store.objects.keys()) if (key.startsWith(folders[1] ?? '?')) store.objects.delete(key);
  const listed: number[] = [];
  const listing = (async () => {
    for await (const { sequence } of listPublishedRuns(store, name)) listed.push(sequence);
  })();
  await expect(listing).rejects.toThrow(/^memory:.*latest\.json names run .*, which has no run\.json/);
  expect(listed).toEqual([1]);
});

describe('a run.json that was changed', () => {
  /** Three runs of an exporter, the second of which has another `run.json`. */
  async function aChangedRun(change: (text: string, texts: readonly string[]) => string) {
    const bench = anExportBench({ reports: someReports(5), size: 2 });
    for (const _ of [1, 2, 3]) expect((await bench.start()).status).toBe('completed');
    const keys = [...bench.store.objects.keys()].filter((key) => key.endsWith('/run.json'));
    const texts = keys.map((key) => bench.store.objects.get(key) ?? '');
    const [, key = ''] = keys;
    bench.store.objects.set(key, change(texts[1] ?? '', texts));
    const sequences = texts.map((text) => (JSON.parse(text) as RunSummary).sequence) as [number, number, number];
    return { store: bench.store, name: bench.deps.definition.name, key, sequences };
  }

  it.each([
    ['is empty', () => ''],
    ['is truncated', (text: string) => text.slice(0, 100)],
    ['has another version', (text: string) => text.replace('"runVersion":1', '"runVersion":2')],
    ['is that of another run', (_: string, [first = '']: readonly string[]) => first],
    [
      'names another manifest',
      (text: string) => text.replace(/run=[^/]+(\/manifest)/, 'run=20260101T000000Z-aaaaaab2d407$1'),
    ],
  ])('ends the list after the runs before it, and is named: it %s', async (_, change) => {
    const { store, name, key, sequences } = await aChangedRun(change);
    const [first] = sequences;
    expect(await listUntilError(listPublishedRuns(store, name))).toEqual({
      listed: [first],
      error: expect.objectContaining({ name: 'PageConflictError', message: expect.stringContaining(key) }),
    });
  });

  it('ends the list at once if its manifest does not say where it belongs', async () => {
    const { store, name, key } = await aChangedRun(() => '');
    const manifest = key.replace('run.json', 'manifest.json');
    const text = store.objects.get(manifest) ?? '';
    store.objects.set(manifest, text.slice(0, 20));
    expect(await listUntilError(listPublishedRuns(store, name))).toMatchObject({
      listed: [],
      error: { name: 'PageConflictError', message: expect.stringContaining(manifest) },
    });
    store.objects.delete(manifest);
    expect(await listUntilError(listPublishedRuns(store, name))).toMatchObject({
      listed: [],
      error: { name: 'PageConflictError', message: expect.stringContaining(key) },
    });
  });
});
