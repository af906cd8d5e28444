/** The moment between a page's two writes: what lies in the store is the truth, if it belongs to the run. */

import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import type { StoredCursor, StoredPage } from '../../../lib/core/model.ts';
import type { PageStore } from '../../../lib/core/ports.ts';
import { interpretExecution } from '../../../lib/local/interpreter.ts';
import { aFetchedPage, aRunId } from '../../support/builders.ts';
import { anExportBench, type Bench, reportIdsOf } from '../../support/export-bench.ts';
import { cursorAt } from '../../support/scripted-service.ts';

/** An error that ends the execution. */
const atOnce = new ExportError('ConfigurationError', 'cut off');

/** Cuts the invocation off once, when the second page is stored but not yet logged. */
function offBehindPage2(by = new Error('cut off')) {
  let stored = 0;
  return (moment: string) => {
    if (moment !== 'after the page is stored') return;
    stored += 1;
    if (stored === 2) throw by;
  };
}

const run = (bench: Bench, store: PageStore = bench.store, name = 'execution') =>
  interpretExecution({ ...bench.deps, store }, { name, input: {} }, { pauseSeconds: 0 });

/** The store as it would be if it could hold no cursor whole. */
function hashing(store: PageStore): PageStore {
  const hashed = (cursor: StoredCursor): StoredCursor =>
    typeof cursor === 'string' ? { sha256: createHash('sha256').update(cursor).digest('hex') } : cursor;
  const facts = (page: StoredPage): StoredPage => ({
    ...page,
    cursor: hashed(page.cursor),
    nextCursor: hashed(page.nextCursor),
  });
  return {
    ...store,
    async find(key) {
      const page = await store.find(key);
      return page && facts(page);
    },
    async put(identity, fetched) {
      const { stored, page } = await store.put(identity, fetched);
      return { stored, page: facts(page) };
    },
  };
}

describe('a page stored but not logged', () => {
  it('is adopted by the next execution, and not fetched again', async () => {
    const bench = anExportBench({ size: 2, crash: offBehindPage2(atOnce) });
    expect(await run(bench)).toMatchObject({ status: 'failed', failed: { resumable: true } });
    const end = await run(bench, bench.store, 'another');
    if (end.status !== 'completed') throw new Error(JSON.stringify(end));
    expect(reportIdsOf(bench, end.result.manifest)).toEqual(['r1', 'r2', 'r3', 'r4', 'r5']);
    expect(bench.service.requests.map(({ cursor }) => cursor)).toEqual([null, cursorAt(2), cursorAt(4)]);
    expect(bench.events).toContainEqual(expect.objectContaining({ event: 'page-adopted', page: 2, totalReports: 4 }));
  });

  it('is adopted by the next attempt, which asks for it again and takes nothing of that', async () => {
    const bench = anExportBench({
      size: 2,
      crash: offBehindPage2(),
      script: (_, nth) => (nth === 3 ? aFetchedPage({ nextCursor: cursorAt(77) }) : undefined),
    });
    const end = await run(bench);
    if (end.status !== 'completed') throw new Error(JSON.stringify(end));
    expect(reportIdsOf(bench, end.result.manifest)).toEqual(['r1', 'r2', 'r3', 'r4', 'r5']);
    expect(bench.service.requests.map(({ cursor }) => cursor)).toEqual([null, cursorAt(2), cursorAt(2), cursorAt(4)]);
    expect(bench.events).toContainEqual(expect.objectContaining({ event: 'page-adopted', page: 2, totalReports: 4 }));
  });

  it.each(['CursorRejectedError', 'RequestRejectedError', 'ContractError', 'ServiceUnavailableError'] as const)(
    'is adopted by the next attempt also where the service takes its cursor only once, and answers %s',
    async (name) => {
      const bench = anExportBench({
        size: 2,
        crash: offBehindPage2(),
        script: ({ cursor }, nth) => {
          if (nth > 2 && cursor === cursorAt(2)) throw new ExportError(name, 'it was used already');
          return undefined;
        },
      });
      const end = await run(bench);
      if (end.status !== 'completed') throw new Error(JSON.stringify(end));
      expect(reportIdsOf(bench, end.result.manifest)).toEqual(['r1', 'r2', 'r3', 'r4', 'r5']);
      expect(bench.events.map(({ event }) => event)).not.toContain('run-restarted');
      expect(bench.service.requests).toHaveLength(4);
    },
  );

  it('does not hide what the service said where looking into the store fails, too', async () => {
    const bench = anExportBench({
      size: 2,
      crash: offBehindPage2(),
      script: ({ cursor }, nth) => {
        if (nth > 2 && cursor === cursorAt(2)) throw new ExportError('RequestRejectedError', 'it was used already');
        return undefined;
      },
    });
    let looks = 0;
    const find = async (key: string) => {
      looks += 1;
      if (key.endsWith('page-000002.xml')) throw new ExportError('ConfigurationError', 'no bucket');
      return await bench.store.find(key);
    };
    const end = await run(bench, { ...bench.store, find });
    expect(end).toMatchObject({ status: 'failed', failed: { error: 'RequestRejectedError' } });
    expect(looks).toBeGreaterThan(1);
  });

  it('whose cursor the store holds as a hash is asked for again, and the run goes on with that cursor', async () => {
    const bench = anExportBench({ size: 2, crash: offBehindPage2() });
    const end = await run(bench, hashing(bench.store));
    if (end.status !== 'completed') throw new Error(JSON.stringify(end));
    expect(reportIdsOf(bench, end.result.manifest)).toEqual(['r1', 'r2', 'r3', 'r4', 'r5']);
    expect(bench.service.requests.map(({ cursor }) => cursor)).toEqual([null, cursorAt(2), cursorAt(2), cursorAt(4)]);
    expect(bench.manifest(end.result.manifest).pages.map(({ cursor }) => cursor)).toEqual([
      null,
      cursorAt(2),
      cursorAt(4),
    ]);
  });

  it('whose hash fits no cursor the service gives now cannot be gone on from: the walk starts afresh, once', async () => {
    const bench = anExportBench({
      size: 2,
      crash: offBehindPage2(),
      script: (_, nth) => (nth === 3 ? aFetchedPage({ nextCursor: cursorAt(77) }) : undefined),
    });
    const end = await run(bench, hashing(bench.store));
    if (end.status !== 'completed') throw new Error(JSON.stringify(end));
    expect(reportIdsOf(bench, end.result.manifest)).toEqual(['r1', 'r2', 'r3', 'r4', 'r5']);
    const restarted = bench.events.find(({ event }) => event === 'run-restarted');
    expect(restarted).toMatchObject({ run: end.result.run, reason: expect.stringMatching(/^Page 2 of run .*cut off/) });
    expect([...bench.store.objects.keys()].filter((key) => key.endsWith('manifest.json'))).toEqual([
      end.result.manifest,
    ]);
  });
});

describe('what lies under a page’s key', () => {
  const others = [
    ['another run', { run: aRunId() }, 'it says it is page 2 of run'],
    ['another page', { page: 9 }, 'it says it is page 9'],
    ['another cursor', { cursor: cursorAt(77) }, 'it was asked for with another cursor'],
  ] as const;

  /** A store in which pages that were there already have been changed so. */
  const changedBy = ({ store }: Bench, changed: Partial<StoredPage>): PageStore => ({
    ...store,
    async find(key) {
      const page = await store.find(key);
      return page && { ...page, ...changed };
    },
    async put(identity, fetched) {
      const { stored, page } = await store.put(identity, fetched);
      return { stored, page: stored ? page : { ...page, ...changed } };
    },
  });

  it.each(others)('but belongs to %s is a conflict when it is looked for', async (_, changed, says) => {
    const bench = anExportBench({ size: 2, crash: offBehindPage2(atOnce) });
    await run(bench);
    const end = await run(bench, changedBy(bench, changed), 'another');
    expect(end).toMatchObject({ status: 'failed', failed: { error: 'PageConflictError', resumable: true } });
    expect(end.status === 'failed' && end.failed.message).toContain(says);
    expect(bench.service.requests).toHaveLength(2);
  });

  it.each(others)('but belongs to %s is a conflict when it is met, and stays as it is', async (_, changed, says) => {
    const bench = anExportBench({ size: 2, crash: offBehindPage2() });
    const end = await run(bench, changedBy(bench, changed));
    expect(end).toMatchObject({ status: 'failed', failed: { error: 'PageConflictError', resumable: true } });
    expect(end.status === 'failed' && end.failed.message).toContain(says);
    expect(bench.service.requests).toHaveLength(3);
  });
});
