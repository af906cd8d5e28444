import { describe, expect, it } from 'vitest';
import type { Incident } from '../../../lib/core/operations/deployment.ts';
import { epochMsOf, instantOf } from '../../../lib/core/timestamps.ts';
import { runReportHtml } from '../../../lib/operator/run-report/page.ts';
import { at } from '../../support/builders.ts';
import { adoptedRun, aReportedRun, begunRun, eventfulRun, failedRun, reportOn, walk } from './example-runs.ts';

const run = aReportedRun();

describe('the data of a report', () => {
  it('has a point for each page of a short run, its time split into what passed before, at and behind the answer', async () => {
    const times = { latencyMs: () => 480, beforeMs: () => 120, transferMs: () => 95 };
    const { points, pagesPerPoint, time, totals } = await reportOn({
      run,
      entries: walk(run, { pages: 2_000, ...times }),
      incidents: [],
    });
    expect(pagesPerPoint).toBe(1);
    expect(points).toHaveLength(2_000);
    expect(points[6]).toMatchObject({
      firstPage: 7,
      pages: 1,
      loggedAt: epochMsOf(run.startedAt) + 7 * 695,
      before: { sum: 120 },
      latency: { sum: 480 },
      transfer: { sum: 95 },
    });
    expect(time).toMatchObject({ before: 240_000, latency: 960_000, transfer: 190_000 });
    expect(totals).toEqual({ pages: 2_000, reports: 200_000, bytes: 2_000 * 71_370 });
  });

  it('stays as large as it is for a run of a hundred times as many pages, and leaves none out', async () => {
    const pages = 200_001;
    const bytes = (page: number) => 1_000 + (page % 977);
    const data = await reportOn({ run, entries: walk(run, { pages, bytes }), incidents: [] });
    expect(data.points.length).toBeLessThanOrEqual(2_000);
    expect(data.points.reduce((sum, point) => sum + point.pages, 0)).toBe(pages);
    expect(data.points.reduce((sum, point) => sum + point.bytes.sum, 0)).toBe(data.totals.bytes);
    expect(data.points.every((point, index) => point.firstPage === 1 + index * data.pagesPerPoint)).toBe(true);
    expect(data.points.at(0)?.bytes).toMatchObject({ count: data.pagesPerPoint, min: 1_001 });
    expect(runReportHtml(data).length).toBeLessThan(500_000);
  });

  it('names median, p95 and the slowest page, to the millisecond or to a thousandth', async () => {
    const latencyMs = (page: number) => (page === 77 ? 61_234 : page);
    const { latency } = await reportOn({ run, entries: walk(run, { pages: 100, latencyMs }), incidents: [] });
    // Page 77 aside, the ranks are those of 1 to 100.
    expect(latency).toEqual({ median: 50, p95: 96, max: 61_234, slowestPage: 77 });
  });

  it('knows no times of pages that were adopted, and counts them', async () => {
    const data = await reportOn(adoptedRun());
    expect(data).toMatchObject({ adopted: 14, latency: null, time: { before: 0, latency: 0, transfer: 0 } });
    expect(data.points.every(({ before, latency, transfer }) => (before ?? latency ?? transfer) === null)).toBe(true);
  });

  it('takes no time for less than nothing, where the clocks of two machines differ', async () => {
    const entries = walk(run, { pages: 3, beforeMs: () => -5_000, transferMs: () => -40 });
    const { points } = await reportOn({ run, entries, incidents: [] });
    expect(points.map(({ before, transfer }) => [before?.min, transfer?.min])).toEqual([
      [0, 0],
      [0, 0],
      [0, 0],
    ]);
  });

  it('takes the totals of the run where the log has forgotten it', async () => {
    const totals = { pages: 9, reports: 812, bytes: 64_000 };
    const data = await reportOn({ run: { ...run, totals }, entries: [], incidents: [] });
    expect(data).toMatchObject({ totals, points: [], firstPage: null, lastPage: null });
  });

  it.each([
    ['a completed run, when it completed', eventfulRun(), eventfulRun().run.completedAt],
    ['one under way, now', begunRun(), at('2026-11-20T02:00:04Z')],
    ['a failed one, with its failure', failedRun(), failedRun().incidents.at(-1)?.at],
  ])('ends with %s', async (_, example, endedAt) => {
    expect((await reportOn(example)).endedAt).toBe(endedAt);
  });

  it('tells why a run failed as it remembers, or else as its history does', async () => {
    const example = failedRun();
    expect((await reportOn(example)).failure).toMatchObject({ error: 'ContractError' });
    const failure = { error: 'PageConflictError', message: 'A page is gone', at: at('2026-11-20T07:00:00Z') };
    expect((await reportOn({ ...example, run: { ...example.run, failure } })).failure).toEqual(failure);
    expect((await reportOn({ ...example, run: { ...example.run, state: 'completed' } })).failure).toBeNull();
  });

  it('keeps the oldest and the newest of very many incidents, and counts every one', async () => {
    const incidents = Array.from(
      { length: 10_000 },
      (_, index): Incident => ({
        kind: 'failed-attempt',
        at: instantOf(epochMsOf(run.startedAt) + index * 1_000),
        page: index,
        error: index % 2 === 0 ? 'ServiceUnavailableError' : `Error${index}`,
        message: 'm'.repeat(5_000),
      }),
    );
    const { oldest, leftOut, newest, groups, marks } = (await reportOn({ run, entries: [], incidents })).incidents;
    expect([oldest.length, leftOut, newest.length]).toEqual([100, 9_800, 100]);
    expect(newest.at(-1)?.page).toBe(9_999);
    expect(groups[0]).toMatchObject({ error: 'ServiceUnavailableError', count: 5_000 });
    expect(groups.length).toBeLessThan(40);
    expect(groups.reduce((sum, { count }) => sum + count, 0)).toBe(10_000);
    expect(marks.length).toBeLessThanOrEqual(500);
    expect(marks.reduce((sum, { count }) => sum + count, 0)).toBe(10_000);
    expect(JSON.stringify(oldest).length).toBeLessThan(150_000);
  });
});
