/** Crashes between the two writes that commit a page: the stored page is the truth, if it belongs to the run. */

import { describe, expect, it } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import type { StoredPage } from '../../../lib/core/model.ts';
import type { PageLog, PageStore } from '../../../lib/core/ports.ts';
import { runExecution } from '../../../lib/local/execution.ts';
import { aFetchedPage, aRunId, withSpools } from '../../support/builders.ts';
import { anExportBench, type Bench, completed, reportIdsOf } from '../../support/export/export-bench.ts';
import { cursorAt } from '../../support/export/scripted-service.ts';

/** An error that is not retried, so it ends the execution. */
const notRetried = new ExportError('ConfigurationError', 'cut off');

/** Crashes the invocation once, when page 2 is stored but not yet logged. */
function crashAfterStoringPage2(by = new Error('cut off')) {
  let stored = 0;
  return (moment: string) => {
    if (moment !== 'after the page is stored') return;
    stored += 1;
    if (stored === 2) throw by;
  };
}

const run = (bench: Bench, store: PageStore = bench.store, name = 'execution') =>
  runExecution({ ...bench.deps, store }, { name, input: {} });

describe('a page stored but not logged', () => {
  it('is adopted by the next execution, and not fetched again', async () => {
    const bench = anExportBench({ size: 2, crash: crashAfterStoringPage2(notRetried) });
    expect(await run(bench)).toMatchObject({ status: 'failed', failed: { resumable: true } });
    const result = completed(await run(bench, bench.store, 'another'));
    expect(reportIdsOf(bench, result.manifest)).toEqual(['r1', 'r2', 'r3', 'r4', 'r5']);
    expect(bench.service.requests.map(({ cursor }) => cursor)).toEqual([null, cursorAt(2), cursorAt(4)]);
    expect(bench.events).toContainEqual(expect.objectContaining({ event: 'page-adopted', page: 2, totalReports: 4 }));
  });

  it('is adopted by the next attempt, which requests it again and discards the response', async () => {
    const bench = anExportBench({
      size: 2,
      crash: crashAfterStoringPage2(),
      script: (_, nth) => (nth === 3 ? aFetchedPage({ nextCursor: cursorAt(77) }) : undefined),
    });
    const result = completed(await run(bench));
    expect(reportIdsOf(bench, result.manifest)).toEqual(['r1', 'r2', 'r3', 'r4', 'r5']);
    expect(bench.service.requests.map(({ cursor }) => cursor)).toEqual([null, cursorAt(2), cursorAt(2), cursorAt(4)]);
    expect(bench.events).toContainEqual(expect.objectContaining({ event: 'page-adopted', page: 2, totalReports: 4 }));
  });

  it.each(['CursorRejectedError', 'RequestRejectedError', 'ContractError', 'ServiceUnavailableError'] as const)(
    'is adopted by the next attempt even if the service accepts a cursor only once, and fails with %s',
    async (name) => {
      const bench = anExportBench({
        size: 2,
        crash: crashAfterStoringPage2(),
        script: ({ cursor }, nth) => {
          if (nth > 2 && cursor === cursorAt(2)) throw new ExportError(name, 'the cursor was used already');
          return undefined;
        },
      });
      const result = completed(await run(bench));
      expect(reportIdsOf(bench, result.manifest)).toEqual(['r1', 'r2', 'r3', 'r4', 'r5']);
      expect(bench.events.map(({ event }) => event)).not.toContain('run-restarted');
      expect(bench.service.requests).toHaveLength(4);
    },
  );

  it('does not hide the service’s error if the look-up in the store fails, too', async () => {
    const bench = anExportBench({
      size: 2,
      crash: crashAfterStoringPage2(),
      script: ({ cursor }, nth) => {
        if (nth > 2 && cursor === cursorAt(2))
          throw new ExportError('RequestRejectedError', 'the cursor was used already');
        return undefined;
      },
    });
    let lookups = 0;
    const find = async (key: string) => {
      lookups += 1;
      if (key.endsWith('page-000002.xml')) throw new ExportError('ConfigurationError', 'no bucket');
      return await bench.store.find(key);
    };
    const end = await run(bench, { ...bench.store, find });
    expect(end).toMatchObject({ status: 'failed', failed: { error: 'RequestRejectedError' } });
    expect(lookups).toBeGreaterThan(1);
  });
});

describe('a log entry that is already there', () => {
  it.each([
    ['other bytes', { sha256: '0'.repeat(64) }],
    ['another next cursor', { nextCursor: cursorAt(77) }],
  ])('is a conflict if it has %s than the stored page', async (_, changed) => {
    const bench = anExportBench({ size: 2 });
    const log: PageLog = { ...bench.log, append: async (entry) => await bench.log.append({ ...entry, ...changed }) };
    const end = await runExecution({ ...bench.deps, log }, { name: 'execution', input: {} });
    expect(end).toMatchObject({
      status: 'failed',
      failed: { error: 'PageConflictError', message: expect.stringContaining('the page log has another entry for it') },
    });
  });
});

describe('an object stored under a page’s key', () => {
  const others = [
    ['another run', { run: aRunId() }, 'its metadata names page 2 of run'],
    ['another page', { page: 9 }, 'its metadata names page 9'],
    ['another cursor', { cursor: cursorAt(77) }, 'it was requested with another cursor'],
  ] as const;

  /** A store in which existing pages have been changed in this way. */
  const changedBy = ({ store }: Bench, changed: Partial<StoredPage>): PageStore => ({
    ...withSpools(store, ({ put }) => ({
      async put(received) {
        const { stored, page } = await put(received);
        return { stored, page: stored ? page : { ...page, ...changed } };
      },
    })),
    async find(key) {
      const page = await store.find(key);
      return page && { ...page, ...changed };
    },
  });

  it.each(others)('that belongs to %s is a conflict when it is looked up', async (_, changed, expected) => {
    const bench = anExportBench({ size: 2, crash: crashAfterStoringPage2(notRetried) });
    await run(bench);
    const end = await run(bench, changedBy(bench, changed), 'another');
    expect(end).toMatchObject({ status: 'failed', failed: { error: 'PageConflictError', resumable: true } });
    expect(end.status === 'failed' && end.failed.message).toContain(expected);
    expect(bench.service.requests).toHaveLength(2);
  });

  it.each(others)(
    'that belongs to %s is a conflict when the page is stored, and is not changed',
    async (_, changed, expected) => {
      const bench = anExportBench({ size: 2, crash: crashAfterStoringPage2() });
      const end = await run(bench, changedBy(bench, changed));
      expect(end).toMatchObject({ status: 'failed', failed: { error: 'PageConflictError', resumable: true } });
      expect(end.status === 'failed' && end.failed.message).toContain(expected);
      expect(bench.service.requests).toHaveLength(3);
    },
  );
});
