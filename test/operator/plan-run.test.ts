import { describe, expect, it } from 'vitest';
import { ExportError } from '../../lib/core/errors.ts';
import { type Plan, planRun } from '../../lib/operator/plan-run.ts';
import type { StartInput } from '../../lib/core/steps/start-input.ts';
import { anExportRequest, at } from '../support/builders.ts';
import { anExportBench, type Bench } from '../support/export/export-bench.ts';
import { createMemoryLog } from '../support/export/memory-adapters.ts';
import { failsAtRequest, someReports } from '../support/export/scripted-service.ts';

const plan = ({ deps }: Bench, input?: StartInput): Promise<Plan> => planRun(deps, input);

/** A run that failed after its first page. */
async function aFailedRun(): Promise<Bench> {
  const bench = anExportBench({ reports: someReports(5), size: 2, script: failsAtRequest(2) });
  expect((await bench.start()).status).toBe('failed');
  return bench;
}

describe('the plan of a new run', () => {
  it('starts a first run with the oldest report, or at the initial value', async () => {
    expect(await plan(anExportBench())).toMatchObject({
      act: 'start',
      since: '1970-01-01T00:00:00Z',
      reason: expect.stringContaining('every report'),
    });
    const initial = at('2026-11-01T00:00:00Z');
    const bench = anExportBench({ definition: { since: { from: 'watermark', initial, overlapMs: 0 } } });
    expect(await plan(bench)).toMatchObject({ since: initial, reason: expect.stringContaining('since.initial') });
  });

  it('starts the next run at the watermark minus the overlap', async () => {
    const bench = anExportBench({ definition: { since: { from: 'watermark', overlapMs: 900_000 } } });
    await bench.start();
    expect(await plan(bench)).toMatchObject({
      act: 'start',
      since: '2026-11-20T01:44:59Z',
      reason: 'the watermark 2026-11-20T01:59:59Z minus the overlap of 900 s',
      abandons: null,
    });
  });

  it('subtracts the lookback window from the scheduled time, or from now', async () => {
    const bench = anExportBench({ definition: { since: { from: 'lookback', lookbackMs: 3_600_000 } } });
    const scheduledTime = '2026-11-20T12:00:00Z';
    expect(await plan(bench, { scheduledTime })).toMatchObject({
      since: '2026-11-20T11:00:00Z',
      reason: expect.stringMatching(/^3,600 s \(lookbackWindow\) before .*2026-11-20T12:00:00Z$/),
    });
    expect(await plan(bench)).toMatchObject({
      since: '2026-11-20T01:00:00Z',
      reason: expect.stringMatching(/before now$/),
    });
  });

  it('names the run that a restart abandons', async () => {
    const bench = await aFailedRun();
    const { active } = await bench.state();
    expect(await plan(bench, { restart: true })).toMatchObject({ act: 'start', abandons: active?.run });
  });
});

describe('the plan of an unfinished run', () => {
  it('resumes it with its next page and cursor', async () => {
    const bench = await aFailedRun();
    const { active } = await bench.state();
    const last = active && (await bench.log.last(active));
    expect(await plan(bench)).toEqual({
      act: 'resume',
      run: active?.run,
      since: active?.since,
      reason: `run ${active?.run} failed (RequestRejectedError) and is resumed`,
      page: 2,
      cursor: last?.nextCursor,
      request: active?.request,
      until: null,
      bounded: false,
      slices: null,
      next: { slice: null, since: active?.since, until: null },
      begunAt: active?.startedAt,
    });
  });

  it('skips a page that is stored but not logged, as the start then does', async () => {
    let crashes = false;
    const bench = anExportBench({
      reports: someReports(5),
      size: 2,
      crash: (moment) => {
        if (crashes && moment === 'before the page is logged') throw new Error('crashed');
      },
      script: (_, nth) => {
        crashes = nth >= 2;
        return undefined;
      },
    });
    await bench.start().catch(() => {});
    const planned = await plan(bench);
    expect(planned).toMatchObject({ act: 'resume', page: 3, reason: expect.stringContaining('1 page after its log') });
    crashes = false;
    const requestsBefore = bench.service.requests.length;
    await bench.start();
    expect(bench.service.requests[requestsBefore]?.cursor).toBe(planned.act === 'resume' ? planned.cursor : undefined);
  });

  it.each([
    [17, 9],
    [15, null],
  ])('of %d reports with eight pages stored and none logged requests page %s next', async (reports, page) => {
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
          // All eight pages in flight are stored before the first one fails to be logged.
          while (bench.store.objects.size < 8) await new Promise(setImmediate);
          if (isLogDown) throw new ExportError('ConfigurationError', 'no log');
          return await log.append(entry);
        },
      },
    });
    expect((await bench.start()).status).toBe('failed');
    const planned = await plan(bench);
    expect(planned).toMatchObject({ act: 'resume', page, reason: expect.stringContaining('8 pages after its log') });
    isLogDown = false;
    const requestsBefore = bench.service.requests.length;
    expect((await bench.start()).status).toBe('completed');
    expect(bench.service.requests[requestsBefore]?.cursor).toBe(
      (planned.act === 'resume' && planned.cursor) || undefined,
    );
  });

  it('requests no page if all of them are stored', async () => {
    let crashes = true;
    const bench = anExportBench({
      crash: (moment) => {
        if (crashes && moment === 'before the manifest is written') throw new Error('crashed');
      },
    });
    await bench.start();
    crashes = false;
    expect(await plan(bench)).toMatchObject({ act: 'resume', page: null, cursor: null });
  });

  it('skips while its execution is running', async () => {
    const bench = await aFailedRun();
    const { active } = await bench.state();
    bench.running.add(active?.execution ?? '');
    expect(await plan(bench)).toMatchObject({
      act: 'skip',
      reason: expect.stringContaining('still exporting') as unknown as string,
    });
  });

  it('refuses settings that contradict it, and says what to do', async () => {
    const bench = await aFailedRun();
    const other = bench.with({ definition: { request: anExportRequest({ size: 3 }) } });
    expect(await plan(other)).toMatchObject({
      act: 'refuse',
      reason: expect.stringMatching(/size was 2 and is now 3.*--restart/),
    });
  });
});

describe('the plan of a run with several slices', () => {
  const bounds = { since: at('2026-11-01T00:00:00Z'), until: at('2026-11-01T00:05:00Z') };
  const input = { ...bounds, parallel: 2, slice: 120_000 };
  const slices = {
    count: 3,
    lengthSeconds: 120,
    parallel: 2,
    first: { since: bounds.since, until: at('2026-11-01T00:02:00Z') },
    last: { since: at('2026-11-01T00:04:00Z'), until: bounds.until },
  };

  it('shows the cuts', async () => {
    expect(await plan(anExportBench(), input)).toMatchObject({
      act: 'start',
      ...bounds,
      bounded: true,
      slices: { done: 0, ...slices },
      next: { slice: 1, ...slices.first },
    });
    const open = { since: at('2026-11-20T01:58:30Z'), slice: 60_000 };
    expect(await plan(anExportBench(), open)).toMatchObject({
      until: null,
      bounded: false,
      slices: { count: 2, last: { since: '2026-11-20T01:59:00Z', until: null } },
    });
  });

  it('resumes it with the next page of its oldest slice that is not done', async () => {
    const bench = anExportBench({
      reports: someReports(5),
      size: 1,
      script: ({ since, cursor }) => {
        if (since === '2026-11-01T00:02:00Z' && cursor !== null) throw new ExportError('RequestRejectedError', 'no');
        return undefined;
      },
    });
    const start = { ...bounds, parallel: 2, slice: 'PT2M' };
    expect((await bench.start(start)).status).toBe('failed');
    expect(await plan(bench, input)).toMatchObject({
      act: 'resume',
      slices: { done: 2, ...slices },
      next: { slice: 2, since: '2026-11-01T00:02:00Z', until: '2026-11-01T00:04:00Z' },
      page: 2,
    });
    expect(await plan(bench, { ...input, slice: 60_000 })).toMatchObject({
      act: 'refuse',
      reason: expect.stringContaining('slices were 2 minutes long and would now be 1 minutes long'),
    });
    expect(await plan(bench)).toMatchObject({ act: 'start', bounded: false, slices: null });
  });

  it('skips bounds that were exported, and refuses those that do not fit', async () => {
    const bench = anExportBench();
    expect((await bench.start(bounds)).status).toBe('completed');
    expect(await plan(bench, bounds)).toMatchObject({ act: 'skip', reason: expect.stringContaining('has exported') });
    expect(await plan(bench, { ...bounds, again: true })).toMatchObject({ act: 'start', slices: null });
    const late = { ...bounds, until: at('2026-12-01T00:00:00Z') };
    expect(await plan(bench, late)).toMatchObject({
      act: 'refuse',
      reason: expect.stringContaining('must not be after'),
    });
    const series = { since: bounds.since, until: at('2026-11-01T00:10:00Z'), each: 'PT5M' };
    expect(await plan(bench, series)).toMatchObject({ act: 'start', since: bounds.until, until: series.until });
  });
});

it('changes nothing', async () => {
  const bench = await aFailedRun();
  const before = await bench.state();
  await plan(bench);
  await plan(bench, { restart: true });
  expect(await bench.state()).toEqual(before);
});
