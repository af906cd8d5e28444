/** Runs of every kind, as a page log and a history would tell them, for the tests of the report and for its pictures. */

import { asRunId, type PageEntry } from '../../../lib/core/model.ts';
import type { DeployedExport, Incident } from '../../../lib/core/operations/deployment.ts';
import { epochMsOf, instantOf } from '../../../lib/core/timestamps.ts';
import { collectRunReport } from '../../../lib/operator/run-report/collect.ts';
import type { ReportedRun, ReportOccasion } from '../../../lib/operator/run-report/data.ts';
import { diceFor } from '../../simulation/world/rng.ts';
import { aPageEntry, at } from '../../support/builders.ts';

export interface ExampleRun {
  readonly run: ReportedRun;
  readonly entries: Iterable<PageEntry>;
  readonly incidents: readonly Incident[];
  readonly occasion?: Partial<ReportOccasion>;
}

const folder = 'exports/nightly/date=2026-11-20/run=20261120T020000Z-1f3a5c';

export function aReportedRun(overrides: Partial<ReportedRun> = {}): ReportedRun {
  return {
    export: 'nightly',
    run: asRunId('20261120T020000Z-1f3a5c'),
    state: 'completed',
    since: at('2026-11-19T02:00:01Z'),
    watermark: at('2026-11-20T02:00:00Z'),
    startedAt: at('2026-11-20T02:00:00Z'),
    completedAt: at('2026-11-20T02:05:00Z'),
    manifest: `${folder}/manifest.json`,
    folder,
    filter: { date: { gte: '2026-11-19T02:00:01Z' }, type: 'daily' },
    format: 'XML',
    container: 'NONE',
    size: null,
    totals: { pages: 0, reports: 0, bytes: 0 },
    ...overrides,
  };
}

/** The report on `example`, collected as from a real export. */
export async function reportOn({ run, entries, incidents, occasion }: ExampleRun) {
  const installed = {
    log: {
      async *entries() {
        yield* entries;
      },
    },
    store: { locate: (key: string) => `exports/${key}` },
    async *incidents() {
      yield* incidents;
    },
  } as unknown as Pick<DeployedExport, 'log' | 'store' | 'incidents'>;
  return await collectRunReport(installed, run, {
    place: 'directory ./exports',
    option: '--out ./exports',
    madeAt: at('2026-11-20T08:30:00Z'),
    ...occasion,
  });
}

export interface WalkOptions {
  readonly pages: number;
  /** Milliseconds until the service answers, between and behind, for a page. */
  readonly latencyMs?: (page: number) => number;
  readonly beforeMs?: (page: number) => number;
  readonly transferMs?: (page: number) => number;
  readonly bytes?: (page: number) => number;
  readonly reports?: (page: number) => number | null;
  readonly isAdopted?: (page: number) => boolean;
}

/** The log's entries of a walk, one by one: a million of them take no more room than one. */
export function* walk(run: ReportedRun, options: WalkOptions): Generator<PageEntry> {
  const { pages, isAdopted = () => false } = options;
  const { latencyMs = () => 480, beforeMs = () => 120, transferMs = () => 95 } = options;
  const { bytes = () => 71_370, reports = () => 100 } = options;
  let clock = epochMsOf(run.startedAt);
  const totals = { bytes: 0, reports: 0 as number | null };
  const any = aPageEntry({ export: run.export, run: run.run, sha256: '', cursor: null, nextCursor: null });
  for (let page = 1; page <= pages; page += 1) {
    const latency = Math.round(latencyMs(page));
    const requestedAt = clock + Math.round(beforeMs(page));
    clock = requestedAt + latency + Math.round(transferMs(page));
    const held = reports(page);
    totals.bytes += bytes(page);
    totals.reports = held === null || totals.reports === null ? null : totals.reports + held;
    yield {
      ...any,
      page,
      key: `nightly/date=2026-11-20/run=${run.run}/page-${String(page).padStart(6, '0')}.xml`,
      bytes: bytes(page),
      reports: held,
      loggedAt: instantOf(clock),
      timing: isAdopted(page) ? null : { requestedAt: instantOf(requestedAt), latencyMs: latency },
      totals: { ...totals },
    };
  }
}

/** Some 120 pages with a wait of 45 seconds, two failed attempts, and a stretch in which the service is slow. */
export function eventfulRun(): ExampleRun {
  const dice = diceFor('report', 'an eventful run');
  const slow = (page: number) => (page > 78 && page < 97 ? 2.2 + 1.6 * Math.sin(((page - 78) / 19) * Math.PI) : 1);
  const options: WalkOptions = {
    pages: 124,
    latencyMs: (page) => (410 + 170 * dice.roll() + (dice.happens(0.06) ? 500 * dice.roll() : 0)) * slow(page),
    beforeMs: (page) => 140 + 60 * dice.roll() + (page === 38 ? 45_000 : page === 84 ? 4_800 : page === 89 ? 7_900 : 0),
    transferMs: (page) => (70 + 60 * dice.roll()) * Math.sqrt(slow(page)),
    bytes: (page) => (page === 124 ? 24_310 : 66_000 + ((page * 7_919) % 9_000)),
    reports: (page) => (page === 124 ? 34 : 100),
  };
  const begun = aReportedRun();
  const entries = [...walk(begun, options)];
  const loggedAt = (page: number) => epochMsOf(entries[page - 1]?.loggedAt ?? begun.startedAt);
  const incidents: Incident[] = [
    { kind: 'wait', at: instantOf(loggedAt(37) + 310), page: 38, seconds: 45 },
    {
      kind: 'failed-attempt',
      at: instantOf(loggedAt(83) + 2_400),
      page: 84,
      error: 'ServiceUnavailableError',
      message: `Report service answered 503 for page 84 of run ${begun.run} (request id 8c1f-22); it will be retried`,
    },
    {
      kind: 'failed-attempt',
      at: instantOf(loggedAt(88) + 5_100),
      page: 89,
      error: 'ServiceUnavailableError',
      message: `Report service did not answer within 5 s for page 89 of run ${begun.run}; it will be retried`,
    },
  ];
  const completedAt = instantOf(loggedAt(124) + 640);
  return { run: { ...begun, completedAt }, entries, incidents };
}

/** One page, at once. */
export function shortRun(): ExampleRun {
  const begun = aReportedRun({ completedAt: at('2026-11-20T02:00:00.912Z') });
  const entries = [...walk(begun, { pages: 1, bytes: () => 1_312, reports: () => 2 })];
  return { run: begun, entries, incidents: [] };
}

/** Only just begun: nothing is logged. */
export function begunRun(): ExampleRun {
  const run = aReportedRun({ state: 'running', completedAt: null, manifest: null, watermark: null });
  return { run, entries: [], incidents: [], occasion: { madeAt: at('2026-11-20T02:00:04Z') } };
}

/** Every page was found in the store, and logged by somebody else. */
export function adoptedRun(): ExampleRun {
  const begun = aReportedRun();
  return { run: begun, entries: walk(begun, { pages: 14, isAdopted: () => true }), incidents: [] };
}

/** In a format whose reports cannot be counted, under way, with two pages adopted. */
export function uncountedRun(): ExampleRun {
  const dice = diceFor('report', 'an uncounted run');
  const run = aReportedRun({
    state: 'running',
    completedAt: null,
    manifest: null,
    watermark: null,
    format: 'CSV',
    container: 'ZIP',
    size: 10,
  });
  const options: WalkOptions = {
    pages: 37,
    latencyMs: () => 900 + 300 * dice.roll(),
    transferMs: () => 2_000 + 700 * dice.roll(),
    bytes: () => Math.round(3_000_000 + 2_000_000 * dice.roll()),
    reports: () => null,
    isAdopted: (page) => page === 12 || page === 13,
  };
  return { run, entries: walk(run, options), incidents: [], occasion: { madeAt: at('2026-11-20T02:02:20Z') } };
}

/** Failed, resumed hours later, and failed again. */
export function failedRun(): ExampleRun {
  const run = aReportedRun({ state: 'failed', completedAt: null, manifest: null, watermark: null });
  const dice = diceFor('report', 'a failed run');
  const options: WalkOptions = {
    pages: 61,
    latencyMs: () => 600 + 400 * dice.roll(),
    beforeMs: (page) => (page === 42 ? 5 * 3_600_000 : 150),
    reports: () => 10,
    bytes: () => 7_100,
  };
  const entries = [...walk(run, options)];
  const loggedAt = (page: number) => epochMsOf(entries[page - 1]?.loggedAt ?? run.startedAt);
  const attempts = (page: number, count: number, error: string, message: string): Incident[] =>
    Array.from({ length: count }, (_, index) => ({
      kind: 'failed-attempt',
      at: instantOf(loggedAt(page - 1) + 30_000 * 2 ** Math.min(6, index)),
      page,
      error,
      message: `${message} for page ${page} of run ${run.run}; it will be retried`,
    }));
  const unavailable = 'Report service answered 502 Bad Gateway';
  const malformed = 'Report service sent XML that is not well-formed (line 812: unexpected end of tag)';
  const incidents: Incident[] = [
    ...attempts(42, 7, 'ServiceUnavailableError', unavailable),
    {
      kind: 'failed-run',
      at: instantOf(loggedAt(41) + 3_900_000),
      page: 42,
      error: 'ServiceUnavailableError',
      message: `${unavailable} for page 42 of run ${run.run}, for 65 minutes`,
    },
    ...attempts(62, 3, 'ContractError', malformed),
    {
      kind: 'failed-run',
      at: instantOf(loggedAt(61) + 260_000),
      page: 62,
      error: 'ContractError',
      message: `${malformed} for page 62 of run ${run.run}. Show the message to the service's operators; the next start goes on with this page`,
    },
  ];
  return { run, entries, incidents };
}

/** Too long for every page to be a point, over a day, with many incidents. */
export function longRun(pages = 50_000): ExampleRun {
  const dice = diceFor('report', 'a long run');
  const run = aReportedRun({
    completedAt: null,
    state: 'abandoned',
    manifest: null,
    watermark: null,
    since: null,
    filter: null,
  });
  const daily = (page: number) => 1 + 0.6 * Math.sin((page / pages) * 9);
  const options: WalkOptions = {
    pages,
    latencyMs: (page) => (300 + 500 * dice.roll() + (dice.happens(0.002) ? 6_000 * dice.roll() : 0)) * daily(page),
    beforeMs: (page) => 150 + (page % (pages / 25) === 0 ? 600_000 : 0),
    bytes: (page) => Math.round((65_000 + 9_000 * dice.roll()) * (page > pages / 2 ? 1.3 : 1)),
    reports: () => 90 + dice.below(11),
  };
  const incidents = Array.from({ length: 400 }, (_, index): Incident => {
    const time = instantOf(epochMsOf(run.startedAt) + index * (pages / 400) * 900);
    return index % 16 === 0
      ? { kind: 'wait', at: time, page: index, seconds: 600 }
      : {
          kind: 'failed-attempt',
          at: time,
          page: index,
          error: index % 3 === 0 ? 'ServiceThrottledError' : 'ServiceUnavailableError',
          message: 'Report service answered 429 Too Many Requests; it will be retried',
        };
  });
  return { run, entries: walk(run, options), incidents };
}
