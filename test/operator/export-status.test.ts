/** The status of an export without its runs, from what they leave in its state. */

import { describe, expect, it } from 'vitest';
import { ExportError } from '../../lib/core/errors.ts';
import { type ScheduleState, unreadableExport } from '../../lib/target/target.ts';
import { abandonRun } from '../../lib/operator/abandon-run.ts';
import { readExportStatus } from '../../lib/operator/run-status.ts';
import { at } from '../support/builders.ts';
import { anExportBench, asExportTarget, type Bench, type BenchOptions } from '../support/export/export-bench.ts';
import { someReports } from '../support/export/scripted-service.ts';

const scheduled: ScheduleState = { kind: 'scheduled', expression: 'cron(0 2 * * ? *)', timeZone: 'UTC' };

async function statusIn(bench: Bench, { isRunning = false, freshnessSeconds = null as number | null } = {}) {
  const deployed = {
    ...asExportTarget(bench),
    executions: { isRunning: async () => isRunning, hasEnded: async () => false },
    readSchedule: async () => scheduled,
    freshnessSeconds,
  };
  return await readExportStatus(deployed, 0, bench.deps.runtime.now());
}

/** The service fails with `error` at the second request of each run while `down.is`. */
function aBench(error: 'RequestRejectedError' | 'CursorRejectedError', options: BenchOptions = {}) {
  const down = { is: true };
  const bench = anExportBench({
    reports: someReports(5),
    size: 2,
    limits: { maxCursorRestarts: 0 },
    script: (request) => {
      if (down.is && request.cursor !== null) throw new ExportError(error, 'no');
      return undefined;
    },
    ...options,
  });
  return { bench, down };
}

describe('the status of an export', () => {
  it('has no run before the first one', async () => {
    const bench = anExportBench();
    expect(await statusIn(bench)).toEqual({
      export: bench.deps.definition.name,
      service: 'acme',
      state: 'never',
      stale: false,
      freshnessSeconds: null,
      lastReportsAt: null,
      reportsEverySeconds: null,
      reportsOverdue: false,
      run: null,
      since: null,
      startedAt: null,
      pages: 0,
      reports: 0,
      bytes: 0,
      watermark: null,
      completedAt: null,
      schedule: scheduled,
      lastFailure: null,
      failedStart: null,
      slices: null,
      bounded: { unfinished: [], completed: 0, newest: null },
    });
  });

  it('does not hide a run that was abandoned because it can never complete, until the next one begins', async () => {
    const { bench, down } = aBench('CursorRejectedError');
    down.is = false;
    await bench.start();
    const before = await statusIn(bench);
    down.is = true;
    bench.advance(3_600_000);
    await bench.start({ since: '1970-01-01T00:00:00Z' });
    const failed = await statusIn(bench);
    expect(failed).toMatchObject({
      state: 'failed',
      since: '1970-01-01T00:00:00Z',
      startedAt: '2026-11-20T03:00:00Z',
      pages: 1,
      reports: 2,
      watermark: before.watermark,
      completedAt: before.completedAt,
      lastFailure: { error: 'CursorRejectedError', message: 'no', at: '2026-11-20T03:00:00Z' },
    });
    expect(failed.run).not.toBe(before.run);
    expect((await bench.state()).active).toBeUndefined();

    down.is = false;
    bench.advance(3_600_000);
    await bench.start();
    expect(await statusIn(bench)).toMatchObject({ state: 'completed', startedAt: '2026-11-20T04:00:00Z' });
    expect((await bench.state()).lastAbandoned).toBeUndefined();
  });

  it('has the run before an unfinished one that an operator has abandoned', async () => {
    const { bench, down } = aBench('RequestRejectedError');
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
    const { bench, down } = aBench('RequestRejectedError');
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
    expect(await readExportStatus(asExportTarget(empty), 1, empty.deps.runtime.now())).toMatchObject({
      ...expected,
      reportsOverdue: true,
    });
    await bench.start({ since: '1970-01-01T00:00:00Z' });
    expect(await statusIn(bench)).toMatchObject({ lastReportsAt: '2026-11-20T03:00:00Z', reportsOverdue: false });
  });
});

describe('an export that cannot be read', () => {
  it('has the error', () => {
    expect(unreadableExport('daily', null, new ExportError('PageConflictError', 'edited'))).toEqual({
      export: 'daily',
      service: null,
      error: { name: 'PageConflictError', message: 'edited' },
    });
    expect(unreadableExport('daily', 'acme', 'odd')).toMatchObject({ error: { name: 'Error', message: 'odd' } });
  });
});
