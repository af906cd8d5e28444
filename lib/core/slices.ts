/**
 * Cuts the period of a run into slices: half-open intervals of report dates, `[since, until)`, that touch but never
 * overlap. A slice is one walk from a first page to a last one (docs/architecture.md, "Slices").
 *
 * Cuts are multiples of a length since 1970, by the clocks of the zone in which the API reads dates; by default UTC.
 * In other zones they are whole days, which are longer or shorter when the clocks change. The bounds and the length
 * are in the state of the run, so every attempt sees the same slices.
 */

import {
  type ExportState,
  refOf,
  type RequestDates,
  type Run,
  type RunSlices,
  type SliceRef,
  type Slicing,
} from './model.ts';
import type { ChainRef } from './ports.ts';
import { instantAt, utcZone, wallClockOf } from './time/time-zones.ts';
import { epochMsOf, instantOf } from './timestamps.ts';

/**
 * A slice of a run, or the whole of a run that has one slice, in its newest attempt. Only the last slice of a run
 * without an upper bound has no `until`.
 */
export type Slice = ChainRef & Pick<Run, 'since' | 'until'>;

/** More would make the state of a run large, and each start slow. */
export const maxSlices = 1_000;
export const maxParallel = 16;
/** How many parents of a run may be skipped: they are in its state. */
export const maxSkipped = 100;
const minuteMs = 60_000;
const hourMs = 3_600_000;
const dayMs = 86_400_000;

/** Slices differ in size. With so many for each that is walked, few walkers wait for the last one. */
const slicesPerWalker = 8;
/** A slice with fewer pages costs more than it saves. */
const minPagesPerSlice = 8;

/** The smallest length of a slice, of which any other is a multiple. */
export const minSliceMs = ({ unitMs, zone = utcZone }: RequestDates): number =>
  // An hour that is skipped or repeated would leave a slice without a period, or in two places.
  Math.max(zone === utcZone ? minuteMs : dayMs, unitMs);

/** Runs with a lag end at multiples of it. */
export const minRunMs = ({ unitMs }: RequestDates): number => Math.max(minuteMs, unitMs);

/** The longest time between two such multiples: when clocks are set back, a unit is an hour longer. */
export const longestStepMs = (dates: RequestDates): number =>
  minRunMs(dates) + (dates.zone === undefined || dates.zone === utcZone ? 0 : hourMs);

type Period = Pick<Run, 'since' | 'until' | 'startedAt'>;

/** The slices of a new run; undefined if it has one. `lastCompleted` is the newest completed run of the same export. */
export function chooseSlices(
  period: Period,
  { parallel, lengthMs }: Slicing,
  dates: RequestDates,
  lastCompleted?: ExportState['lastCompleted'],
): RunSlices | undefined {
  // Without a lower bound, it is not known where the reports begin.
  if (epochMsOf(period.since) === 0 || (parallel === 1 && lengthMs === undefined)) return undefined;
  const { zone = utcZone } = dates;
  const slices = cut(period, lengthMs ?? chooseLength(period, parallel, dates, lastCompleted), zone);
  return slices.count === 1 ? undefined : { ...slices, zone: zone === utcZone ? undefined : zone, parallel };
}

function chooseLength(
  period: Period,
  parallel: number,
  dates: RequestDates,
  lastCompleted: ExportState['lastCompleted'],
): number {
  const periodMs = Math.max(1, endOf(period) - epochMsOf(period.since));
  const pages = expectedPages(periodMs, lastCompleted) / minPagesPerSlice;
  const count = Math.max(1, Math.floor(Math.min(slicesPerWalker * parallel, pages)));
  const step = minSliceMs(dates);
  // A multiple of the period itself is rarely inside it.
  return count === 1 ? Number.MAX_SAFE_INTEGER : Math.ceil(periodMs / count / step) * step;
}

/** As many as the last run would have had in so long a period. Of one from the beginning of time, that is not known. */
function expectedPages(periodMs: number, lastCompleted: ExportState['lastCompleted']): number {
  if (lastCompleted === undefined) return Number.POSITIVE_INFINITY;
  const { result, completedAt } = lastCompleted;
  const since = epochMsOf(result.since);
  const lastMs = epochMsOf(result.until ?? completedAt) - since;
  return since === 0 || lastMs <= 0 ? Number.POSITIVE_INFINITY : (result.pages / lastMs) * periodMs;
}

/** `lengthMs`, or a multiple that results in no more than `maxSlices`. */
function cut(period: Period, lengthMs: number, zone: string): Pick<RunSlices, 'count' | 'lengthMs'> {
  const count = countSlices(period, lengthMs, zone);
  return count <= maxSlices ? { count, lengthMs } : cut(period, lengthMs * Math.ceil(count / maxSlices), zone);
}

/** The first multiple of the length that is after `since`, by the clocks of the zone. */
const firstCut = ({ since }: Pick<Period, 'since'>, lengthMs: number, zone: string): number =>
  (Math.floor(wallClockOf(epochMsOf(since), zone) / lengthMs) + 1) * lengthMs;

const endOf = ({ until, startedAt }: Period): number => epochMsOf(until ?? startedAt);

const countSlices = (period: Period, lengthMs: number, zone: string): number =>
  1 + Math.max(0, Math.ceil((wallClockOf(endOf(period), zone) - firstCut(period, lengthMs, zone)) / lengthMs));

/** The parts of a run that determine its slices. */
export type SlicedPeriod = Pick<Run, 'export' | 'run' | 'since' | 'until' | 'slices' | 'attempts'>;

export const sliceCountOf = ({ slices }: Pick<Run, 'slices'>): number => slices?.count ?? 1;

/** How many requests of the run may be in flight for different slices. */
export const parallelOf = ({ slices }: Pick<Run, 'slices'>): number => slices?.parallel ?? 1;

/** The slice `number` of `run`, counted from 1. */
export function sliceOf(run: SlicedPeriod, number: number): Slice {
  const { since, until, slices } = run;
  const attempt = run.attempts?.[number] ?? 1;
  if (slices === undefined) return { ...refOf(run), ...(attempt > 1 && { slice: 1, attempt }), since, until };
  const { count, lengthMs, zone = utcZone } = slices;
  if (lengthMs === undefined) return { ...refOf(run), slice: number, attempt, since, until };
  const cutBefore = (slice: number) =>
    instantOf(instantAt(firstCut(run, lengthMs, zone) + (slice - 2) * lengthMs, zone));
  return {
    ...refOf(run),
    slice: number,
    attempt,
    since: number === 1 ? since : cutBefore(number),
    until: number === count ? until : cutBefore(number + 1),
  };
}

/** The number of a slice, also of the only one of a run, which refers to it only from its second attempt on. */
export const numberOf = ({ slice = 1 }: SliceRef): number => slice;

/** The number of a slice as people see it: none, if the run has no others. */
export const shownNumber = ({ slices }: Pick<Run, 'slices'>, { slice }: SliceRef): number | undefined =>
  slices && slice;

/** Whether each slice of the run is of a parent. */
export const hasParents = ({ slices }: Pick<Run, 'slices'>): boolean =>
  slices !== undefined && slices.lengthMs === undefined;

/** For messages: what each chain of the run is. The value of a parent may be confidential. */
export const chainNoun = (run: Pick<Run, 'slices'>): 'parent' | 'slice' => (hasParents(run) ? 'parent' : 'slice');

/** Whether slices of this length are those of the run. */
export function hasSlices(run: Run, lengthMs: number, { zone = utcZone }: RequestDates): boolean {
  const { count, lengthMs: ms } = cut(run, lengthMs, zone);
  return run.slices === undefined ? count === 1 : run.slices.lengthMs === ms;
}
