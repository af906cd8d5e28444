/** Example histories of exports, for the tests and screenshots of the run report and its indexes. */

import { asRunId, type RunId } from '../../../lib/core/model.ts';
import type { StatusEntry } from '../../../lib/operator/run-status.ts';
import { instantOf } from '../../../lib/core/timestamps.ts';
import type { Origin } from '../../../lib/operator/run-report/page.ts';
import type { Gap } from '../../../lib/operator/run-report/gaps.ts';
import type { ExportIndex, OverviewRow } from '../../../lib/operator/run-report/list-pages.ts';
import type { HistoryRun, RunHistory } from '../../../lib/operator/run-report/run-history.ts';
import { createRng } from '../../simulation/world/rng.ts';
import { at } from '../../support/builders.ts';

export const origin: Origin = {
  deployment: 'stack ReportExporter in eu-central-1',
  deploymentOption: '--stack ReportExporter',
  createdAt: at('2026-11-20T08:30:00Z'),
};

const dayMs = 86_400_000;
const newestStart = Date.parse('2026-11-20T02:00:00Z');

export const aHistory = (overrides: Partial<RunHistory> = {}): RunHistory => ({
  runs: [],
  hasOlder: false,
  gaps: [],
  unknownDates: 0,
  error: null,
  ...overrides,
});

/** The run that began at 02:00 on the day `daysAgo` days before 20 November 2026. That of the day itself is the one of `someRunFacts`. */
export function aHistoryRun(daysAgo: number, overrides: Partial<HistoryRun> = {}): HistoryRun {
  const startMs = newestStart - daysAgo * dayMs;
  const startedAt = instantOf(startMs);
  return {
    run: runIdOf(daysAgo),
    state: 'completed',
    startedAt,
    endedAt: instantOf(startMs + 180_000),
    pages: 124,
    reports: 12_334,
    bytes: 8_712_310,
    ...overrides,
  };
}

const runIdOf = (daysAgo: number): RunId =>
  asRunId(`${instantOf(newestStart - daysAgo * dayMs).replaceAll(/[-:]/g, '')}-1f3a5c`);

/** Daily runs of about three minutes, some slower, one abandoned. */
export function dailyHistory(count: number): RunHistory {
  const rng = createRng('history', String(count));
  const runs = Array.from({ length: count }, (_, daysAgo) => {
    const pages = Math.round(90 + 60 * rng.next());
    const isAbandoned = daysAgo === 11;
    const isSlow = rng.chance(0.2);
    return aHistoryRun(daysAgo, {
      pages: isAbandoned ? 41 : pages,
      reports: isAbandoned ? 4_100 : pages * 100 - 66,
      bytes: (isAbandoned ? 41 : pages) * 70_400,
      endedAt: instantOf(newestStart - daysAgo * dayMs + pages * 1_300 + (isSlow ? 95_000 : 0)),
      ...(isAbandoned ? { state: 'abandoned' } : {}),
    });
  });
  return aHistory({ runs, hasOlder: count < 40 });
}

/** Someone started the run of 17 November with a later --since, and nothing has closed the gap yet. */
export function historyWithGap(closedBy: Gap['closedBy'] = null): RunHistory {
  const history = dailyHistory(12);
  const gap = { from: at('2026-11-16T02:00:00Z'), to: at('2026-11-16T20:30:00Z'), before: runIdOf(3), closedBy };
  return { ...history, gaps: [gap] };
}

export const anExportIndex = (history: RunHistory, overrides: Partial<ExportIndex> = {}): ExportIndex => ({
  export: 'nightly',
  history,
  watermark: at('2026-11-20T02:00:00Z'),
  completedAt: at('2026-11-20T02:02:58Z'),
  schedule: { kind: 'scheduled', expression: 'cron(0 2 * * ? *)', timeZone: 'Europe/Berlin' },
  unreadable: new Map(),
  ...overrides,
});

/** Exports in every state. */
export function exampleOverview(): OverviewRow[] {
  const entry = (name: string, overrides: Partial<Extract<StatusEntry, { state: string }>> = {}): StatusEntry => ({
    export: name,
    service: 'acme',
    failedStart: null,
    state: 'completed',
    stale: false,
    freshnessSeconds: 129_600,
    lastReportsAt: at('2026-11-20T02:02:58Z'),
    reportsEverySeconds: null,
    reportsOverdue: false,
    run: runIdOf(0),
    since: at('2026-11-19T02:00:00Z'),
    startedAt: at('2026-11-20T02:00:00Z'),
    watermark: at('2026-11-20T02:00:00Z'),
    completedAt: at('2026-11-20T02:02:58Z'),
    schedule: { kind: 'manual' },
    lastFailure: null,
    slices: null,
    bounded: { unfinished: [], completed: 0, newest: null },
    pages: 124,
    reports: 12_334,
    bytes: 8_712_310,
    ...overrides,
  });
  const index = (name: string, overrides: Partial<NonNullable<OverviewRow['index']>> = {}) => ({
    address: `${name}/index.html`,
    runs: 30,
    gaps: 0,
    unreadable: 0,
    ...overrides,
  });
  const failure = {
    error: 'ServiceUnavailableError',
    message: 'Report service responded with 502 Bad Gateway for page 42 of run 20261120T020000Z-1f3a5c, for 65 minutes',
    at: at('2026-11-20T03:05:00Z'),
  };
  const error = {
    name: 'PageConflictError',
    message: 'The state of export orders does not match what this exporter wrote',
  };
  return [
    { entry: entry('invoices-de'), index: index('invoices-de', { gaps: 1 }) },
    {
      entry: entry('invoices-eu', { state: 'failed', lastFailure: failure, completedAt: at('2026-11-18T02:04:00Z') }),
      index: index('invoices-eu'),
    },
    { entry: entry('nightly'), index: index('nightly') },
    { entry: { export: 'orders', service: 'acme', error }, index: null },
    {
      entry: entry('payments', { stale: true, completedAt: at('2026-11-17T02:04:00Z') }),
      index: index('payments', { unreadable: 2 }),
    },
    {
      entry: entry('returns', { state: 'running', pages: 12, reports: null, bytes: 840_000 }),
      index: index('returns'),
    },
    {
      entry: entry('shipments', {
        state: 'never',
        run: null,
        startedAt: null,
        completedAt: null,
        reports: 0,
        bytes: 0,
        pages: 0,
      }),
      index: index('shipments', { runs: 0 }),
    },
    { entry: entry('archive', { state: 'interrupted' }), index: index('archive', { runs: 1_000 }) },
  ];
}
