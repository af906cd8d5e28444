/** The reports of the simulated service: when each is dated, becomes visible, is revised and disappears. */

import type { ListedParent } from '../histories/scenario.ts';
import type { Rng } from './rng.ts';

export interface SimulatedReport {
  readonly ordinal: number;
  readonly id: string;
  /** Milliseconds since the epoch, as are all times here. */
  readonly date: number;
  /** Later than `date` if the report is backdated. */
  readonly visibleAt: number;
  readonly revisedAt: number | undefined;
  readonly goneAt: number | undefined;
  /** Whether its date changes: it disappears at the moment at which another report with the same ID becomes visible. */
  readonly isRedated?: boolean;
  /** What `{parent}` must be in requests for it, if the requests have parents. */
  readonly parent?: string | undefined;
}

export interface ReportTimeline {
  /** In the service's order: by date, then by ordinal. */
  readonly reports: readonly SimulatedReport[];
  /** The reports dated at or after `since` that are visible at `at`, in order. `parent`: only those of this value. */
  matching(since: number, at: number, parent?: string): readonly SimulatedReport[];
}

export interface ReportTimelineOptions {
  readonly rng: Rng;
  /** How many reports exist at `from`. */
  readonly backlog: number;
  /** How many reports arrive between `from` and `until`, or when they do: milliseconds after `from`. */
  readonly arriving: number | readonly number[];
  readonly from: number;
  readonly until: number;
  /** Time between scheduled starts: many reports arrive just as a run sends its first request. */
  readonly intervalMs: number;
  /** How far a report may be backdated; 0: each is dated when it becomes visible. */
  readonly maxBackdatingMs: number;
  /** Whether reports are revised, and disappear. */
  readonly changing: boolean;
  /** Whether the dates of some reports change. */
  readonly redating: boolean;
  /** Decides what `redating` brings: its own generator, so that the other reports stay the same. */
  readonly redatingRng: Rng;
  /** Whether many disappear while a run may be under way, by a generator of their own. */
  readonly leaving?: boolean | undefined;
  readonly leavingRng: Rng;
  /** The parents that have reports, and the generator that chooses that of each. */
  readonly parents?: readonly [string, ...string[]] | undefined;
  readonly parentsRng: Rng;
  /** All reports, in place of those that arrive. Times are those of the service's clock. */
  readonly listed?: readonly ListedParent[] | undefined;
}

export function createReportTimeline(options: ReportTimelineOptions): ReportTimeline {
  if (options.listed !== undefined) return timelineOf(options.listed.map(listedReport));
  const { rng, backlog, arriving, from, until, intervalMs, maxBackdatingMs, changing } = options;
  const { redating, redatingRng, leaving = false, leavingRng, parents, parentsRng } = options;
  const day = 86_400_000;
  const scheduledStarts = Math.floor((until - from) / intervalMs);
  const justAfterAStart = (by = rng) =>
    from + (1 + by.integerBelow(scheduledStarts)) * intervalMs + by.between(0, 5_000);
  const arrivals = [
    ...Array.from({ length: backlog }, () => rng.between(from - day, from)),
    ...(typeof arriving === 'number'
      ? Array.from({ length: arriving }, () => (rng.chance(0.5) ? justAfterAStart() : rng.between(from, until)))
      : arriving.map((ms) => from + ms)),
  ].map(Math.floor);
  // Many services date reports in whole seconds, so several may have the same date.
  const inSeconds = rng.chance(0.3);
  const created = arrivals.map((visibleAt, ordinal) => {
    const backdatedMs = maxBackdatingMs > 0 && rng.chance(0.3) ? rng.between(0, maxBackdatingMs) : 0;
    const date = Math.floor(visibleAt - backdatedMs);
    const changes = changing && rng.chance(0.1);
    return {
      ordinal,
      id: `r${ordinal}`,
      date: inSeconds && backdatedMs > 0 ? Math.floor(date / 1_000) * 1_000 : date,
      visibleAt,
      revisedAt: changes ? visibleAt + rng.between(0, day / 4) : undefined,
      goneAt: changes && rng.chance(0.5) ? visibleAt + rng.between(0, day / 4) : undefined,
      // Half of them have the first one, so that it has several pages.
      parent: parents && (parentsRng.chance(0.5) ? parents[0] : parentsRng.pick(parents)),
    };
  });
  // Not only in the first pass.
  const later = () => leavingRng.integerBelow(90_000);
  const leave = (report: SimulatedReport): SimulatedReport => {
    const ms = later();
    const shifted = { ...report, date: report.date + ms, visibleAt: report.visibleAt + ms };
    if (!leavingRng.chance(0.4)) return shifted;
    const goneAt = Math.floor(Math.max(shifted.visibleAt, justAfterAStart(leavingRng) + later())) + 1;
    return { ...shifted, goneAt };
  };
  const kept = leaving ? created.map(leave) : created;
  const all = redating
    ? kept.flatMap((report) => redate(report, redatingRng, () => justAfterAStart(redatingRng)))
    : kept;
  const reports = all.sort((one, other) => one.date - other.date || one.ordinal - other.ordinal);
  return timelineOf(reports);
}

/** A parent that is listed again has its ID and its date, so it may be in a page of its own. */
function listedReport({ id, from, until }: ListedParent, ordinal: number): SimulatedReport {
  return {
    ordinal,
    id,
    date: 1_000 * (ordinal + 1),
    visibleAt: from,
    revisedAt: undefined,
    goneAt: Number.isFinite(until) ? until : undefined,
    isRedated: true,
  };
}

function timelineOf(reports: readonly SimulatedReport[]): ReportTimeline {
  return {
    reports,
    matching: (since, at, parent) =>
      reports.filter(
        ({ date, visibleAt, goneAt, parent: own }) =>
          date >= since &&
          visibleAt <= at &&
          (goneAt === undefined || goneAt > at) &&
          (parent === undefined || parent === own),
      ),
  };
}

/** Without the reports of parents that are never in the list of the export. */
export const ofListedParents = (timeline: ReportTimeline, isListed: (parent: string) => boolean): ReportTimeline =>
  timelineOf(timeline.reports.filter(({ parent = '' }) => isListed(parent)));

/** The report, or two for one whose date changes while a run may be under way, by up to a day. */
function redate(report: SimulatedReport, rng: Rng, moment: () => number): readonly SimulatedReport[] {
  if (!rng.chance(0.1)) return [report];
  const at = Math.floor(Math.max(report.visibleAt, moment()));
  const date = Math.floor(Math.min(at, report.date + rng.between(-86_400_000, 86_400_000)));
  return [
    { ...report, goneAt: Math.min(at, report.goneAt ?? at), isRedated: true },
    { ...report, date, visibleAt: at, isRedated: true },
  ];
}
