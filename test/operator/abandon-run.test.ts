import { describe, expect, it } from 'vitest';
import { abandonRun, requireAbandonableRun } from '../../lib/operator/abandon-run.ts';
import { aRun, aRunId } from '../support/builders.ts';
import { anExportBench, asExportTarget, type Bench, failed } from '../support/export/export-bench.ts';
import { failsAt, someReports } from '../support/export/scripted-service.ts';

/** A run that failed after its first page. */
async function aFailedRun(): Promise<Bench> {
  const bench = anExportBench({ reports: someReports(5), size: 2, script: failsAt({ 2: 'RequestRejectedError' }) });
  expect((await bench.start()).status).toBe('failed');
  return bench;
}

describe('abandonRun', () => {
  it('lets the scheduled times of the run begin another one, and none of a completed run', async () => {
    const [completedTime, ...abandonedTimes] = ['02', '03', '04'].map((hour) => `2026-11-20T${hour}:00:00Z`);
    const bench = anExportBench();
    expect(await bench.start({ scheduledTime: completedTime })).toMatchObject({ status: 'completed' });
    const down = bench.with({ script: failsAt({ 1: 'RequestRejectedError', 2: 'RequestRejectedError' }) });
    for (const scheduledTime of abandonedTimes) await down.start({ scheduledTime });
    const { active } = await bench.state();
    if (active === undefined) throw new Error('there is no run');
    await abandonRun(asExportTarget(bench), active);
    expect(await bench.start({ scheduledTime: completedTime })).toMatchObject({ status: 'skipped' });
    for (const status of ['completed', 'skipped']) {
      for (const scheduledTime of abandonedTimes)
        expect(await bench.start({ scheduledTime })).toMatchObject({ status });
    }
  });

  it('rejects a run that is not the unfinished one', async () => {
    const bench = await aFailedRun();
    const other = aRun({ export: bench.deps.definition.name, run: aRunId() });
    await expect(abandonRun(asExportTarget(bench), other)).rejects.toThrow(
      /has ended in the meantime, and run .* has begun\. Nothing was changed/,
    );
  });

  it('rejects a run that is published, also if a later start has found that its pages were changed', async () => {
    let crashes = true;
    const bench = anExportBench({
      crash: (moment) => {
        if (crashes && moment === 'before latest is written') throw new Error('crashed');
      },
    });
    await bench.start();
    crashes = false;
    const rejection = async () => {
      const state = await bench.state();
      return await requireAbandonableRun(bench, state, state.export).catch(({ message }: Error) => message);
    };
    expect(await rejection()).toMatch(/may be published already/);
    for (const key of bench.store.objects.keys()) if (key.includes('/page-')) bench.store.objects.delete(key);
    expect(failed(await bench.start()).error).toBe('PageConflictError');
    expect(await rejection()).toMatch(/is published already/);
  });

  it('rejects a run that is being published, because consumers may read it at any moment', async () => {
    const bench = anExportBench({ reports: someReports(5), size: 2 });
    const { store } = bench;
    const rejections: string[] = [];
    const putDocument = store.putDocument.bind(store);
    store.putDocument = async (...document) => {
      const { active } = await bench.state();
      if (active === undefined) throw new Error('there is no run');
      await abandonRun(bench, active).catch(({ message }) => rejections.push(message));
      await putDocument(...document);
    };
    const end = await bench.start();
    // The manifest, and the summary after it.
    expect(rejections).toEqual([
      expect.stringMatching(/may be published already/),
      expect.stringMatching(/may be published already/),
    ]);
    expect(end.status).toBe('completed');
  });
});
