/**
 * Finds gaps in the report dates that the runs of an export cover. A completed run covers the dates from its `since` to where
 * it reached. A later start with an earlier `since` closes a gap, so the runs are considered together, not in pairs.
 */

import { isDeepStrictEqual } from 'node:util';
import type { ExportDefinition, ExportState, Instant, RunId } from '../../../core/model.ts';
import { isComplete, type RunStatus } from '../../../core/operations/run-status.ts';
import { maxClockLeadMs } from '../../../core/steps/watermark.ts';
import { epochMsOf } from '../../../core/timestamps.ts';

export interface Gap {
  readonly from: Instant;
  readonly to: Instant;
  /** The oldest run that starts at its end. */
  readonly before: RunId;
  /** What will close it, as far as can be seen now. */
  readonly closedBy: 'unfinished-run' | 'next-run' | null;
}

export type CoveringRun = Pick<RunStatus, 'run' | 'state' | 'since' | 'startedAt' | 'serviceStartedAt'>;

/** Reports dated before this are covered by a completed run. A service's clock that is far ahead is ignored, as for the watermark. */
export function reachOf({ state, startedAt, serviceStartedAt }: CoveringRun): Instant | null {
  if (!isComplete({ state })) return null;
  const isPlausible = serviceStartedAt !== null && epochMsOf(serviceStartedAt) - epochMsOf(startedAt) <= maxClockLeadMs;
  return isPlausible ? serviceStartedAt : startedAt;
}

/** Completed runs whose `since` is not known may have closed any gap. */
export const hasUnknownDates = ({ state, since }: CoveringRun): boolean => isComplete({ state }) && since === null;

/**
 * The gaps between the dates that `runs` cover, in order of dates. A completed run whose `since` is not known counts as one
 * that covers everything before it: a gap is only reported if there is no doubt.
 */
export function findGaps(
  runs: readonly CoveringRun[],
  state: ExportState | undefined,
  definition: Pick<ExportDefinition, 'request'>,
): Gap[] {
  const intervals = runs
    .flatMap((run) => {
      const to = reachOf(run);
      // A run whose `since` is in its future covers nothing.
      const isEmpty = to === null || (run.since !== null && epochMsOf(run.since) > epochMsOf(to));
      return isEmpty ? [] : [{ run: run.run, from: run.since, to }];
    })
    .toSorted((a, b) => startMs(a.from) - startMs(b.from) || (a.run < b.run ? -1 : 1));
  const gaps: Gap[] = [];
  let reached: Instant | undefined;
  for (const { run, from, to } of intervals) {
    if (reached !== undefined && from !== null && epochMsOf(from) > epochMsOf(reached)) {
      gaps.push({ from: reached, to: from, before: run, closedBy: closedBy(reached, state, definition) });
    }
    if (reached === undefined || epochMsOf(to) > epochMsOf(reached)) reached = to;
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
  // A watermark of another service or filter does not apply: the next start needs a --since.
  const applies =
    watermark !== undefined &&
    watermark.source === request.source &&
    isDeepStrictEqual(watermark.filter, request.filter);
  return applies && isBefore(watermark.instant) ? 'next-run' : null;
}
