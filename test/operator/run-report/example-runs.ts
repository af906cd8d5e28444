/** Example runs of every kind, as page log and history would return them, for the tests and screenshots of the run report. */

import { asRunId, type Delays, type PageEntry } from '../../../lib/core/model.ts';
import type { DeployedExport } from '../../../lib/target/target.ts';
import type { ChainRef } from '../../../lib/core/ports.ts';
import { epochMsOf, instantOf } from '../../../lib/core/timestamps.ts';
import { collectRunReportData, type RunFacts } from '../../../lib/operator/run-report/data.ts';
import type { Origin } from '../../../lib/operator/run-report/page.ts';
import { createRng } from '../../simulation/world/rng.ts';
import { aPageEntry, at } from '../../support/builders.ts';

export interface ExampleRun {
  readonly run: RunFacts;
  readonly entries: Iterable<PageEntry>;
  readonly origin?: Partial<Origin>;
}

const folder = 'exports/nightly/date=2026-11-20/run=20261120T020000Z-1f3a5c';

export const someRequest = {
  source: 'https://reports.example.com',
  filter: { date: { gte: '2026-11-19T02:00:01Z' }, type: 'daily' },
  format: 'XML',
  container: 'NONE',
};

export function someRunFacts(overrides: Partial<RunFacts> = {}): RunFacts {
  return {
    export: 'nightly',
    run: asRunId('20261120T020000Z-1f3a5c'),
    state: 'completed',
    since: at('2026-11-19T02:00:01Z'),
    watermark: at('2026-11-20T02:00:00Z'),
    startedAt: at('2026-11-20T02:00:00Z'),
    completedAt: at('2026-11-20T02:05:00Z'),
    endedAt: at('2026-11-20T02:05:00Z'),
    manifest: `${folder}/manifest.json`,
    folder,
    request: someRequest,
    totals: { pages: 0, reports: 0, bytes: 0 },
    schedule: { kind: 'scheduled', expression: 'cron(0 2 * * ? *)', timeZone: 'Europe/Berlin' },
    lastIncident: null,
    sincePolicy: { from: 'watermark', overlapMs: 0 },
    ...overrides,
  };
}

/** Collects the data of the run report from a deployment that contains only `example`. */
export async function collectExample({ run, entries, origin }: ExampleRun) {
  const isOf = (entry: PageEntry, chain: ChainRef) => entry.slice === chain.slice && entry.attempt === chain.attempt;
  const all = Array.isArray(entries) ? (entries as readonly PageEntry[]) : undefined;
  const deployedExport = {
    log: {
      // Entries that are generated are of a run with one slice, and are not read before.
      last: async (chain: ChainRef) => (all === undefined ? aPageEntry() : all.findLast((entry) => isOf(entry, chain))),
      lastSlice: async () => Math.max(0, ...(all ?? []).map(({ slice = 0 }) => slice)),
      async *entries(chain: ChainRef) {
        for (const entry of entries) if (isOf(entry, chain)) yield entry;
      },
    },
    store: { locate: (key: string) => `exports/${key}` },
  } as unknown as Pick<DeployedExport, 'log' | 'store'>;
  return await collectRunReportData(deployedExport, run, {
    deployment: 'directory ./exports',
    deploymentOption: '--out ./exports',
    createdAt: at('2026-11-20T08:30:00Z'),
    ...origin,
  });
}

export interface PageEntryOptions {
  readonly pages: number;
  /** Durations of the phases of a page. */
  readonly latencyMs?: (page: number) => number;
  readonly betweenMs?: (page: number) => number;
  readonly transferMs?: (page: number) => number;
  readonly bytes?: (page: number) => number;
  readonly reports?: (page: number) => number | null;
  readonly isAdopted?: (page: number) => boolean;
  readonly delays?: (page: number) => Delays;
}

/** The log entries of a run, generated one by one, so that a million entries need no memory. */
export function* pageEntries(run: RunFacts, options: PageEntryOptions): Generator<PageEntry> {
  const { pages, isAdopted = () => false, delays = () => ({}) } = options;
  const { latencyMs = () => 480, betweenMs = () => 120, transferMs = () => 95 } = options;
  const { bytes = () => 71_370, reports = () => 100 } = options;
  let clock = epochMsOf(run.startedAt);
  const totals = { bytes: 0, reports: 0 as number | null };
  const template = aPageEntry({ export: run.export, run: run.run, sha256: '', cursor: null, nextCursor: null });
  for (let page = 1; page <= pages; page += 1) {
    const latency = Math.round(latencyMs(page));
    const requestedAt = clock + Math.round(betweenMs(page));
    clock = requestedAt + latency + Math.round(transferMs(page));
    const reportCount = reports(page);
    totals.bytes += bytes(page);
    totals.reports = reportCount === null || totals.reports === null ? null : totals.reports + reportCount;
    yield {
      ...template,
      page,
      key: `nightly/date=2026-11-20/run=${run.run}/page-${String(page).padStart(6, '0')}.xml`,
      bytes: bytes(page),
      reports: reportCount,
      loggedAt: instantOf(clock),
      timing: isAdopted(page) ? null : { requestedAt: instantOf(requestedAt), latencyMs: latency },
      totals: { ...totals },
      ...delays(page),
    };
  }
}

/** 124 pages with a wait of 45 seconds, two failed attempts, and a period in which the service is slow. */
export function eventfulRun(): ExampleRun {
  const rng = createRng('report', 'an eventful run');
  const slowdown = (page: number) => (page > 78 && page < 97 ? 2.2 + 1.6 * Math.sin(((page - 78) / 19) * Math.PI) : 1);
  const options: PageEntryOptions = {
    pages: 124,
    latencyMs: (page) => (410 + 170 * rng.next() + (rng.chance(0.06) ? 500 * rng.next() : 0)) * slowdown(page),
    betweenMs: (page) => 140 + 60 * rng.next() + (page === 38 ? 45_000 : page === 84 ? 4_800 : page === 89 ? 7_900 : 0),
    transferMs: (page) => (70 + 60 * rng.next()) * Math.sqrt(slowdown(page)),
    bytes: (page) => (page === 124 ? 24_310 : 66_000 + ((page * 7_919) % 9_000)),
    reports: (page) => (page === 124 ? 34 : 100),
    delays: (page) => (page === 38 ? { waitedSeconds: 45 } : page === 84 || page === 89 ? { failedAttempts: 1 } : {}),
  };
  const run = someRunFacts();
  const entries = [...pageEntries(run, options)];
  const loggedAt = (page: number) => epochMsOf(entries[page - 1]?.loggedAt ?? run.startedAt);
  const completedAt = instantOf(loggedAt(124) + 640);
  return { run: { ...run, completedAt }, entries };
}

/** One page, in less than a second. */
export function singlePageRun(): ExampleRun {
  const run = someRunFacts({ completedAt: at('2026-11-20T02:00:00.912Z') });
  const entries = [...pageEntries(run, { pages: 1, bytes: () => 1_312, reports: () => 2 })];
  return { run, entries };
}

/** Completed without a report, and not published. */
export function emptyRun(): ExampleRun {
  const run = someRunFacts({
    state: 'empty',
    manifest: null,
    request: null,
  });
  const entries = pageEntries(run, { pages: 1, bytes: () => 58, reports: () => 0 });
  return { run, entries };
}

/** Just started: no page is logged. */
export function newRun(): ExampleRun {
  const run = someRunFacts({ state: 'running', completedAt: null, manifest: null, watermark: null });
  return { run, entries: [], origin: { createdAt: at('2026-11-20T02:00:04Z') } };
}

/** Every page was adopted from an earlier attempt. */
export function adoptedRun(): ExampleRun {
  const run = someRunFacts();
  return { run, entries: pageEntries(run, { pages: 14, isAdopted: () => true }) };
}

/** Running, in a format whose reports cannot be counted, with two adopted pages. */
export function uncountedRun(): ExampleRun {
  const rng = createRng('report', 'an uncounted run');
  const run = someRunFacts({
    state: 'running',
    completedAt: null,
    manifest: null,
    watermark: null,
    request: { ...someRequest, format: 'CSV', container: 'ZIP', size: 10 },
  });
  const options: PageEntryOptions = {
    pages: 37,
    latencyMs: () => 900 + 300 * rng.next(),
    transferMs: () => 2_000 + 700 * rng.next(),
    bytes: () => Math.round(3_000_000 + 2_000_000 * rng.next()),
    reports: () => null,
    isAdopted: (page) => page === 12 || page === 13,
  };
  return { run, entries: pageEntries(run, options), origin: { createdAt: at('2026-11-20T02:02:20Z') } };
}

/** Failed, resumed hours later, failed again. */
export function failedRun(): ExampleRun {
  const run = someRunFacts({ state: 'failed', completedAt: null, manifest: null, watermark: null });
  const rng = createRng('report', 'a failed run');
  const options: PageEntryOptions = {
    pages: 61,
    latencyMs: () => 600 + 400 * rng.next(),
    betweenMs: (page) => (page === 42 ? 5 * 3_600_000 : 150),
    reports: () => 10,
    bytes: () => 7_100,
    delays: (page) => (page === 42 ? { failedAttempts: 7 } : {}),
  };
  const entries = [...pageEntries(run, options)];
  const malformed = 'Report service sent XML that is not well-formed (line 812: unexpected end of tag)';
  const lastIncident = {
    kind: 'failed-run',
    at: instantOf(epochMsOf(entries[60]?.loggedAt ?? run.startedAt) + 260_000),
    error: 'ContractError',
    message: `${malformed} for page 62 of run ${run.run}. Show the message to the service's operators. The next start resumes with this page`,
  } as const;
  return { run: { ...run, lastIncident }, entries };
}

/** Abandoned after more than a day, with many delays and too many pages for one point per page. */
export function longRun(pages = 50_000): ExampleRun {
  const rng = createRng('report', 'a long run');
  const run = someRunFacts({
    completedAt: null,
    state: 'abandoned',
    manifest: null,
    watermark: null,
    since: null,
    request: null,
  });
  const daily = (page: number) => 1 + 0.6 * Math.sin((page / pages) * 9);
  const options: PageEntryOptions = {
    pages,
    latencyMs: (page) => (300 + 500 * rng.next() + (rng.chance(0.002) ? 6_000 * rng.next() : 0)) * daily(page),
    betweenMs: (page) => 150 + (page % (pages / 25) === 0 ? 600_000 : 0),
    bytes: (page) => Math.round((65_000 + 9_000 * rng.next()) * (page > pages / 2 ? 1.3 : 1)),
    reports: () => 90 + rng.integerBelow(11),
    delays: (page) =>
      page % (pages / 25) === 0
        ? { waitedSeconds: 600 }
        : page % (pages / 375) < 1
          ? { failedAttempts: 1 + (page % 3) }
          : {},
  };
  return { run, entries: pageEntries(run, options) };
}
