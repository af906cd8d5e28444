/** Example runs of every kind, as page log and state would return them, for tests and screenshots of the report. */

import { asRunId, type Delays, type PageEntry } from '../../../lib/core/model.ts';
import type { ChainRef } from '../../../lib/core/ports.ts';
import { epochMsOf, instantOf } from '../../../lib/core/timestamps.ts';
import type { Origin } from '../../../lib/operator/run-report/render-page.ts';
import { readRunData, type RunData } from '../../../lib/operator/run-report/run-data.ts';
import type { RunView } from '../../../lib/operator/run-view.ts';
import type { ExportTarget } from '../../../lib/operator/target.ts';
import { createRng } from '../../simulation/world/rng.ts';
import { aPageEntry, at } from '../../support/builders.ts';

export const origin: Origin = {
  deployment: 'directory ./exports',
  deploymentOption: '--out ./exports',
  createdAt: at('2026-11-20T08:30:00Z'),
};

const folder = 'nightly/date=2026-11-20/run=20261120T020000Z-1f3a5cb2d407';

export const aRunView = (overrides: Partial<RunView> = {}): RunView => ({
  export: 'nightly',
  run: asRunId('20261120T020000Z-1f3a5cb2d407'),
  state: 'completed',
  since: at('2026-11-19T02:00:01Z'),
  slices: null,
  request: null,
  lastFailure: null,
  startedAt: at('2026-11-20T02:00:00Z'),
  completedAt: at('2026-11-20T02:05:00Z'),
  serviceStartedAt: null,
  lastPageAt: null,
  pages: 0,
  reports: 0,
  bytes: 0,
  folder,
  manifest: null,
  lastIncident: null,
  ...overrides,
});

const bySlice = (one: PageEntry, other: PageEntry): number => (one.slice ?? 0) - (other.slice ?? 0);

export interface ExampleRun {
  readonly status: RunView;
  readonly entries: Iterable<PageEntry>;
}

/** Reads the run from an export that has only this one. */
export async function readExample({ status, entries }: ExampleRun, overrides: Partial<RunData> = {}): Promise<RunData> {
  const all = Array.isArray(entries) ? (entries as readonly PageEntry[]) : undefined;
  const isOf = (entry: PageEntry, chain: ChainRef) => entry.slice === chain.slice && entry.attempt === chain.attempt;
  const deployed = {
    log: {
      exportState: async () => undefined,
      async *boundedStates() {},
      async *runEntries() {
        const newestFirst = all?.toSorted((one, other) => (other.attempt ?? 0) - (one.attempt ?? 0));
        for (const entry of newestFirst?.toSorted(bySlice) ?? []) if (entry.slice !== undefined) yield entry;
      },
      async *entries(chain: ChainRef) {
        for (const entry of entries) if (isOf(entry, chain)) yield entry;
      },
    },
    store: { locate: (key: string) => `exports/${key}`, read: async () => undefined },
  } as unknown as ExportTarget;
  return { ...(await readRunData(deployed, status, () => {})), ...overrides };
}

export interface PageOptions {
  readonly pages: number;
  /** Durations of the phases of a page. */
  readonly latencyMs?: (page: number) => number;
  readonly betweenMs?: (page: number) => number;
  readonly transferMs?: (page: number) => number;
  readonly bytes?: (page: number) => number;
  readonly reports?: number | null;
  readonly isAdopted?: (page: number) => boolean;
  readonly delays?: (page: number) => Delays;
}

/** The log entries of a run, generated one by one, so that a million entries need no memory. */
export function* pageEntries(options: PageOptions): Generator<PageEntry> {
  const { pages, isAdopted = () => false, delays = () => ({}), bytes = () => 71_370, reports = 100 } = options;
  const { latencyMs = () => 480, betweenMs = () => 120, transferMs = () => 95 } = options;
  let clock = epochMsOf(aRunView().startedAt);
  const template = aPageEntry({ sha256: '', cursor: null, nextCursor: null });
  for (let page = 1; page <= pages; page += 1) {
    const latency = Math.round(latencyMs(page));
    const requestedAt = clock + Math.round(betweenMs(page));
    clock = requestedAt + latency + Math.round(transferMs(page));
    const timing = isAdopted(page) ? null : { requestedAt: instantOf(requestedAt), latencyMs: latency };
    yield { ...template, page, bytes: bytes(page), reports, loggedAt: instantOf(clock), timing, ...delays(page) };
  }
}

/** The run with these pages, which ends when its last page is logged. */
function aRun(status: Partial<RunView>, options: PageOptions): ExampleRun {
  const entries = [...pageEntries(options)];
  const lastPageAt = entries.at(-1)?.loggedAt ?? null;
  const bytes = entries.reduce((sum, entry) => sum + entry.bytes, 0);
  const { reports = 100, pages } = options;
  const totals = { pages, reports: reports && pages * reports, bytes };
  return { status: aRunView({ ...totals, completedAt: lastPageAt, lastPageAt, ...status }), entries };
}

/** 124 pages with a wait of 45 seconds, two failed attempts, and a period in which the service is slow. */
export function eventfulRun(): ExampleRun {
  const rng = createRng('report', 'an eventful run');
  const slowdown = (page: number) => (page > 78 && page < 97 ? 2.2 + 1.6 * Math.sin(((page - 78) / 19) * Math.PI) : 1);
  return aRun(
    { manifest: `${folder}/manifest.json` },
    {
      pages: 124,
      latencyMs: (page) => (410 + 170 * rng.next() + (rng.chance(0.06) ? 500 * rng.next() : 0)) * slowdown(page),
      betweenMs: (page) =>
        140 + 60 * rng.next() + (page === 38 ? 45_000 : page === 84 ? 4_800 : page === 89 ? 7_900 : 0),
      transferMs: (page) => (70 + 60 * rng.next()) * Math.sqrt(slowdown(page)),
      bytes: (page) => (page === 124 ? 24_310 : 66_000 + ((page * 7_919) % 9_000)),
      delays: (page) => (page === 38 ? { waitedSeconds: 45 } : page === 84 || page === 89 ? { failedAttempts: 1 } : {}),
    },
  );
}

/** Killed after page 20, and resumed 12 seconds later. */
export const killedRun = (): ExampleRun =>
  aRun({}, { pages: 50, betweenMs: (page) => (page === 21 ? 12_000 : 150 + ((page * 7) % 40)) });

/** Two pages within a second. */
export const tinyRun = (): ExampleRun => aRun({}, { pages: 2 });

/** Eight slices at a time, of which all were interrupted for a minute. */
export function slicedRun(): ExampleRun {
  const slices = Array.from({ length: 8 }, (_, index) =>
    [
      ...pageEntries({
        pages: 12 + index,
        latencyMs: (page) => 300 + 40 * index + ((page * 31) % 90),
        betweenMs: (page) => (page === 9 ? 60_000 : 120),
      }),
    ].map((entry) => ({ ...entry, slice: index + 1, attempt: 1 })),
  );
  const entries = slices.flat();
  const last = instantOf(Math.max(...entries.map(({ loggedAt }) => epochMsOf(loggedAt))));
  const bytes = entries.reduce((sum, entry) => sum + entry.bytes, 0);
  const totals = { pages: entries.length, reports: 100 * entries.length, bytes };
  const counts = { done: 8, count: 8, setAside: [] };
  return { status: aRunView({ ...totals, slices: counts, completedAt: last, lastPageAt: last }), entries };
}

export const someRequest = {
  service: 'https://reports.example.com',
  filter: '{"date":{"gte":"2026-11-19T02:00:01Z"},"type":"daily"}',
  format: 'XML',
  container: 'NONE',
  size: null,
};

/** Running, without a page. */
export const newRun = (): ExampleRun => aRun({ state: 'running' }, { pages: 0 });

/** Running, in a format whose reports cannot be counted, with two adopted pages. */
export const uncountedRun = (): ExampleRun =>
  aRun(
    { state: 'running', completedAt: null },
    { pages: 37, reports: null, isAdopted: (page) => page === 12 || page === 13 },
  );

/** Failed, resumed hours later, failed again; a slice is set aside. */
export const failedRun = (): ExampleRun =>
  aRun(
    {
      state: 'failed',
      completedAt: null,
      slices: { done: 12, count: 64, setAside: [{ slice: 3, error: 'ContractError', message: 'no XML' }] },
      lastIncident: {
        kind: 'failed-run',
        at: at('2026-11-20T07:02:00Z'),
        error: 'ContractError',
        message: 'Report service sent XML that is not well-formed (line 812: unexpected end of tag)',
      },
    },
    {
      pages: 61,
      betweenMs: (page) => (page === 42 ? 5 * 3_600_000 : 150),
      delays: (page) => (page === 42 ? { failedAttempts: 7 } : {}),
    },
  );

/** Interrupted after many delays, with too many pages for one point per page. */
export function longRun(pages = 50_000): ExampleRun {
  const rng = createRng('report', 'a long run');
  const options: PageOptions = {
    pages,
    latencyMs: (page) => 300 + 500 * rng.next() + (page === 20_000 ? 60_000 : 0),
    betweenMs: (page) => 150 + (page % (pages / 25) === 0 ? 600_000 : 0),
    bytes: (page) => Math.round((65_000 + 9_000 * rng.next()) * (page > pages / 2 ? 1.3 : 1)),
    delays: (page) =>
      page % (pages / 25) === 0 ? { waitedSeconds: 600 } : page % 500 === 0 ? { failedAttempts: 1 } : {},
  };
  const state = { state: 'interrupted', since: null, completedAt: null } as const;
  return { status: aRunView({ ...state, pages, reports: pages * 100 }), entries: pageEntries(options) };
}
