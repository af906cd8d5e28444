import { describe, expect, it } from 'vitest';
import { ExportError } from '../../lib/core/errors.ts';
import { type Plan, planRun } from '../../lib/operator/plan-run.ts';
import type { StartRequest } from '../../lib/core/start/start-input.ts';
import { at } from '../support/builders.ts';
import { anExportBench, type Bench } from '../support/export/export-bench.ts';
import { createMemoryLog } from '../support/export/memory-adapters.ts';
import { failsAt, someReports } from '../support/export/scripted-service.ts';

const plan = ({ deps, log }: Bench, request?: StartRequest): Promise<Plan> => planRun({ ...deps, log }, request);
const cursorOf = (planned: Plan) => ('run' in planned ? (planned.walk?.first.cursor ?? undefined) : undefined);

/** A run that failed after its first page. */
async function aFailedRun(): Promise<Bench> {
  const bench = anExportBench({ reports: someReports(5), size: 2, script: failsAt({ 2: 'RequestRejectedError' }) });
  expect((await bench.start()).status).toBe('failed');
  return bench;
}

describe('the plan of a new run', () => {
  it('names the run that a restart abandons', async () => {
    const bench = await aFailedRun();
    const { active } = await bench.state();
    expect(await plan(bench, { restart: true })).toMatchObject({ act: 'start', abandons: active?.run });
  });
});

describe('the plan of an unfinished run', () => {
  it.each([
    [19, 3],
    [4, null],
  ])('of %d reports with one page logged and another one stored requests page %s next', async (reports, page) => {
    let isLogDown = true;
    const log = createMemoryLog();
    const bench = anExportBench({
      reports: someReports(reports),
      size: 2,
      limits: { pagesPerInvocation: 25 },
    }).with({
      log: {
        ...log,
        async append(entry) {
          if (isLogDown && entry.page > 1) throw new ExportError('ConfigurationError', 'no log');
          return await log.append(entry);
        },
      },
    });
    expect((await bench.start()).status).toBe('failed');
    const planned = await plan(bench);
    expect(planned).toMatchObject({ act: 'resume', page });
    isLogDown = false;
    const requestsBefore = bench.service.requests.length;
    expect((await bench.start()).status).toBe('completed');
    expect(bench.service.requests[requestsBefore]?.cursor).toBe(cursorOf(planned));
  });
});

describe('the plan of a run with several slices', () => {
  const bounds = { since: at('2026-11-01T00:00:00Z'), until: at('2026-11-01T00:05:00Z') };
  const input = { ...bounds, parallel: 2, slice: 'PT2M' };
  const slices = { count: 3, lengthSeconds: 120, parallel: 2 };

  it('resumes it with the next page of its oldest slice that is not done', async () => {
    const bench = anExportBench({
      reports: someReports(5),
      size: 1,
      script: ({ since, cursor }) => {
        if (since === '2026-11-01T00:02:00Z' && cursor !== null) throw new ExportError('RequestRejectedError', 'no');
        return undefined;
      },
    });
    expect((await bench.start(input)).status).toBe('failed');
    expect(await plan(bench, input)).toMatchObject({
      act: 'resume',
      slices: { ...slices, done: 2 },
      slice: 2,
      page: 2,
      walk: { first: { since: '2026-11-01T00:02:00Z', until: '2026-11-01T00:04:00Z' } },
    });
    expect(await plan(bench, { ...input, slice: 'PT1M' })).toMatchObject({
      act: 'refuse',
      reason: expect.stringContaining('slices were 2 minutes long and would now be 1 minutes long'),
    });
    expect(await plan(bench)).toMatchObject({ act: 'start', slices: null });
  });

  it('skips bounds that were exported, unless they are exported again', async () => {
    const bench = anExportBench();
    expect((await bench.start(bounds)).status).toBe('completed');
    expect(await plan(bench, bounds)).toMatchObject({ act: 'skip', reason: expect.stringContaining('has exported') });
    expect(await plan(bench, { ...bounds, again: true })).toMatchObject({ act: 'start', slices: null });
  });
});

it('changes nothing', async () => {
  const bench = await aFailedRun();
  const before = await bench.state();
  await plan(bench);
  await plan(bench, { restart: true });
  expect(await bench.state()).toEqual(before);
});
