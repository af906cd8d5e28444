import { describe, expect, it } from 'vitest';
import { statisticsOfAll } from '../../../lib/operator/run-report/page-series.ts';
import { chartData } from '../../../lib/operator/run-report/charts.ts';
import { renderRunReport } from '../../../lib/operator/run-report/run-report.ts';
import { epochMsOf } from '../../../lib/core/timestamps.ts';
import { at } from '../../support/builders.ts';
import {
  adoptedRun,
  collectExample,
  eventfulRun,
  failedRun,
  newRun,
  pageEntries,
  someRunFacts,
} from './example-runs.ts';

import { textOf } from './html-elements.ts';

const run = someRunFacts();

describe('the data of a run report', () => {
  it('has a point for each page of a short run, with its time split into three phases', async () => {
    const times = { latencyMs: () => 480, betweenMs: () => 120, transferMs: () => 95 };
    const { points, pagesPerPoint, totals } = await collectExample({
      run,
      entries: pageEntries(run, { pages: 2_000, ...times }),
    });
    expect(pagesPerPoint).toBe(1);
    expect(points).toHaveLength(2_000);
    expect(points[6]).toMatchObject({
      firstPage: 7,
      pages: 1,
      loggedAt: epochMsOf(run.startedAt) + 7 * 695,
      between: { sum: 120 },
      latency: { sum: 480 },
      transfer: { sum: 95 },
    });
    expect(statisticsOfAll(points, 'latency')).toMatchObject({ count: 2_000, sum: 960_000, min: 480, max: 480 });
    expect(totals).toEqual({ pages: 2_000, reports: 200_000, bytes: 2_000 * 71_370 });
  });

  it('has median, p95 and the slowest page, to the millisecond or to 0.1%', async () => {
    const latencyMs = (page: number) => (page === 77 ? 61_234 : page);
    const entries = pageEntries(run, { pages: 100, latencyMs });
    const { latency } = await collectExample({ run, entries });
    // Without page 77, the latencies are 1 to 100.
    expect(latency).toEqual({ min: 1, median: 50, p95: 96, max: 61_234, slowestPage: 77 });
  });

  it('has the pages of all slices in the order in which they were logged', async () => {
    const slice = (number: number, attempt: number, pages: number, latencyMs: number) =>
      [...pageEntries(run, { pages, latencyMs: () => latencyMs })].map((entry) => ({
        ...entry,
        slice: number,
        attempt,
      }));
    const entries = [...slice(1, 1, 3, 785), ...slice(2, 1, 9, 1), ...slice(2, 2, 4, 285)];
    const data = await collectExample({ run, entries });
    expect(data.totals).toEqual({ pages: 7, reports: 700, bytes: 7 * 71_370 });
    expect(data.points.map(({ firstPage, slice: of }) => [firstPage, of?.sum])).toEqual([
      [1, 2],
      [2, 1],
      [3, 2],
      [4, 2],
      [5, 1],
      [6, 2],
      [7, 1],
    ]);
    // From the page before it in its slice, to which a first page has none.
    expect(data.points.map(({ between }) => between?.sum ?? null)).toEqual([null, null, 120, 120, 120, 120, 120]);
    const text = textOf(renderRunReport(data));
    for (const expected of ['7 pages, 700 reports', 'Pages Slices Logged by', 'The pages of all slices are numbered']) {
      expect(text).toContain(expected);
    }
    expect(chartData(data).slices).toEqual(['2', '1', '2', '2', '1', '2', '1']);
  });

  it('has no times for adopted pages, and counts them', async () => {
    const data = await collectExample(adoptedRun());
    expect(data).toMatchObject({ adoptedPages: 14, latency: null });
    expect(data.points.every(({ between, latency, transfer }) => (between ?? latency ?? transfer) === null)).toBe(true);
  });

  it('has no negative times if the clocks of two machines differ', async () => {
    const entries = pageEntries(run, { pages: 3, betweenMs: () => -5_000, transferMs: () => -40 });
    const { points } = await collectExample({ run, entries });
    expect(points.map(({ between, transfer }) => [between?.min, transfer?.min])).toEqual([
      [0, 0],
      [0, 0],
      [0, 0],
    ]);
  });

  it('uses the totals of the run if the log no longer contains it', async () => {
    const totals = { pages: 9, reports: 812, bytes: 64_000 };
    const data = await collectExample({ run: { ...run, totals }, entries: [] });
    expect(data).toMatchObject({ totals, points: [], firstPage: null, lastPage: null });
  });

  it.each([
    ['a completed run with its completion', eventfulRun(), eventfulRun().run.completedAt],
    ['a running run with the present', newRun(), at('2026-11-20T02:00:04Z')],
    ['a failed run with its failure', failedRun(), failedRun().run.lastIncident?.at],
  ])('ends %s', async (_, example, endedAt) => {
    expect((await collectExample(example)).endedAt).toBe(endedAt);
  });

  it('has the failed attempts and the waits before each page, with the sum of those of a point', async () => {
    const delays = (page: number) => (page === 2 ? { failedAttempts: 3, waitedSeconds: 45 } : {});
    const data = await collectExample({
      run,
      entries: pageEntries(run, { pages: 3, delays, betweenMs: () => 60_000 }),
    });
    expect(data.points.map(({ attempts, waited }) => [attempts?.sum, waited?.sum])).toEqual([
      [undefined, undefined],
      [3, 45_000],
      [undefined, undefined],
    ]);
    const requestedAt = epochMsOf(run.startedAt) / 1_000 + 120.575;
    const { attempts, waits } = chartData(data);
    expect(attempts).toEqual([expect.closeTo(requestedAt)]);
    expect(waits).toEqual([[expect.closeTo(requestedAt - 45), 45]]);
  });
});
