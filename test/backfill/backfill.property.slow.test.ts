/**
 * The guarantees of a backfill: whatever the windows, their order, and the crashes, each report of its range is in the manifest of
 * exactly one window, and the regular runs of the export are as they would be without it.
 */

import { describe, expect } from 'vitest';
import { isExportError } from '../../lib/core/errors.ts';
import type { Backfill } from '../../lib/backfill/store.ts';
import type { ExportState, Instant, LatestPointer } from '../../lib/core/model.ts';
import { abandonBackfill } from '../../lib/backfill/abandon.ts';
import { beginBackfill } from '../../lib/backfill/plan.ts';
import { remainingWindows } from '../../lib/backfill/window-states.ts';
import { beginRun } from '../../lib/core/steps/begin-run.ts';
import { instantOf } from '../../lib/core/timestamps.ts';
import { type Window, windowName, windowsOf } from '../../lib/backfill/windows.ts';
import {
  type Crashes,
  createCrashes,
  exportWindow,
  exportWindows,
  manifestsOf,
  reportIdsIn,
  root,
  windowBench,
  windowManifestsOf,
  operatorOf,
} from '../support/export/backfill-bench.ts';
import { anExportBench, type Bench, type BenchOptions } from '../support/export/export-bench.ts';
import type { MemoryLog } from '../support/export/memory-adapters.ts';
import { type ScriptedReport, someReports } from '../support/export/scripted-service.ts';
import { cases, fc, test } from '../support/property.ts';

const second = 1_000;
const minute = 60_000;
/** Of the first report; each later one is a minute after the one before. */
const firstReportAt = Date.UTC(2026, 10, 1);

const request = fc
  .record({
    // Also before the first report, and between two. In whole seconds, as requests are.
    fromMs: fc.oneof(
      fc.integer({ min: -10, max: 30 }).map((n) => n * minute),
      fc.integer({ min: -5, max: 30 * 60 }).map((n) => n * second),
    ),
    lengthMs: fc.integer({ min: 1, max: 45 * 60 }).map((n) => n * second),
    windowMs: fc.oneof(
      fc.integer({ min: 1, max: 20 }).map((n) => n * minute),
      fc.integer({ min: 41, max: 1_200 }).map((n) => n * second),
    ),
    parallel: fc.integer({ min: 1, max: 4 }),
  })
  .map(({ fromMs, lengthMs, ...rest }) => ({
    ...rest,
    from: instantOf(firstReportAt + fromMs),
    to: instantOf(firstReportAt + fromMs + lengthMs),
  }));

const plan = fc.record({
  request,
  reports: fc.integer({ min: 0, max: 40 }),
  size: fc.integer({ min: 1, max: 5 }),
  iterationsPerExecution: fc.integer({ min: 1, max: 6 }),
  pagesPerInvocation: fc.integer({ min: 1, max: 3 }),
  picks: fc.array(fc.nat(100), { maxLength: 10 }),
  // The number of effects between two crashes.
  crashes: fc.array(fc.integer({ min: 1, max: 60 }), { maxLength: 15 }),
  regularRuns: fc.integer({ min: 0, max: 2 }),
});

type Plan = typeof plan extends fc.Arbitrary<infer Value> ? Value : never;

const benchOf = (
  {
    reports,
    size,
    iterationsPerExecution,
    pagesPerInvocation,
  }: Omit<Plan, 'request' | 'picks' | 'crashes' | 'regularRuns'>,
  options: Pick<BenchOptions, 'crash' | 'log'> = {},
): Bench =>
  anExportBench({
    reports: someReports(reports),
    size,
    limits: { iterationsPerExecution, pagesPerInvocation },
    ...options,
  });

/** What an operator's commands have. */
const idsBetween = (reports: readonly ScriptedReport[], since: string, until: string): string[] =>
  reports
    .filter(({ date }) => Date.parse(date) >= Date.parse(since) && Date.parse(date) < Date.parse(until))
    .map(({ id }) => id);

/** What must hold for every reader at every moment. */
function expectWholeWindows(bench: Bench, reports: readonly ScriptedReport[]): void {
  for (const manifest of windowManifestsOf(bench)) {
    expect(reportIdsIn(bench, manifest)).toEqual(idsBetween(reports, manifest.since, manifest.until));
    expect(manifest.filter).toMatchObject({ date: { gte: manifest.since, lt: manifest.until } });
  }
  const sequences = manifestsOf(bench).map(({ since, until, sequence }) =>
    JSON.stringify([until === undefined ? 'regular' : [since, until], sequence]),
  );
  expect(new Set(sequences).size).toBe(sequences.length);
}

/** Each instant of the backfill is in one published window, and so is each report. */
function expectComplete(
  bench: Bench,
  { from, to }: Pick<Backfill, 'from' | 'to'>,
  reports: readonly ScriptedReport[],
): void {
  expectWholeWindows(bench, reports);
  let end: string = from;
  for (const { since, until } of windowManifestsOf(bench)) {
    expect(since).toBe(end);
    end = until;
  }
  expect(end).toBe(to);
  expect(windowManifestsOf(bench).flatMap((manifest) => reportIdsIn(bench, manifest))).toEqual(
    idsBetween(reports, from, to),
  );
}

/** Whether `work` succeeds; false if it is refused. */
async function refusable(work: Promise<unknown>): Promise<boolean> {
  try {
    await work;
    return true;
  } catch (error) {
    if (!isExportError(error, 'ConfigurationError')) throw error;
    return false;
  }
}

/** Starts the export until its run is complete. */
async function exportRegularly(bench: Bench, inProcess: Crashes['inProcess']): Promise<void> {
  for (let starts = 0; starts < 60; starts += 1) {
    if ((await inProcess(() => bench.start())).status === 'completed') return;
  }
  throw new Error('the run never completes');
}

describe('with crashes and retries', () => {
  test.prop([plan], { numRuns: cases(400) })(
    'each report of a backfill is published once, and regular runs are not affected',
    async (given) => {
      const { crash, inProcess } = createCrashes(given.crashes);
      const bench = benchOf(given, { crash });
      const { name } = bench.deps.definition;
      const reports = someReports(given.reports);
      const backfill = await beginBackfill(operatorOf(bench), given.request, root);
      const exportAll = async () => {
        await exportWindows(bench, backfill, { parallel: given.request.parallel, picks: given.picks, inProcess });
      };
      const exportRegular = async () => {
        for (let run = 0; run < given.regularRuns; run += 1) await exportRegularly(bench, inProcess);
      };
      await Promise.all([exportAll(), exportRegular()]);

      expectComplete(bench, backfill, reports);
      expect(await remainingWindows(bench.log.backfills, backfill)).toEqual([]);

      const regular = manifestsOf(bench).filter(({ until }) => until === undefined);
      expect(regular).toHaveLength(given.regularRuns);
      const newest = regular.sort((one, other) => Number(other.sequence) - Number(one.sequence))[0];
      const latest = bench.store.objects.get(`${name}/latest.json`);
      const state = await bench.log.exportState(name);
      expect(state?.active).toBeUndefined();
      if (newest === undefined) {
        expect(latest).toBeUndefined();
        expect(state?.watermark).toBeUndefined();
        expect(state?.lastCompleted).toBeUndefined();
        return;
      }
      expect((JSON.parse(latest ?? '') as LatestPointer).run).toBe(newest.run);
      expect(state?.watermark?.instant).toBe('2026-11-20T01:59:59Z');
      const oldest = regular.at(-1);
      expect(oldest && reportIdsIn(bench, oldest)).toEqual(reports.map(({ id }) => id));
      // The watermark is after all reports.
      if (regular.length > 1) expect(reportIdsIn(bench, newest)).toEqual([]);
    },
  );

  test.prop([plan], { numRuns: cases(60) })('no reader sees a part of a window', async (given) => {
    const { crash, inProcess } = createCrashes(given.crashes);
    const reports = someReports(given.reports);
    let checks = 0;
    let problem: unknown;
    const bench: Bench = benchOf(given, {
      crash(moment) {
        // The state machine would retry an error that is thrown here.
        try {
          expectWholeWindows(bench, reports);
        } catch (error) {
          problem ??= error;
        }
        checks += 1;
        crash(moment);
      },
    });
    const backfill = await beginBackfill(operatorOf(bench), given.request, root);
    await exportWindows(bench, backfill, { parallel: 2, picks: given.picks, inProcess });
    if (problem !== undefined) throw problem;
    expect(checks).toBeGreaterThan(0);
  });

  test.prop([plan], { numRuns: cases(100) })('concurrent executions of a window agree on one run', async (given) => {
    const bench = benchOf(given);
    const reports = someReports(given.reports);
    const backfill = await beginBackfill(operatorOf(bench), given.request, root);
    // No execution is reported as running, so each takes the run over when it starts.
    const windows = await remainingWindows(bench.log.backfills, backfill);
    await Promise.all([...windows, ...windows, ...windows].map((window) => windowBench(bench, window).start()));
    expectWholeWindows(bench, reports);
    await exportWindows(bench, backfill, { parallel: 1, picks: given.picks });
    expectComplete(bench, backfill, reports);
  });
});

describe('a backfill that is started again', () => {
  test.prop([plan, fc.array(fc.nat(100), { maxLength: 6 })], { numRuns: cases(100) })(
    'continues, and exports nothing again',
    async (given, done) => {
      const bench = benchOf(given);
      const { log } = bench;
      const reports = someReports(given.reports);
      const first = await beginBackfill(operatorOf(bench), given.request, root);
      for (const pick of done) {
        const remaining = await remainingWindows(log.backfills, first);
        const window = remaining[pick % Math.max(1, remaining.length)];
        if (window !== undefined) await exportWindow(bench, window);
      }
      const before = new Map(bench.store.objects);
      const parallel = 1 + (given.request.parallel % 4);
      const again = await beginBackfill(operatorOf(bench), { ...given.request, parallel }, root);
      expect(again).toMatchObject({ startedAt: first.startedAt, parallel, version: first.version + 1 });
      await exportWindows(bench, again, { parallel });
      expectComplete(bench, again, reports);
      for (const [key, text] of before) expect(bench.store.objects.get(key)).toBe(text);

      // A start of a window that is done is skipped.
      const objects = bench.store.objects.size;
      for (const { since, until } of windowManifestsOf(bench)) {
        const window = { since: since as Instant, until: until as Instant };
        expect((await windowBench(bench, window).start()).status).toBe('skipped');
      }
      expect(bench.store.objects.size).toBe(objects);
    },
  );
});

describe('several backfills of an export', () => {
  const step = fc.oneof(
    // Few cuts, so that many of them meet.
    fc.record({
      act: fc.constant('begin' as const),
      from: fc.integer({ min: 0, max: 6 }),
      windows: fc.integer({ min: 1, max: 6 }),
      lengthMinutes: fc.constantFrom(1, 2, 3, 4, 8),
      shorterByMs: fc.constantFrom(0, 0, 0, 1, 30_000),
    }),
    fc.record({ act: fc.constant('export' as const), pick: fc.nat(100) }),
    fc.record({ act: fc.constant('export' as const), pick: fc.nat(100) }),
    // As an execution does that began before the newest backfill.
    fc.record({ act: fc.constant('export old' as const), pick: fc.nat(100) }),
    fc.record({ act: fc.constant('abandon' as const) }),
    fc.record({ act: fc.constant('finish' as const) }),
  );

  const gaps = fc.array(fc.integer({ min: 1, max: 25 }), { maxLength: 5 });

  test.prop([fc.array(step, { minLength: 2, maxLength: 25 }), gaps], { numRuns: cases(500) })(
    'never publish a report twice, whatever their cuts',
    async (steps, crashes) => {
      const { crash, inProcess } = createCrashes(crashes);
      const bench = anExportBench({ reports: someReports(40), size: 2, crash });
      const { log } = bench;
      const { name } = bench.deps.definition;
      const reports = someReports(40);
      const old: Window[] = [];
      for (const each of steps) {
        const backfill = await log.backfills.read(name);
        const remaining = backfill === undefined ? [] : await remainingWindows(log.backfills, backfill);
        switch (each.act) {
          case 'begin': {
            const windowMs = each.lengthMinutes * minute;
            const from = firstReportAt + each.from * 2 * minute;
            const to = from + each.windows * windowMs - each.shorterByMs;
            const next = { from: instantOf(from), to: instantOf(to), windowMs, parallel: 1 };
            old.push(...windowsOf(next));
            await refusable(beginBackfill(operatorOf(bench), next, root));
            break;
          }
          case 'export': {
            const window = remaining[each.pick % Math.max(1, remaining.length)];
            if (window !== undefined) await inProcess(() => windowBench(bench, window).start());
            break;
          }
          case 'export old': {
            const window = old[each.pick % Math.max(1, old.length)];
            if (window !== undefined) await inProcess(() => windowBench(bench, window).start());
            break;
          }
          case 'abandon':
            await refusable(abandonBackfill(operatorOf(bench), name));
            break;
          case 'finish':
            if (backfill !== undefined) await exportWindows(bench, backfill, { parallel: 1 });
        }
        expectWholeWindows(bench, reports);
        const ids = windowManifestsOf(bench).flatMap((manifest) => reportIdsIn(bench, manifest));
        expect(ids).toHaveLength(new Set(ids).size);
      }
      const backfill = await log.backfills.read(name);
      if (backfill === undefined || backfill.abandonedAt !== undefined) return;
      await exportWindows(bench, backfill, { parallel: 2 });
      const published = windowManifestsOf(bench).flatMap((manifest) => reportIdsIn(bench, manifest));
      expect(published).toHaveLength(new Set(published).size);
      expect(published).toEqual(expect.arrayContaining(idsBetween(reports, backfill.from, backfill.to)));
    },
  );
});

describe('a backfill that is abandoned', () => {
  test.prop([plan, fc.integer({ min: 1, max: 120 })], { numRuns: cases(300) })(
    'publishes nothing more',
    async (given, abandonedAfter) => {
      const { crash, inProcess } = createCrashes(given.crashes);
      const { promise: isDue, resolve: abandonNow } = Promise.withResolvers<void>();
      let effects = 0;
      const bench = benchOf(given, {
        crash(moment) {
          effects += 1;
          if (effects === abandonedAfter) abandonNow();
          crash(moment);
        },
      });
      const { log } = bench;
      const { name } = bench.deps.definition;
      const backfill = await beginBackfill(operatorOf(bench), given.request, root);
      let mayBePublished: ReadonlySet<string> | undefined;
      const operate = async () => {
        await isDue;
        await refusable(abandonBackfill(operatorOf(bench), name));
        const published = new Set<string>();
        for await (const { export: window, lastCompleted, active } of log.backfills.windowStates(name)) {
          if (lastCompleted !== undefined || active?.completion !== undefined) published.add(window);
        }
        mayBePublished = published;
      };
      const operation = operate();
      await exportWindows(bench, backfill, { parallel: given.request.parallel, picks: given.picks, inProcess });
      abandonNow();
      await operation;
      // All that is left, as an execution does that has not heard of it.
      await Promise.all(
        (await remainingWindows(log.backfills, backfill)).map((window) => windowBench(bench, window).start()),
      );

      expectWholeWindows(bench, someReports(given.reports));
      const published = windowManifestsOf(bench).map(({ since, until }) => `${name}/${since}/${until}`);
      expect(new Set(published).size).toBe(published.length);
      for (const window of published) expect([...(mayBePublished ?? [])]).toContain(window);
      // What had begun to be published is complete.
      for (const window of mayBePublished ?? []) {
        expect(await log.exportState(window)).toHaveProperty('lastCompleted');
      }
    },
  );

  /** Each access to the log takes effect when the scheduler says so. */
  const scheduledLog = (log: MemoryLog, scheduler: fc.Scheduler): MemoryLog => ({
    ...log,
    exportState: scheduler.scheduleFunction((name: string) => log.exportState(name)),
    replaceState: scheduler.scheduleFunction((state: ExportState) => log.replaceState(state)),
    backfills: {
      read: scheduler.scheduleFunction((name: string) => log.backfills.read(name)),
      replace: scheduler.scheduleFunction((backfill: Backfill) => log.backfills.replace(backfill)),
      async *windowStates(name) {
        await scheduler.schedule(Promise.resolve());
        yield* log.backfills.windowStates(name);
      },
    },
  });

  const window = { since: instantOf(firstReportAt), until: instantOf(firstReportAt + 2 * minute) };
  const cut = { from: window.since, to: instantOf(firstReportAt + 4 * minute), windowMs: 2 * minute, parallel: 1 };
  const otherCuts = [
    undefined,
    cut,
    { ...cut, windowMs: minute },
    { ...cut, windowMs: 4 * minute },
    { ...cut, windowMs: 3 * minute },
  ];

  test.prop(
    [fc.scheduler(), fc.constantFrom(...otherCuts), fc.integer({ min: 1, max: 3 }), fc.boolean(), fc.boolean()],
    { numRuns: cases(800) },
  )(
    'leaves no run of a window that begins meanwhile, also if another backfill follows at once, or another command begins one',
    async (scheduler, other, executions, isPlanned, isBegunTwice) => {
      const bench = anExportBench();
      const { log } = bench;
      const { name } = bench.deps.definition;
      const slow = scheduledLog(log, scheduler);
      const operator = { ...operatorOf(bench), log: slow, backfills: slow.backfills };
      if (isPlanned) await beginBackfill(operatorOf(bench), cut, root);
      const starts = Array.from({ length: executions }, (_, index) =>
        beginRun(
          { ...windowBench(bench, window).deps, log: slow },
          { input: { export: windowName(name, window) }, execution: `execution-${index}` },
        ).catch((error: unknown) => {
          if (!isExportError(error, 'ConfigurationError')) throw error;
          return undefined;
        }),
      );
      const operate = async () => {
        const isAbandoned = await refusable(abandonBackfill(operator, name));
        if (isAbandoned && other !== undefined) await refusable(beginBackfill(operator, other, root));
      };
      const beginAgain = async () => {
        if (isBegunTwice || !isPlanned) await refusable(beginBackfill(operator, cut, root));
      };
      await scheduler.waitFor(Promise.all([...starts, operate(), beginAgain()]));

      const newest = await log.backfills.read(name);
      const isOpen = newest !== undefined && newest.abandonedAt === undefined;
      const current = isOpen ? [...windowsOf(newest)].map((each) => windowName(name, each)) : [];
      for await (const state of log.backfills.windowStates(name)) {
        // Only windows of the newest backfill can begin, and only those have runs.
        const isCurrent = current.includes(state.export) && state.plan?.id === newest?.plan;
        expect([state.export, state.plan?.abandonedAt === undefined]).toEqual([state.export, isCurrent]);
        if (!isCurrent) expect(state.active).toBeUndefined();
      }
      for (const each of current) expect(await log.exportState(each)).toBeDefined();
      // An execution that continues owns the run.
      const { active } = (await log.exportState(windowName(name, window))) ?? {};
      for (const [index, outcome] of (await Promise.all(starts)).entries()) {
        if (active?.execution === `execution-${index}`) expect(outcome?.next).toBe('export');
      }
    },
  );
});
