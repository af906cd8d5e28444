import { describe, expect, it } from 'vitest';
import type { Incident } from '../../../lib/target/target.ts';
import { epochMsOf, instantOf } from '../../../lib/core/timestamps.ts';
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

const run = someRunFacts();

describe('the data of a run report', () => {
  it('has a point for each page of a short run, with its time split into three phases', async () => {
    const times = { latencyMs: () => 480, betweenMs: () => 120, transferMs: () => 95 };
    const { points, pagesPerPoint, timeByPhase, totals } = await collectExample({
      run,
      entries: pageEntries(run, { pages: 2_000, ...times }),
      incidents: [],
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
    expect(timeByPhase).toMatchObject({ between: 240_000, latency: 960_000, transfer: 190_000 });
    expect(totals).toEqual({ pages: 2_000, reports: 200_000, bytes: 2_000 * 71_370 });
  });

  it('has median, p95 and the slowest page, to the millisecond or to 0.1%', async () => {
    const latencyMs = (page: number) => (page === 77 ? 61_234 : page);
    const entries = pageEntries(run, { pages: 100, latencyMs });
    const { latency } = await collectExample({ run, entries, incidents: [] });
    // Without page 77, the latencies are 1 to 100.
    expect(latency).toEqual({ min: 1, median: 50, p95: 96, max: 61_234, slowestPage: 77 });
  });

  it('has no times for adopted pages, and counts them', async () => {
    const data = await collectExample(adoptedRun());
    expect(data).toMatchObject({
      adoptedPages: 14,
      latency: null,
      timeByPhase: { between: 0, latency: 0, transfer: 0 },
    });
    expect(data.points.every(({ between, latency, transfer }) => (between ?? latency ?? transfer) === null)).toBe(true);
  });

  it('has no negative times if the clocks of two machines differ', async () => {
    const entries = pageEntries(run, { pages: 3, betweenMs: () => -5_000, transferMs: () => -40 });
    const { points } = await collectExample({ run, entries, incidents: [] });
    expect(points.map(({ between, transfer }) => [between?.min, transfer?.min])).toEqual([
      [0, 0],
      [0, 0],
      [0, 0],
    ]);
  });

  it('uses the totals of the run if the log no longer contains it', async () => {
    const totals = { pages: 9, reports: 812, bytes: 64_000 };
    const data = await collectExample({ run: { ...run, totals }, entries: [], incidents: [] });
    expect(data).toMatchObject({ totals, points: [], firstPage: null, lastPage: null });
  });

  it.each([
    ['a completed run with its completion', eventfulRun(), eventfulRun().run.completedAt],
    ['a running run with the present', newRun(), at('2026-11-20T02:00:04Z')],
    ['a failed run with its failure', failedRun(), failedRun().incidents.at(-1)?.at],
  ])('ends %s', async (_, example, endedAt) => {
    expect((await collectExample(example)).endedAt).toBe(endedAt);
  });

  it('takes the reason of a failure from the run, or else from its history', async () => {
    const example = failedRun();
    expect((await collectExample(example)).failure).toMatchObject({ error: 'ContractError' });
    const failure = { error: 'PageConflictError', message: 'A page is missing', at: at('2026-11-20T07:00:00Z') };
    expect((await collectExample({ ...example, run: { ...example.run, failure } })).failure).toEqual(failure);
    expect((await collectExample({ ...example, run: { ...example.run, state: 'completed' } })).failure).toBeNull();
  });

  it('lists identical incidents of an execution once, also among those it omits', async () => {
    const attempts = (page: number, count: number, second: number) =>
      Array.from({ length: count }, (_, index): Incident => ({
        kind: 'failed-attempt',
        at: instantOf(epochMsOf(run.startedAt) + (second + index) * 1_000),
        page,
        error: 'ServiceUnavailableError',
        message: `Report service responded with 503 for page ${page}`,
      }));
    const failure: Incident = { kind: 'failed-run', at: run.startedAt, page: 1, error: 'E', message: 'm' };
    const pages = Array.from({ length: 500 }, (_, index) => attempts(index + 2, 3, 60 + 3 * index)).flat();
    const incidents = [...attempts(1, 5, 0), failure, ...attempts(1, 2, 30), ...pages];
    const { oldest, omitted, newest } = (await collectExample({ run, entries: [], incidents })).incidents;
    expect(oldest.slice(0, 4)).toMatchObject([
      { page: 1, count: 5, at: run.startedAt, lastAt: '2026-11-20T02:00:04Z' },
      { kind: 'failed-run', count: 1 },
      { page: 1, count: 2, at: '2026-11-20T02:00:30Z', lastAt: '2026-11-20T02:00:31Z' },
      { page: 2, count: 3 },
    ]);
    expect(newest.at(-1)).toMatchObject({ page: 501, count: 3 });
    const listed = [...oldest, ...newest].reduce((sum, { count }) => sum + count, 0);
    expect(listed + omitted).toBe(incidents.length);
  });

  it('keeps the oldest and the newest of many incidents, and counts all of them', async () => {
    const incidents = Array.from({ length: 10_000 }, (_, index): Incident => ({
      kind: 'failed-attempt',
      at: instantOf(epochMsOf(run.startedAt) + index * 1_000),
      page: index,
      error: index % 2 === 0 ? 'ServiceUnavailableError' : `Error${index}`,
      message: 'm'.repeat(5_000),
    }));
    const summary = (await collectExample({ run, entries: [], incidents })).incidents;
    const { oldest, omitted, newest, groups, marks } = summary;
    expect([oldest.length, omitted, newest.length]).toEqual([100, 9_800, 100]);
    expect(newest.at(-1)?.page).toBe(9_999);
    expect(groups[0]).toMatchObject({ error: 'ServiceUnavailableError', count: 5_000 });
    expect(groups.length).toBeLessThan(40);
    expect(groups.reduce((sum, { count }) => sum + count, 0)).toBe(10_000);
    expect(marks.length).toBeLessThanOrEqual(500);
    expect(marks.reduce((sum, { count }) => sum + count, 0)).toBe(10_000);
    expect(JSON.stringify(oldest).length).toBeLessThan(150_000);
  });
});
