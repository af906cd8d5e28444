/**
 * Finds gaps in the report dates that the runs of an export cover. A completed run covers the dates from its `since` to where
 * it reached. A later start with an earlier `since` closes a gap, so the runs are considered together, not in pairs. Of some
 * completed runs, `since` or where they reached is not known.
 */

import type { ExportDefinition, ExportState, Instant, RunId } from '../../core/model.ts';
import { appliesTo } from '../../core/steps/watermark.ts';
import { isComplete, type RunStatus } from '../run-status.ts';
import { epochMsOf } from '../../core/timestamps.ts';

export interface Gap {
  readonly from: Instant;
  readonly to: Instant;
  /** The oldest run that starts at its end. */
  readonly before: RunId;
  /** What will close it, as far as can be seen now. */
  readonly closedBy: 'unfinished-run' | 'next-run' | null;
}

export type CoveringRun = Pick<
  RunStatus,
  'run' | 'state' | 'since' | 'until' | 'startedAt' | 'completedAt' | 'serviceStartedAt' | 'pages'
>;

/**
 * Reports dated before this are covered by a completed run; null if it covers none, or this is not known. A service's clock
 * that is far ahead is ignored, as for the watermark. No run reaches further than its `until`.
 */
export function reachOf(run: CoveringRun): Instant | null {
  if (!isComplete(run) || !isReachKnown(run)) return null;
  const { startedAt, serviceStartedAt, until } = run;
  const isPlausible = serviceStartedAt !== null && epochMsOf(serviceStartedAt) <= maxReachMs(run);
  const reach = isPlausible ? serviceStartedAt : startedAt;
  return until !== undefined && epochMsOf(until) < epochMsOf(reach) ? until : reach;
}

/**
 * Whether `serviceStartedAt` is what the service sent, even if it is null. Of a published run, the manifest has it, and
 * without `completedAt` the manifest cannot be read. Of an empty run, the entry of its first page has it, of which only the
 * last one is read.
 */
function isReachKnown({ state, completedAt, serviceStartedAt, pages }: CoveringRun): boolean {
  return serviceStartedAt !== null || (state === 'empty' ? pages === 1 : completedAt !== null);
}

/** A service's clock that is further ahead is not believed. */
const maxClockLeadMs = 86_400_000;

/** No run reaches further, whatever the service's clock. */
const maxReachMs = ({ startedAt }: CoveringRun): number => epochMsOf(startedAt) + maxClockLeadMs;

/** Completed runs whose `since` is not known may have closed any gap, and those whose reach is not known the one after them. */
export const hasUnknownDates = (run: CoveringRun): boolean =>
  isComplete(run) && (run.since === null || !isReachKnown(run));

/**
 * The gaps between the dates that `runs` cover, in order of dates. A gap is only reported if there is no doubt: a completed run
 * whose `since` is not known counts as one that covers everything before it, and one whose reach is not known as one that
 * reaches as far as it can.
 */
export function findGaps(
  runs: readonly CoveringRun[],
  state: ExportState | undefined,
  definition: Pick<ExportDefinition, 'request'>,
): Gap[] {
  const intervals = runs
    .filter(isComplete)
    .map((run) => {
      const to = reachOf(run);
      return { run: run.run, from: run.since, to, maxToMs: to === null ? maxReachMs(run) : epochMsOf(to) };
    })
    // A run whose `since` is in its future covers nothing.
    .filter(({ from, maxToMs }) => startMs(from) <= maxToMs)
    .toSorted((a, b) => startMs(a.from) - startMs(b.from) || (a.run < b.run ? -1 : 1));
  const gaps: Gap[] = [];
  let reached: Instant | undefined;
  let maxReachedMs = Number.NEGATIVE_INFINITY;
  for (const { run, from, to, maxToMs } of intervals) {
    const isCertain = reached !== undefined && epochMsOf(reached) >= maxReachedMs;
    if (isCertain && reached !== undefined && from !== null && epochMsOf(from) > epochMsOf(reached)) {
      gaps.push({ from: reached, to: from, before: run, closedBy: closedBy(reached, state, definition) });
    }
    if (to !== null && (reached === undefined || epochMsOf(to) > epochMsOf(reached))) reached = to;
    maxReachedMs = Math.max(maxReachedMs, maxToMs);
  }
  return gaps;
}

const startMs = (from: Instant | null): number => (from === null ? Number.NEGATIVE_INFINITY : epochMsOf(from));

function closedBy(
  gapStart: Instant,
  state: ExportState | undefined,
  { request }: Pick<ExportDefinition, 'request'>,
): Gap['closedBy'] {
  const { active, watermark } = state ?? {};
  const isBefore = (instant: Instant) => epochMsOf(instant) <= epochMsOf(gapStart);
  if (active !== undefined && isBefore(active.since)) return 'unfinished-run';
  // One that does not apply is not where the next run starts: that needs a --since.
  const applies = watermark !== undefined && appliesTo(watermark, request);
  return applies && isBefore(watermark.instant) ? 'next-run' : null;
}
