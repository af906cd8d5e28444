/** Runs with very many slices: what they cost, and what one slice may do to the others. */

import { describe, expect, it } from 'vitest';
import { definitionOfStart, boundedStateName } from '../../../lib/core/bounded-runs.ts';
import { type ErrorName, ExportError } from '../../../lib/core/errors.ts';
import { type ExportedParents, type LogEntry, type LoopState, type Run, zeroTotals } from '../../../lib/core/model.ts';
import type { ListedObject, PageLog, PageRequest, Received, ReportService } from '../../../lib/core/ports.ts';
import { newestEntries, readProgress } from '../../../lib/core/run-progress.ts';
import { sliceOf } from '../../../lib/core/slices.ts';
import { createMemoryRecord } from '../../../lib/core/slots/memory-record.ts';
import { beginRun } from '../../../lib/core/steps/begin-run.ts';
import { exportPage } from '../../../lib/core/steps/export-page.ts';
import { finishRun } from '../../../lib/core/steps/finish-run.ts';
import { pageKey } from '../../../lib/core/storage/keys.ts';
import { storeParents } from '../../../lib/core/parents/plan-parts.ts';
import { openPublishedRun } from '../../../lib/core/storage/published-runs.ts';
import { instantOf } from '../../../lib/core/timestamps.ts';
import { findRun } from '../../../lib/operator/run-view.ts';
import {
  aFetchedPage,
  anEndEntry,
  anExportState,
  aPageEntry,
  aProgressRecord,
  aRun,
  aRunId,
  at,
  collect,
} from '../../support/builders.ts';
import {
  anExportBench,
  asExportTarget,
  begin,
  type Bench,
  type BenchOptions,
  completed,
  failed,
  pagesIn,
  reportIdsOf,
} from '../../support/export/export-bench.ts';
import { cursorAt, type Script, someReports } from '../../support/export/scripted-service.ts';

const minute = 60_000;
const since = at('2026-11-01T00:00:00Z');
/** A bounded run with a slice for each of so many minutes, each with one report. */
const minutes = (count: number, parallel = 1) => ({
  since,
  until: instantOf(Date.parse(since) + count * minute),
  slice: 'PT1M',
  parallel,
});
const isProof = (request: Pick<PageRequest, 'since' | 'until'>) => request.since === request.until;
const sliceIn = (request: PageRequest): number => 1 + (Date.parse(request.since) - Date.parse(since)) / minute;
const progressOf = async ({ log, deps }: Bench, { until }: { readonly until: string }) =>
  (await log.progress(boundedStateName(deps.definition.name, { since, until: at(until) })).read()).content;

/** Fails the requests of slices that `fails` names. */
const failing =
  (name: ErrorName, fails: (slice: number) => boolean, seen: number[] = []): Script =>
  (request) => {
    if (isProof(request)) return undefined;
    seen.push(sliceIn(request));
    if (fails(sliceIn(request))) throw new ExportError(name, `${name} of ${request.label}`);
    return undefined;
  };

/** The log, with its calls and the entries that it returns counted. */
function counting(log: PageLog) {
  const counts = { calls: 0, entries: 0 };
  const counted =
    <Args extends unknown[], Result>(method: (...args: Args) => Result) =>
    (...args: Args) => {
      counts.calls += 1;
      return method(...args);
    };
  async function* entriesOf(entries: AsyncIterable<LogEntry>) {
    counts.calls += 1;
    for await (const entry of entries) {
      counts.entries += 1;
      yield entry;
    }
  }
  const port: PageLog = {
    ...log,
    exportState: counted((name: string) => log.exportState(name)),
    replaceState: counted((state: Parameters<PageLog['replaceState']>[0]) => log.replaceState(state)),
    append: counted((entry: LogEntry) => log.append(entry)),
    last: counted((chain: Parameters<PageLog['last']>[0]) => log.last(chain)),
    entries: (chain) => entriesOf(log.entries(chain)),
    runEntries: (...args) => entriesOf(log.runEntries(...args)),
    progress: (name) => {
      const record = log.progress(name);
      return { read: counted(() => record.read()), replace: counted((read, content) => record.replace(read, content)) };
    },
  };
  const take = () => {
    const taken = { ...counts };
    Object.assign(counts, { calls: 0, entries: 0 });
    return taken;
  };
  return { port, take };
}

const otherExport: ExportedParents = {
  export: 'others',
  id: '/id',
  also: {},
  where: [],
  inHeaders: [],
  hasCoverage: true,
  listsChanges: false,
};

const onePage: Script = () => aFetchedPage({ body: '<reports><report/></reports>', reports: 1, nextCursor: null });

/** How the run has its slices: they are of a period, or each is of a parent in a plan, which is stored. */
async function chainsOf(bench: Bench, count: number, hasPlan: boolean): Promise<Partial<Run>> {
  const { definition, store } = bench.deps;
  if (!hasPlan) return { until: at('2026-11-01T00:00:00Z'), slices: { count, lengthMs: minute, parallel: 8 } };
  Object.assign(definition, { parents: otherExport });
  const planned = Array.from({ length: count }, (_, index) => ({ id: `p${index + 1}` }));
  const parts = await storeParents(store, definition.name, planned);
  const parents = { export: 'others', run: aRunId(), parallel: 8, parts, coverage: { overlapMs: 0 } };
  return { slices: { count, parallel: 8 }, parents };
}

/** A run of `count` slices of one page, all but the last eight of them complete. Nothing of it is bounded in time. */
async function almostComplete(count: number, hasPlan: boolean) {
  const bench = anExportBench({ limits: { pagesPerInvocation: 25 }, ...(hasPlan && { script: onePage }) });
  const { definition } = bench.deps;
  const { name, request } = definition;
  const chains = await chainsOf(bench, count, hasPlan);
  const run = aRun({ export: name, since: at('2020-01-01T00:00:00Z'), request, ...chains });
  const done = count - 8;
  const listed: ListedObject[] = [];
  const page = aPageEntry({ export: name, run: run.run, nextCursor: null });
  for (let number = 1; number <= done; number += 1) {
    const ref = { slice: number, attempt: 1, page: 1 };
    const key = pageKey(run, ref);
    await bench.log.append({ ...page, ...ref, key, parent: hasPlan ? `p${number}` : undefined });
    listed.push({ key, bytes: page.bytes, revision: page.revision });
  }
  await bench.log.replaceState(anExportState({ export: name, sequence: 1, active: run }));
  const record = bench.log.progress(name);
  const last = await bench.log.last(sliceOf(run, done));
  await record.replace(await record.read(), {
    run: run.run,
    generation: 0,
    begun: done,
    open: [],
    setAside: [],
    failures: [],
    done: { ...zeroTotals, pages: done, reports: done * 2 },
    gone: 0,
    skipped: 0,
    documentRoot: last?.documentRoot ?? null,
    loggedAt: last?.loggedAt ?? null,
  });
  const { port, take } = counting(bench.log);
  let partsRead = 0;
  const store: typeof bench.deps.store = {
    ...bench.deps.store,
    async read(key) {
      partsRead += 1;
      return await bench.store.read(key);
    },
    async *list(prefix) {
      yield* listed;
      yield* bench.store.list(prefix);
    },
  };
  const takeParts = () => {
    const taken = partsRead;
    partsRead = 0;
    return taken;
  };
  const deps = { ...bench.deps, log: port, store };
  const begun = await beginRun(deps, { input: {}, execution: 'another' });
  if (begun.next !== 'export') throw new Error(begun.next);
  const beginning = { ...take(), parts: takeParts() };
  const seen = await findRun({ ...asExportTarget(bench), log: port }, run.run);
  expect(seen).toMatchObject({ pages: done, slices: { done, count } });
  const status = take();
  const loop = await exportPage(deps, { loop: begun, execution: 'another', maxInFlight: 16 });
  expect(loop).toMatchObject({ next: 'finish', page: count + 1 });
  const iteration = { ...take(), parts: takeParts() };
  const { active } = (await bench.log.exportState(name)) ?? {};
  const payload = JSON.stringify(loop).length;
  return {
    beginning,
    status,
    iteration,
    finish: async () => {
      const result = await finishRun(deps, { run: run.run, execution: 'another' });
      expect(result.pages).toBe(count);
      const { calls, entries } = take();
      return { calls, entriesPerPage: entries / count, parts: takeParts() };
    },
    payload: payload - String(count).length * 2,
    state: JSON.stringify(active?.slices).length - String(count).length,
  };
}

describe('a run with many slices', () => {
  it.each([
    ['10,000 slices', 10_000, false],
    ['20,000 parents', 20_000, true],
  ])('costs as much to begin, to look at and to continue with %s as with 1,000', async (_, count, hasPlan) => {
    const [few, many] = [await almostComplete(1_000, hasPlan), await almostComplete(count, hasPlan)];
    expect(many).toEqual({ ...few, finish: many.finish });
    // Of the plan, only the part with the slices that are left.
    expect([few.beginning, few.iteration].map(({ parts }) => parts)).toEqual([0, hasPlan ? 1 : 0]);
    // The record, the eight slices after it, and two entries for each of them.
    expect(few.beginning.entries + few.status.entries).toBe(0);
    expect(few.beginning.calls).toBeLessThanOrEqual(5);
    expect(few.status.calls).toBeLessThanOrEqual(4);
    expect(few.iteration.calls).toBeLessThanOrEqual(4 + 2 * 8);
  });

  it('is finished by reading its log and its plan as often with 5,000 parents as with 1,000', async () => {
    const few = await almostComplete(1_000, true);
    const many = await almostComplete(5_000, true);
    const finished = await few.finish();
    expect(finished).toEqual({ calls: 7, entriesPerPage: 2, parts: 1 });
    expect(await many.finish()).toEqual({ ...finished, parts: 3 });
  });

  it('is resumed after a crash from its record, and reads only the log of slices after that', async () => {
    let left = 900;
    const crash = (moment: string) => {
      if (moment === 'before the page is logged' && (left -= 1) < 0)
        throw new ExportError('ConfigurationError', 'cut off');
    };
    const bench = anExportBench({ reports: someReports(10), crash, limits: { pagesPerInvocation: 25 } });
    // The bench ends an export that makes so many calls.
    Object.assign(bench.deps, { service: bench.service, log: bench.log });
    const input = minutes(1_000, 8);
    failed(await bench.start(input));
    left = 10_000;
    expect((await progressOf(bench, input))?.begun).toBeGreaterThanOrEqual(500);
    const { active } =
      (await bench.log.exportState(boundedStateName(bench.deps.definition.name, { since, until: input.until }))) ?? {};
    const { port, take } = counting(bench.log);
    const progress = await readProgress(port, active as Run);
    expect(progress.totals.pages).toBe(900);
    expect(take().entries).toBeLessThanOrEqual(500);
    const result = completed(await bench.start(input));
    expect(reportIdsOf(bench, result.manifest)).toEqual(someReports(10).map(({ id }) => id));
    expect(result.pages).toBe(1_000);
    expect(pagesIn(bench)).toHaveLength(1_000);
  });

  it('is exported completely although every record of its progress is lost', async () => {
    const bench = anExportBench({
      reports: someReports(40),
      limits: { iterationsPerExecution: 2, pagesPerInvocation: 2 },
    });
    Object.assign(bench.deps.log, { progress: () => createMemoryRecord() });
    const result = completed(await bench.start(minutes(40, 3)));
    expect(reportIdsOf(bench, result.manifest)).toEqual(someReports(40).map(({ id }) => id));
  });

  it('is exported completely although a record of its progress claims too much', async () => {
    let isDown = true;
    const bench = anExportBench({
      reports: someReports(4),
      script: failing('RequestRejectedError', (slice) => isDown && slice === 3),
    });
    const input = minutes(4);
    failed(await bench.start(input));
    isDown = false;
    const record = bench.log.progress(boundedStateName(bench.deps.definition.name, { since, until: at(input.until) }));
    const stored = await record.read();
    if (stored.content === undefined) throw new Error('the run has recorded no progress');
    await record.replace(stored, { ...stored.content, begun: 4, open: [], setAside: [], failures: [] });
    expect(failed(await bench.start(input)).error).toBe('PageConflictError');
    const result = completed(await bench.start(input));
    expect(reportIdsOf(bench, result.manifest)).toEqual(someReports(4).map(({ id }) => id));
  });

  it('is not published beside a page of a slice that it does not have', async () => {
    let isDown = true;
    const script = failing('RequestRejectedError', (slice) => isDown && slice === 3);
    const bench = anExportBench({ reports: someReports(4), script });
    failed(await bench.start(minutes(4)));
    isDown = false;
    const [first = ''] = pagesIn(bench);
    bench.store.objects.set(first.replace('page-000001-', 'page-000005-'), '<reports/>');
    expect(failed(await bench.start(minutes(4))).message).toContain(
      'page-000005-000001.xml exists but was never logged',
    );
  });

  it('walks slices that were set aside once no other is left to begin', async () => {
    const seen: number[] = [];
    let isDown = true;
    const bench = anExportBench({
      reports: someReports(4),
      script: (request, nth) => {
        const page = failing('RequestRejectedError', (slice) => isDown && slice === 2, seen)(request, nth);
        if (sliceIn(request) === 3) isDown = false;
        return page;
      },
    });
    const input = minutes(4);
    const { deps, invoke, begun } = await begunRun(bench, input);
    const walked = await invoke(begun, (slice) => slice < 3);
    expect(await progressOf(bench, input)).toMatchObject({ setAside: [2], failures: [{ slice: 2 }] });
    await invoke(walked, () => true);
    expect(seen).toEqual([1, 2, 3, 4, 2]);
    expect(await progressOf(bench, input)).toMatchObject({ setAside: [], failures: [], open: [] });
    expect((await finishRun(deps, { run: begun.run as Run['run'], execution: 'one' })).pages).toBe(4);

    async function begunRun(of: Bench, start: ReturnType<typeof minutes>) {
      const bounded = { ...of.deps, definition: definitionOfStart(of.deps.definition, start) };
      const first = await begin(of.deps, 'one', start);
      const step = async (loop: LoopState, hasTimeAfter: (slice: number) => boolean) =>
        await exportPage(bounded, { loop, execution: 'one', hasTime: () => hasTimeAfter(seen.at(-1) ?? 0) });
      return { deps: bounded, begun: first, invoke: step };
    }
  });

  it('ends an invocation with more than a hundred others that fail, and the next one begins with those after them', async () => {
    const seen: number[] = [];
    const bench = anExportBench({
      reports: someReports(300),
      script: failing('RequestRejectedError', (slice) => slice <= 150, seen),
    });
    const input = minutes(300, 4);
    expect(failed(await bench.start(input))).toMatchObject({ error: 'RequestRejectedError', pages: 0 });
    expect(new Set(seen).size).toBeLessThanOrEqual(101 + 4);
    expect((await progressOf(bench, input))?.failures).toHaveLength(10);
    expect(failed(await bench.start(input))).toMatchObject({ error: 'RequestRejectedError', pages: 150 });
    expect((await progressOf(bench, input))?.setAside).toHaveLength(150);
  });

  it('does not begin while more than a thousand are set aside', async () => {
    const bench = anExportBench({ reports: someReports(1_000), script: failing('RequestRejectedError', () => true) });
    const values = Array.from({ length: 1_200 }, (_, index) => `${index + 1}`);
    Object.assign(bench.deps.definition, { parents: { values } });
    const { run } = await begin(bench.deps, 'one');
    const record = bench.log.progress(bench.deps.definition.name);
    const { begun: _, ...known } = aProgressRecord({ done: zeroTotals, gone: 0, failures: [] });
    const setAside = values.slice(0, 1_001).map(Number);
    const written = { ...known, run: run as Run['run'], generation: 0, begun: 1_001, open: [], setAside };
    await record.replace(await record.read(), written);
    failed(await bench.start({ continues: 'one' }));
    expect((await record.read()).content).toMatchObject({ begun: 1_001 });
  });

  it.each([
    { parallel: 3, isDown: (slice: number) => slice % 3 === 2, begun: 12 },
    { parallel: 3, isDown: (slice: number) => slice >= 4, begun: 6 },
    { parallel: 1, isDown: (slice: number) => slice >= 4, begun: 4 },
  ])(
    'begins no more slices once the last $parallel results were outages: $begun',
    async ({ parallel, isDown, begun }) => {
      const bench = anExportBench({ reports: someReports(12), script: failing('ServiceUnavailableError', isDown) });
      const input = minutes(12, parallel);
      const deps = { ...bench.deps, definition: definitionOfStart(bench.deps.definition, input) };
      const loop = await begin(bench.deps, 'one', input);
      await exportPage(deps, { loop, execution: 'one' });
      expect((await progressOf(bench, input))?.begun).toBe(begun);
    },
  );

  it('stores no page of a slice that begins after another execution has taken the run over', async () => {
    const bench = anExportBench({ reports: someReports(4) });
    const input = minutes(4);
    const deps = { ...bench.deps, definition: definitionOfStart(bench.deps.definition, input) };
    const loop = await begin(bench.deps, 'one', input);
    const append: PageLog['append'] = async (entry) => {
      const logged = await bench.log.append(entry);
      if (entry.slice === 1) await begin(bench.deps, 'two', input);
      return logged;
    };
    const log = Object.assign(Object.create(bench.log) as PageLog, { append });
    await expect(exportPage({ ...deps, log }, { loop, execution: 'one' })).rejects.toMatchObject({
      name: 'RunSupersededError',
    });
    // The second slice had begun before.
    expect(pagesIn(bench)).toHaveLength(2);
  });

  it('keeps the attempts of open slices in its state, and takes those of others from the log', async () => {
    const bench = anExportBench({ limits: { pagesPerInvocation: 25 } });
    const { name, request } = bench.deps.definition;
    const slices = { count: 1_200, lengthMs: minute, parallel: 1 };
    const restarted = { attempts: { 3: 2 }, restarts: { 3: 1 } };
    const period = { since, until: at('2026-11-01T20:00:00Z') };
    const run = aRun({ export: name, ...period, slices, ...restarted, request, execution: 'one' });
    const entryOf = (slice: number, attempt: number, nextCursor: LogEntry['cursor']) => {
      const ref = { slice, attempt, page: 1 };
      return aPageEntry({ ...ref, export: name, run: run.run, key: pageKey(run, ref), nextCursor });
    };
    for (const [slice, attempt] of [
      [1, 1],
      [2, 1],
      [3, 1],
      [3, 2],
    ] as const) {
      await bench.log.append(entryOf(slice, attempt, attempt === 1 && slice === 3 ? cursorAt(1) : null));
    }
    await bench.log.append(entryOf(4, 1, cursorAt(1)));
    await bench.log.replaceState(anExportState({ export: name, sequence: 1, active: run }));
    const record = bench.log.progress(name);
    const { record: _, ...known } = await readProgress(bench.log, run);
    expect(known).toMatchObject({ begun: 4, done: { pages: 3 } });
    const { begun, setAside, failures, done, gone, skipped, documentRoot, loggedAt } = known;
    const facts = { begun, setAside, failures, done, gone, skipped, documentRoot, loggedAt };
    await record.replace(await record.read(), { run: run.run, generation: 0, open: [4], ...facts });
    const service: ReportService = {
      fetch: async ({ cursor }) => {
        if (cursor !== null) throw new ExportError('CursorRejectedError', 'rejected');
        throw new ExportError('ConfigurationError', 'stop');
      },
    };
    const loop = { export: name, run: run.run, executionNumber: 1, page: 5, iterations: 1, waits: 0 };
    await expect(exportPage({ ...bench.deps, service }, { loop, execution: 'one' })).rejects.toThrow('stop');
    const active = (await bench.state()).active as Run;
    expect(active).toMatchObject({ attempts: { 4: 2 }, restarts: { 4: 1 }, generation: 1 });
    expect(active.attempts).toEqual({ 4: 2 });
    const entries = await collect(newestEntries(bench.log, active));
    expect(entries.map(({ slice, attempt }) => [slice, attempt])).toEqual([
      [1, 1],
      [2, 1],
      [3, 2],
    ]);
  });

  it('has the root of a page that was logged after the progress was recorded', async () => {
    const { log } = anExportBench();
    const run = aRun({ since, slices: { count: 2, lengthMs: minute, parallel: 1 } });
    const record = log.progress(run.export);
    await record.replace(
      await record.read(),
      aProgressRecord({ run: run.run, begun: 1, open: [1], documentRoot: null, loggedAt: null }),
    );
    const ref = { slice: 1, attempt: 1, page: 1 };
    const page = aPageEntry({
      ...ref,
      export: run.export,
      run: run.run,
      key: pageKey(run, ref),
      nextCursor: cursorAt(1),
    });
    await log.append(page);
    expect(await readProgress(log, run)).toMatchObject({ documentRoot: page.documentRoot, loggedAt: page.loggedAt });
  });
});

describe('a slice without a page', () => {
  /** The service says of these slices that they have no page. */
  function aBench(isGone: (slice: number) => boolean, options: BenchOptions = {}) {
    const bench = anExportBench({ reports: someReports(4), ...options });
    const { fetch } = bench.service;
    const end: Received = { kind: 'end', reason: 'gone', status: 404 };
    const service: ReportService = {
      fetch: async (request, sent) =>
        !isProof(request) && isGone(sliceIn(request)) ? end : await fetch(request, sent),
    };
    Object.assign(bench.deps, { service });
    return bench;
  }

  it('has an end in its log in the place of page 1, and the run is published without it', async () => {
    const bench = aBench((slice) => slice === 2);
    const input = minutes(4, 2);
    const result = completed(await bench.start(input));
    expect(reportIdsOf(bench, result.manifest)).toEqual(['r1', 'r3', 'r4']);
    expect(pagesIn(bench)).toHaveLength(3);
    const ended = await collect(bench.log.runEntries({ export: result.export, run: result.run as Run['run'] }, 1));
    expect(ended[0]).toMatchObject({ kind: 'end', reason: 'gone', status: 404, slice: 2, page: 1 });
    expect(await progressOf(bench, input)).toMatchObject({ begun: 4, open: [], gone: 1, done: { pages: 3 } });
    expect(bench.manifest(result.manifest).slices).toMatchObject([
      { pages: 1 },
      { pages: 0 },
      { pages: 1 },
      { pages: 1 },
    ]);
  });

  it('stays so for an invocation that has stored its page late: the page is in no manifest', async () => {
    const bench = anExportBench({ reports: someReports(4) });
    const input = minutes(4);
    const appendEnd: PageLog['append'] = async (entry) => {
      const { export: name, run, slice, attempt } = entry;
      const end = { export: name, run, slice, attempt, page: 1, reason: 'gone', cursor: null } as const;
      const totals = { reports: 0, bytes: 0 };
      return await bench.log.append(slice === 2 ? { ...anEndEntry(aPageEntry()), ...end, totals } : entry);
    };
    Object.assign(bench.deps.log, { append: appendEnd });
    const result = completed(await bench.start(input));
    expect(pagesIn(bench)).toHaveLength(4);
    expect(reportIdsOf(bench, result.manifest)).toEqual(['r1', 'r3', 'r4']);
  });

  it.each([true, false])('may be all slices of a run, which is then empty: published %s', async (publishEmptyRuns) => {
    const bench = aBench(() => true, { definition: { publishEmptyRuns } });
    const input = minutes(4, 2);
    const result = completed(await bench.start(input));
    expect(result).toMatchObject({ pages: 0, reports: 0, bytes: 0 });
    expect(result.manifest === null).toBe(!publishEmptyRuns);
    expect(await bench.start(input)).toMatchObject({ status: 'skipped', done: true });
    if (!publishEmptyRuns) return;
    const { header, pages } = await openPublishedRun(bench.store, result.export, result.run);
    expect(header.totals).toEqual({ pages: 0, reports: 0, bytes: 0 });
    expect(await collect(pages)).toEqual([]);
  });

  it('counts as progress: a run that has only such slices so far is resumed', async () => {
    let isDown = true;
    const bench = aBench((slice) => {
      if (slice === 4 && isDown) throw new ExportError('ConfigurationError', 'cut off');
      return slice < 4;
    });
    const definition = { lagMs: Date.UTC(2026, 10, 20, 2) - Date.UTC(2026, 10, 1, 0, 4) };
    Object.assign(bench.deps.definition, definition);
    const start = { since, slice: 'PT1M' };
    const { run } = failed(await bench.start(start));
    isDown = false;
    const result = completed(await bench.start());
    expect(result).toMatchObject({ run, pages: 1 });
  });
});
