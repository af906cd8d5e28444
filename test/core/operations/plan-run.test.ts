/** What a start would do is told before it is made, and is what the start then does. */

import { describe, expect, it } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import { requireAbandonableRun, abandonRun } from '../../../lib/core/operations/abandon-run.ts';
import { type Plan, planRun } from '../../../lib/core/operations/plan-run.ts';
import type { StartInput } from '../../../lib/core/steps/start-input.ts';
import { anExportRequest, aRunId, at } from '../../support/builders.ts';
import { anExportBench, type Bench, type BenchOptions } from '../../support/export-bench.ts';
import { installedBench } from '../../support/installed-bench.ts';
import { createMemoryLog } from '../../support/memory-adapters.ts';
import { type Script, someReports } from '../../support/scripted-service.ts';

const refusing: Script = (_, nth) => {
  if (nth === 2) throw new ExportError('RequestRejectedError', 'no');
  return undefined;
};
const plan = ({ deps }: Bench, input?: StartInput): Promise<Plan> => planRun(deps, input);

/** A run that stopped behind its first page. */
async function unfinished(options: BenchOptions = {}): Promise<Bench> {
  const bench = anExportBench({ reports: someReports(5), size: 2, script: refusing, ...options });
  expect((await bench.start()).status).toBe('failed');
  return bench;
}

describe('the plan', () => {
  it('of a first run is everything, or from the initial value on', async () => {
    expect(await plan(anExportBench())).toMatchObject({
      act: 'start',
      since: '1970-01-01T00:00:00Z',
      reason: expect.stringContaining('everything the service has'),
    });
    const initial = at('2026-11-01T00:00:00Z');
    const bench = anExportBench({ definition: { since: { from: 'watermark', initial, overlapMs: 0 } } });
    expect(await plan(bench)).toMatchObject({ since: initial, reason: expect.stringContaining('the initial value') });
  });

  it('of the next run starts at the watermark, less the overlap', async () => {
    const bench = anExportBench({ definition: { since: { from: 'watermark', overlapMs: 900_000 } } });
    await bench.start();
    expect(await plan(bench)).toMatchObject({
      act: 'start',
      since: '2026-11-20T01:45:01Z',
      reason: 'the watermark, 2026-11-20T02:00:01Z, less the overlap of 900 s',
      abandons: null,
    });
  });

  it('of a look-back counts from the scheduled time, or now', async () => {
    const bench = anExportBench({ definition: { since: { from: 'lookback', lookbackMs: 3_600_000 } } });
    const scheduledTime = '2026-11-20T12:00:00Z';
    expect(await plan(bench, { scheduledTime })).toMatchObject({
      since: '2026-11-20T11:00:00Z',
      reason: `the look-back of 3,600 s before its scheduled time, ${scheduledTime}`,
    });
    expect(await plan(bench)).toMatchObject({
      since: '2026-11-20T01:00:00Z',
      reason: expect.stringMatching(/before now$/),
    });
  });

  it('of an unfinished run goes on with its next page and cursor', async () => {
    const bench = await unfinished();
    const { active } = await bench.head();
    const last = active && (await bench.log.last(active));
    expect(await plan(bench)).toEqual({
      act: 'resume',
      run: active?.run,
      since: active?.since,
      reason: `run ${active?.run} failed (RequestRejectedError), and goes on where it stopped`,
      page: 2,
      cursor: last?.nextCursor,
      request: active?.request,
    });
  });

  it('of a run whose next page was stored, but not logged, asks for the one after', async () => {
    const killed = { is: false };
    const bench = anExportBench({
      reports: someReports(5),
      size: 2,
      crash: (moment) => {
        if (killed.is && moment === 'before the page is logged') throw new Error('killed');
      },
      script: (_, nth) => {
        killed.is = nth >= 2;
        return undefined;
      },
    });
    await bench.start().catch(() => {});
    const planned = await plan(bench);
    expect(planned).toMatchObject({ act: 'resume', page: 3, reason: expect.stringContaining('stored already') });
    killed.is = false;
    const asked = bench.service.requests.length;
    await bench.start();
    expect(bench.service.requests[asked]?.cursor).toBe(planned.act === 'resume' ? planned.cursor : undefined);
  });

  it.each([
    [9, 5],
    [7, null],
  ])('of a run of %d reports with four pages stored, but none logged, asks for page %s', async (reports, page) => {
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
          // Four pages are in hand, and lie in the store when the first cannot be logged.
          while (bench.store.objects.size < 4) await new Promise(setImmediate);
          if (isLogDown) throw new ExportError('ConfigurationError', 'no log');
          return await log.append(entry);
        },
      },
    });
    expect((await bench.start()).status).toBe('failed');
    const planned = await plan(bench);
    expect(planned).toMatchObject({ act: 'resume', page, reason: expect.stringContaining('4 pages behind its log') });
    isLogDown = false;
    const asked = bench.service.requests.length;
    expect((await bench.start()).status).toBe('completed');
    expect(bench.service.requests[asked]?.cursor).toBe((planned.act === 'resume' && planned.cursor) || undefined);
  });

  it('of a run with every page stored is to publish it', async () => {
    let down = true;
    const bench = anExportBench({
      crash: (moment) => {
        if (down && moment === 'before the manifest is written') throw new Error('cut off');
      },
    });
    await bench.start();
    down = false;
    expect(await plan(bench)).toMatchObject({ act: 'resume', page: null, cursor: null });
  });

  it('of a restart says which run is given up for it', async () => {
    const bench = await unfinished();
    const { active } = await bench.head();
    expect(await plan(bench, { restart: true })).toMatchObject({ act: 'start', abandons: active?.run });
  });

  it('is to do nothing while a run is being worked on', async () => {
    const bench = await unfinished();
    const { active } = await bench.head();
    bench.running.add(active?.execution ?? '');
    expect(await plan(bench)).toMatchObject({ act: 'skip', reason: expect.stringContaining('still being worked on') });
  });

  it('is refused where the settings contradict an unfinished run, with what to do', async () => {
    const bench = await unfinished();
    const other = bench.with({ definition: { request: anExportRequest({ size: 3 }) } });
    expect(await plan(other)).toMatchObject({ act: 'refuse', reason: expect.stringContaining('size 2, now 3') });
  });

  it('changes nothing', async () => {
    const bench = await unfinished();
    const before = await bench.head();
    await plan(bench);
    await plan(bench, { restart: true });
    expect(await bench.head()).toEqual(before);
  });
});

describe('a run that is given up', () => {
  it('is never published: the next start begins a new one, with the same reports', async () => {
    const bench = await unfinished();
    const run = await requireAbandonableRun(installedBench(bench), await bench.head(), bench.deps.definition.name);
    expect(await abandonRun(installedBench(bench), run)).toEqual(run);

    expect((await bench.head()).active).toBeUndefined();
    bench.pass(1_000);
    const end = await bench.start();
    expect(end).toMatchObject({ status: 'completed', result: { reports: 5, since: run.since } });
    expect([...bench.store.objects.keys()].filter((key) => key.includes(run.run))).not.toContainEqual(
      expect.stringContaining('manifest'),
    );
  });

  it('must be the unfinished one: not another, none, nor one that is published', async () => {
    const bench = await unfinished();
    const name = bench.deps.definition.name;
    const given = (run: string) => abandonRun(installedBench(bench), { export: name, run: run as never });
    await expect(given(aRunId())).rejects.toThrow(/has taken its place; nothing was changed/);

    let down = true;
    const published = anExportBench({
      crash: (moment) => {
        if (down && moment === 'before latest is written') throw new Error('cut off');
      },
    });
    await published.start();
    down = false;
    await expect(requireAbandonableRun(installedBench(published), await published.head(), name)).rejects.toThrow(
      /is published already/,
    );
    await published.start();
    await expect(requireAbandonableRun(installedBench(published), await published.head(), name)).rejects.toThrow(
      /no unfinished run/,
    );
  });
});
