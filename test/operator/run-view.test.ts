import { describe, expect, it } from 'vitest';
import { ExportError } from '../../lib/core/errors.ts';
import { storeParents } from '../../lib/core/parents/plan-parts.ts';
import { asRunId } from '../../lib/core/model.ts';
import { findRun, readExport } from '../../lib/operator/run-view.ts';
import { abandonRun } from '../../lib/operator/abandon-run.ts';
import type { Incident } from '../../lib/aws/step-functions/history.ts';
import type { ScheduleState } from '../../lib/operator/target.ts';
import { aRunId, at } from '../support/builders.ts';
import {
  anExportBench,
  asExportTarget,
  type Bench,
  type BenchOptions,
  completed,
  failed,
} from '../support/export/export-bench.ts';
import { someReports } from '../support/export/scripted-service.ts';

async function statusOf(bench: Bench, maxRuns = 10, lastIncident?: Incident) {
  const status = await readExport(asExportTarget(bench, lastIncident), maxRuns, bench.deps.runtime.now());
  return { ...status, runs: status.runs ?? [] };
}

/** The service rejects the second request of each run while `down.is`. */
function aBench() {
  const down = { is: true };
  const bench = anExportBench({
    reports: someReports(5),
    size: 2,
    script: (request) => {
      if (down.is && request.cursor !== null) throw new ExportError('RequestRejectedError', 'no');
      return undefined;
    },
  });
  return { bench, down };
}

/** Eight reports in the four minutes before the first run begins, one per page. */
const aSlicedBench = (script: BenchOptions['script']) =>
  anExportBench({
    reports: someReports(8).map((report, index) => ({
      ...report,
      date: new Date(Date.UTC(2026, 10, 20, 1, 56) + index * 30_000).toISOString(),
    })),
    size: 1,
    ...(script && { script }),
  });

describe('the status of an export', () => {
  it('says that the newest run found no reports and is not published', async () => {
    const bench = anExportBench({ reports: [], definition: { publishEmptyRuns: false } });
    await bench.start();
    const { runs, completedAt } = await statusOf(bench);
    expect(runs).toMatchObject([
      { state: 'empty', pages: 1, reports: 0, manifest: null, completedAt: '2026-11-20T02:00:00Z', lastIncident: null },
    ]);
    expect(completedAt).toBe(runs[0]?.completedAt);
  });

  it('distinguishes running, failed and interrupted runs', async () => {
    const { bench } = aBench();
    await bench.start();
    const { active } = await bench.state();
    const failure = { error: 'RequestRejectedError', message: 'no', at: '2026-11-20T02:00:00Z' };
    expect(await statusOf(bench)).toMatchObject({
      state: 'failed',
      lastFailure: failure,
      runs: [{ state: 'failed', pages: 1, lastIncident: { kind: 'failed-run', ...failure }, manifest: null }],
    });
    // A process that is killed records no failure. Only its execution can say what happened.
    const state = await bench.state();
    if (active === undefined) throw new Error('there is no unfinished run');
    const { lastFailure: _, ...interrupted } = active;
    await bench.log.replaceState({ ...state, version: state.version + 1, active: interrupted });
    expect((await statusOf(bench)).runs).toMatchObject([{ state: 'interrupted', lastIncident: null }]);
    bench.running.add(active.execution);
    const waiting: Incident = { kind: 'wait', at: at('2026-11-20T02:00:05Z'), seconds: 30 };
    expect((await statusOf(bench, 1, waiting)).runs).toMatchObject([{ state: 'running', lastIncident: waiting }]);
  });

  it('is failed after a start that has begun no run, once no run is in progress', async () => {
    const { bench } = aBench();
    const { run } = failed(await bench.start());
    const state = await bench.state();
    const failedStart = { error: 'ConfigurationError', message: 'no', at: at('2026-11-20T02:10:00Z') };
    await bench.log.replaceState({ ...state, version: state.version + 1, failedStart });
    expect(await statusOf(bench)).toMatchObject({ run, state: 'failed', lastFailure: failedStart, failedStart });
    bench.running.add(state.active?.execution ?? '');
    expect(await statusOf(bench)).toMatchObject({ run, state: 'running', failedStart });
  });

  it('names the parent of a slice that is set aside: of the settings, or without them, of the plan', async () => {
    const script: BenchOptions['script'] = ({ parent }) => {
      if (parent === 'closed') throw new ExportError('RequestRejectedError', 'no');
      return undefined;
    };
    const bench = anExportBench({ script, definition: { parents: { values: ['open', 'closed'] } } });
    await bench.start();
    expect((await statusOf(bench)).runs[0]?.slices?.setAside).toMatchObject([{ slice: 2, parent: 'closed' }]);

    const state = await bench.state();
    const parts = await storeParents(bench.store, state.export, [{ id: 'a/b' }, { id: 'c/d' }]);
    const parents = { export: 'repos', parallel: 1, parts };
    const active = state.active && { ...state.active, parents };
    await bench.log.replaceState({ ...state, version: state.version + 1, active });
    const withoutSettings = bench.with({ definition: { parents: undefined } });
    const setAside = async () => (await statusOf(withoutSettings)).runs[0]?.slices?.setAside;
    expect(await setAside()).toMatchObject([{ slice: 2, parent: 'c/d' }]);
  });

  it('finds each run that it lists: those that are published, and an unfinished one', async () => {
    const { bench, down } = aBench();
    for (const fails of [false, true, false, true]) {
      down.is = fails;
      await bench.start({ restart: true, since: '1970-01-01T00:00:00Z' });
      bench.advance(60_000);
    }
    const { runs } = await statusOf(bench, 30);
    expect(runs.map(({ state }) => state)).toEqual(['failed', 'completed', 'completed']);
    const deployed = asExportTarget(bench);
    for (const run of runs) expect(await findRun(deployed, run.run)).toEqual(run);
    expect(await findRun(deployed, aRunId())).toBeUndefined();
  });

  it('lists no bounded runs among the others, but finds each, and says which are unfinished', async () => {
    const fails = new Set<string>();
    const bench = aSlicedBench((request) => {
      if (fails.has(request.since)) throw new ExportError('RequestRejectedError', 'no');
      return undefined;
    });
    const minute = (n: number) => at(`2026-11-20T01:5${n + 6}:00Z`);
    await bench.start();
    const regular = (await bench.state()).lastCompleted?.result.run;
    const before = await statusOf(bench);
    const start = async (from: number, to: number, more = {}) => {
      bench.advance(60_000);
      return await bench.start({ since: minute(from), until: minute(to), ...more });
    };
    const first = completed(await start(2, 3));
    await start(2, 3, { again: true });
    fails.add(minute(1));
    await start(1, 2);
    fails.add(minute(0));
    await start(0, 1);
    const { bounded, runs, ...status } = await statusOf(bench);
    expect(status).toMatchObject({ state: 'completed', run: regular, completedAt: before.completedAt });
    expect(runs.map(({ run }) => run)).toEqual([regular]);
    const lastFailure = { error: 'RequestRejectedError', message: 'no' };
    expect(bounded).toMatchObject({
      unfinished: [
        { since: minute(0), until: minute(1), state: 'failed', lastFailure },
        { since: minute(1), until: minute(2), state: 'failed', pages: 0, completedAt: null },
      ],
      completed: 1,
      newest: { since: minute(2), until: minute(3), state: 'completed', pages: 2, completedAt: '2026-11-20T02:02:00Z' },
    });

    const deployed = asExportTarget(bench);
    for (const { run, since, until, state } of [...bounded.unfinished, ...(bounded.newest ? [bounded.newest] : [])]) {
      const id = run ?? aRunId();
      const found = await findRun(deployed, id);
      expect(found).toMatchObject({ run, state, since, until, bounded: true });
    }
    bench.store.objects.delete(first.manifest ?? '');
    expect(await findRun(deployed, asRunId(first.run))).toMatchObject({ state: 'damaged', since: minute(2) });
    // The last one that completed, not the last period.
    fails.clear();
    await start(1, 2);
    expect((await statusOf(bench)).bounded.newest).toMatchObject({ since: minute(1) });
  });

  it('says that a bounded run is completed, also if it found no reports and is not published', async () => {
    const bench = anExportBench({ reports: [], definition: { publishEmptyRuns: false } });
    await bench.start({ since: at('2026-11-01T00:00:00Z'), until: at('2026-11-02T00:00:00Z') });
    expect((await statusOf(bench)).bounded).toMatchObject({
      unfinished: [],
      completed: 1,
      newest: { state: 'completed', pages: 1, reports: 0, manifest: null },
    });
  });
});

const scheduled: ScheduleState = { kind: 'scheduled', expression: 'cron(0 2 * * ? *)', timeZone: 'UTC' };

async function statusIn(bench: Bench, { isRunning = false, freshnessSeconds = null as number | null } = {}) {
  const deployed = {
    ...asExportTarget(bench),
    executions: { status: async () => (isRunning ? ('running' as const) : ('unknown' as const)) },
    readSchedule: async () => scheduled,
    freshnessSeconds,
  };
  return await readExport(deployed, 0, bench.deps.runtime.now());
}

describe('an export without its runs', () => {
  it('has the run before an unfinished one that an operator has abandoned', async () => {
    const { bench, down } = aBench();
    await bench.start();
    const abandonUnfinished = async () => {
      const { active } = await bench.state();
      if (active === undefined) throw new Error('there is no unfinished run');
      await abandonRun(asExportTarget(bench), active);
    };
    await abandonUnfinished();
    expect(await statusIn(bench)).toMatchObject({ state: 'never', lastFailure: null });
    down.is = false;
    bench.advance(60_000);
    const end = await bench.start();
    down.is = true;
    bench.advance(60_000);
    await bench.start({ since: '1970-01-01T00:00:00Z' });
    await abandonUnfinished();
    expect(await statusIn(bench)).toMatchObject({
      state: 'completed',
      run: end.status === 'completed' ? end.result.run : '',
    });
  });

  it('is stale once the newest completed run is older than allowed, also while another runs', async () => {
    const { bench, down } = aBench();
    expect(await statusIn(bench, { freshnessSeconds: 60 })).toMatchObject({ stale: true });
    down.is = false;
    await bench.start();
    bench.advance(60_000);
    expect(await statusIn(bench, { freshnessSeconds: 60 })).toMatchObject({ stale: false, freshnessSeconds: 60 });
    bench.advance(1);
    expect(await statusIn(bench, { freshnessSeconds: 60 })).toMatchObject({ stale: true });
    down.is = true;
    await bench.start({ since: '1970-01-01T00:00:00Z' });
    expect(await statusIn(bench, { freshnessSeconds: 60, isRunning: true })).toMatchObject({
      state: 'running',
      stale: true,
    });
    expect(await statusIn(bench)).toMatchObject({ stale: false });
  });
});

describe('an export that expects reports', () => {
  it('lacks them once no completed run has had some for so long, whatever the runs since', async () => {
    const expecting = { expect: { reportsEveryMs: 3_600_000 } };
    const bench = anExportBench({ definition: expecting });
    expect(await statusIn(bench)).toMatchObject({ lastReportsAt: null, reportsOverdue: false });
    await bench.start();
    const lastReportsAt = at('2026-11-20T02:00:00Z');
    bench.advance(3_599_999);
    const empty = bench.with({ reports: [], definition: { ...expecting, name: bench.deps.definition.name } });
    await empty.start();
    const expected = { lastReportsAt, reportsEverySeconds: 3_600 };
    expect(await statusIn(empty)).toMatchObject({ ...expected, reportsOverdue: false });
    bench.advance(1);
    expect(await statusIn(empty)).toMatchObject({ ...expected, state: 'completed', reportsOverdue: true });
    expect(await readExport(asExportTarget(empty), 1, empty.deps.runtime.now())).toMatchObject({
      ...expected,
      reportsOverdue: true,
    });
    await bench.start({ since: '1970-01-01T00:00:00Z' });
    expect(await statusIn(bench)).toMatchObject({ lastReportsAt: '2026-11-20T03:00:00Z', reportsOverdue: false });
  });
});
