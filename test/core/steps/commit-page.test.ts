/** Crashes between the two writes that commit a page: the stored page is the truth, if it belongs to the run. */

import { describe, expect, it } from 'vitest';
import { type ErrorName, ExportError } from '../../../lib/core/errors.ts';
import type { StoredPage } from '../../../lib/core/model.ts';
import type { PageStore } from '../../../lib/core/ports.ts';
import { runExecution } from '../../../lib/local/execution.ts';
import { aFetchedPage, aRunId, withSpools } from '../../support/builders.ts';
import { anExportBench, type Bench, type BenchOptions, failed } from '../../support/export/export-bench.ts';
import { cursorAt, type Script } from '../../support/export/scripted-service.ts';
import { completes, expectStory, fails, type Start } from '../../support/export/stories.ts';

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

/** Fails requests that repeat that of page 2: some services accept a cursor only once. */
const acceptsOnce =
  (name: ErrorName): Script =>
  ({ cursor }, nth) => {
    if (nth > 2 && cursor === cursorAt(2)) throw new ExportError(name, 'the cursor was used already');
    return undefined;
  };

const run = async (bench: Bench, changed: object = {}, name = 'execution') =>
  await runExecution({ ...bench.deps, ...changed }, { name, input: {} });

describe('a page stored but not logged', () => {
  const isAdopted = ({ events }: Bench) => {
    expect(events).toContainEqual(expect.objectContaining({ event: 'page-adopted', page: 2, totalReports: 4 }));
    expect(events.map(({ event }) => event)).not.toContain('slice-restarted');
  };
  const whole = { ends: completes({ pages: 3, reports: 5 }), after: isAdopted };
  const another: Script = (_, nth) => (nth === 3 ? aFetchedPage({ nextCursor: cursorAt(77) }) : undefined);

  it.each<[what: string, first: BenchOptions, ...starts: Start[]]>([
    [
      'execution, and not fetched again',
      { crash: crashAfterStoringPage2(notRetried) },
      { ends: fails('ConfigurationError', 'cut off', { resumable: true }), requests: 2 },
      { ...whole, requests: 1 },
    ],
    [
      'attempt, which requests it again and discards the response',
      { crash: crashAfterStoringPage2(), script: another },
      { ...whole, requests: 4 },
    ],
    ...(['CursorRejectedError', 'RequestRejectedError', 'ContractError', 'ServiceUnavailableError'] as const).map(
      (name): [string, BenchOptions, Start] => [
        `attempt even if the service accepts a cursor only once, and fails with ${name}`,
        { crash: crashAfterStoringPage2(), script: acceptsOnce(name) },
        { ...whole, requests: 4 },
      ],
    ),
  ])('is adopted by the next %s', async (_, first, ...starts) => {
    await expectStory(first, ...starts);
  });

  it('does not hide the service’s error if the look-up in the store fails, too', async () => {
    const bench = anExportBench({ crash: crashAfterStoringPage2(), script: acceptsOnce('RequestRejectedError') });
    const find = async (key: string) => {
      if (key.endsWith('page-000002.xml')) throw notRetried;
      return await bench.store.find(key);
    };
    expect(failed(await run(bench, { store: { ...bench.store, find } })).error).toBe('RequestRejectedError');
  });
});

describe('a log entry that is already there', () => {
  it.each([
    ['other bytes', { sha256: '0'.repeat(64) }],
    ['another next cursor', { nextCursor: cursorAt(77) }],
  ])('is a conflict if it has %s than the stored page', async (_, changed) => {
    const bench = anExportBench();
    const append: Bench['log']['append'] = async (entry) => await bench.log.append({ ...entry, ...changed });
    const { error, message } = failed(await run(bench, { log: { ...bench.log, append } }));
    expect(error).toBe('PageConflictError');
    expect(message).toContain('the page log has another entry for it');
  });
});

describe('an object stored under a page’s key', () => {
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

  const others = [
    ['another run', { run: aRunId() }, 'its metadata names page 2 of run'],
    ['another page', { page: 9 }, 'its metadata names page 9'],
    ['another cursor', { cursor: cursorAt(77) }, 'it was requested with another cursor'],
  ] as const;
  it.each(others.flatMap((other) => ([2, 3] as const).map((requests) => [...other, requests] as const)))(
    'that belongs to %s is a conflict and stays, when it is looked up or the page is stored again: %j',
    async (_, changed, expected, requests) => {
      const isLookedUp = requests === 2;
      const bench = anExportBench({ crash: crashAfterStoringPage2(isLookedUp ? notRetried : undefined) });
      if (isLookedUp) await run(bench);
      const before = new Map(bench.store.objects);
      const { error, message, resumable } = failed(await run(bench, { store: changedBy(bench, changed) }, 'another'));
      expect({ error, resumable }).toEqual({ error: 'PageConflictError', resumable: true });
      expect(message).toContain(expected);
      expect(bench.service.requests).toHaveLength(requests);
      for (const [key, text] of before) expect(bench.store.objects.get(key)).toBe(text);
    },
  );
});
