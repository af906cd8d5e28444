import { describe, expect, it } from 'vitest';
import { epochMsOf } from '../../../lib/core/timestamps.ts';
import { renderPage } from '../../../lib/operator/run-report/render-page.ts';
import { type Columns, type Point } from '../../../lib/operator/run-report/run-data.ts';
import { aRunView, longRun, origin, pageEntries, readExample } from './example-runs.ts';

const status = aRunView();
const pointAt = (columns: Columns, index: number) =>
  Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, values.at(index)])) as unknown as Point;
const sumOf = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);

describe('the data of a run', () => {
  it('has a point for each page of a short run', async () => {
    const delays = (page: number) => (page === 2 ? { failedAttempts: 3, waitedSeconds: 45 } : {});
    const { points } = await readExample({ status, entries: pageEntries({ pages: 2_000, delays }) });
    expect(points.pages).toHaveLength(2_000);
    expect(pointAt(points, 1)).toEqual({
      loggedAt: epochMsOf(status.startedAt) + 2 * 695,
      pages: 1,
      timedPages: 1,
      latency: 480,
      maxLatency: 480,
      transfer: 95,
      bytes: 71_370,
      maxBytes: 71_370,
      reports: 100,
      failedAttempts: 3,
      waited: 45_000,
    });
  });

  it('has a bounded size for a long run, includes all pages, and keeps its peaks', async () => {
    const pages = 50_000;
    const data = await readExample(longRun(pages));
    const { points } = data;
    expect([sumOf(points.pages), sumOf(points.reports), sumOf(points.waited)]).toEqual([
      pages,
      pages * 100,
      25 * 600_000,
    ]);
    expect(Math.max(...points.maxLatency)).toBeGreaterThan(60_000);
    expect(points.pages.length).toBeLessThanOrEqual(2_000);
    expect(points.pages.length).toBeGreaterThan(500);
    expect(points.loggedAt).toEqual(points.loggedAt.toSorted((one, other) => one - other));
    expect(renderPage({ ...origin, run: data }).length).toBeLessThan(300_000);
  });

  it('has the pages of all slices, of their newest attempts, in order of time', async () => {
    const slice = (number: number, attempt: number, pages: number, latencyMs: number) =>
      [...pageEntries({ pages, latencyMs: () => latencyMs })].map((entry) => ({ ...entry, slice: number, attempt }));
    const entries = [...slice(1, 1, 3, 790), ...slice(2, 1, 9, 1), ...slice(2, 2, 4, 285)];
    const { points } = await readExample({ status, entries });
    expect(points.latency).toEqual([285, 285, 790, 285, 285, 790, 790]);
  });

  it('has median, 95th percentile and maximum of the latency, to 0.1%', async () => {
    const latencyMs = (page: number) => (page === 77 ? 61_234 : page);
    const { latency } = await readExample({ status, entries: pageEntries({ pages: 100, latencyMs }) });
    // Without page 77, the latencies are 1 to 100.
    expect(latency).toEqual({ median: 50, p95: 96, max: expect.closeTo(61_234, -2) });
  });

  it('has no times of adopted pages, and no negative ones if the clocks of two machines differ', async () => {
    const isAdopted = (page: number) => page < 3;
    const entries = pageEntries({ pages: 3, isAdopted, transferMs: () => -40 });
    expect((await readExample({ status, entries })).points).toMatchObject({
      timedPages: [0, 0, 1],
      transfer: [0, 0, 0],
    });
    const adopted = await readExample({ status, entries: pageEntries({ pages: 3, isAdopted: () => true }) });
    expect(adopted.latency).toBeNull();
  });
});
