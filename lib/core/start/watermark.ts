/**
 * Where a run starts (`since`), and how far completed runs have moved the watermark (docs/architecture.md,
 * "Watermark").
 */

import { isBounded } from '../bounded-runs.ts';
import { ExportError } from '../errors.ts';
import { selectsSame } from '../filter.ts';
import type { ExportDefinition, ExportRequest, ExportState, Instant, Run, Watermark } from '../model.ts';
import { truncate } from '../sanitize.ts';
import { minRunMs } from '../slices.ts';
import { type FirstPage, requestedAt } from '../storage/run-content.ts';
import { startOfUnit, utcZone } from '../time/time-zones.ts';
import { epochMsOf, instantOf, isInFuture } from '../timestamps.ts';
import type { StartInput } from './start-input.ts';

export interface ChosenBounds {
  readonly since: Instant;
  /** Absent: the run has no upper bound. */
  readonly until?: Instant | undefined;
  /** Why the run starts at `since`: a phrase without a full stop, for a person to read. */
  readonly reason: string;
}

/** The contract requires a `gte`; no report is dated before this. */
const epochStart = instantOf(0);

/**
 * Where a new run starts and ends. It starts at the `since` of the start input, else where the export's settings say.
 * With a lag, its `until` is now less the lag, rounded down, because reports dated later may still appear. An `until`
 * that is not after `since` leaves nothing to export.
 * @throws ConfigurationError if the watermark belongs to another service, other settings of it or another filter, and
 *   the input has no `since`; or if `since` or `since.initial` is in the future
 */
export function chooseBounds(
  definition: ExportDefinition,
  state: ExportState,
  input: StartInput,
  now: number,
): ChosenBounds {
  const { bounds } = definition;
  if (bounds !== undefined) return { ...bounds, reason: 'given by the start input' };
  // A run with the children of one run exports all of them, so it has no upper bound. Its state has no watermark.
  if (isBounded(definition)) return chooseSince(definition, state, input, now);
  return { ...chooseSince(definition, state, input, now), until: chooseUntil(definition, now) };
}

/** Where a regular run that begins now ends. */
export function chooseUntil({ lagMs, dates }: ExportDefinition, now: number): Instant | undefined {
  if (lagMs === 0) return undefined;
  return instantOf(startOfUnit(now - lagMs, minRunMs(dates), dates.zone ?? utcZone));
}

function chooseSince(definition: ExportDefinition, state: ExportState, input: StartInput, now: number): ChosenBounds {
  assertNotInFuture(input.since, 'The since of the start input', now);
  if (input.since !== undefined) return { since: input.since, reason: 'given by the start input' };
  const { since: policy, request } = definition;
  return policy.from === 'lookback'
    ? sinceLookback({ request, lookbackMs: policy.lookbackMs }, state, input, now)
    : sinceWatermark(definition, policy, state, now);
}

/** A run from a time in the future finds nothing, and moves the watermark past the reports that were meant. */
function assertNotInFuture(since: Instant | undefined, what: string, now: number): void {
  if (since === undefined || !isInFuture(since, now)) return;
  throw new ExportError(
    'ConfigurationError',
    `${what}, ${since}, is in the future: it is ${instantOf(now)} now, and there are no reports from then on. Correct it`,
  );
}

function sinceLookback(
  { request, lookbackMs }: Pick<ExportDefinition, 'request'> & { readonly lookbackMs: number },
  { watermark, firstStart }: ExportState,
  input: StartInput,
  now: number,
): ChosenBounds {
  const windowStart = Math.max(0, timeOfStart(input, now) - lookbackMs);
  const hasWatermark = watermark !== undefined && selectsSame(watermark, request);
  const watermarkMs = hasWatermark ? epochMsOf(watermark.instant) : undefined;
  // A start that was skipped, or that resumed an older run, leaves a gap that the window does not cover.
  if (watermarkMs !== undefined && watermarkMs < windowStart) {
    return { since: instantOf(watermarkMs), reason: 'the watermark, which is earlier than the lookback window' };
  }
  if (watermarkMs === undefined && firstStart !== undefined && epochMsOf(firstStart) - lookbackMs < windowStart) {
    const since = startOfWindow(firstStart, lookbackMs);
    return { since, reason: `the lookback window of the first start, ${firstStart}: no run has completed since` };
  }
  const from = isScheduled(input) ? `the scheduled time ${input.scheduledTime}` : 'now';
  return { since: instantOf(windowStart), reason: `${inSeconds(lookbackMs)} (lookbackWindow) before ${from}` };
}

const startOfWindow = (start: Instant, lookbackMs: number): Instant =>
  instantOf(Math.max(0, epochMsOf(start) - lookbackMs));

/** Whether the start has a scheduled time. A start input may have any text. */
const isScheduled = ({ scheduledTime = '' }: StartInput): boolean => !Number.isNaN(Date.parse(scheduledTime));

/** The scheduled time of a start, or now: the end of its lookback window. */
const timeOfStart = (input: StartInput, now: number): number =>
  isScheduled(input) ? Date.parse(input.scheduledTime ?? '') : now;

function sinceWatermark(
  { name, request }: ExportDefinition,
  { initial, overlapMs }: { readonly initial?: Instant | undefined; readonly overlapMs: number },
  { watermark }: ExportState,
  now: number,
): ChosenBounds {
  if (watermark === undefined) {
    assertNotInFuture(initial, `The setting since.initial of export ${name}`, now);
    return initial === undefined
      ? { since: epochStart, reason: 'no run has completed and since.initial is not set: every report' }
      : { since: initial, reason: 'no run has completed: since.initial' };
  }
  if (!selectsSame(watermark, request)) throw watermarkMismatch(name, watermark, request);
  const since = instantOf(Math.max(0, epochMsOf(watermark.instant) - overlapMs));
  return overlapMs === 0
    ? { since, reason: 'the watermark' }
    : { since, reason: `the watermark ${watermark.instant} minus the overlap of ${inSeconds(overlapMs)}` };
}

function watermarkMismatch(exportName: string, watermark: Watermark, request: ExportRequest): ExportError {
  const describe = ({ source, filter }: Pick<Watermark, 'source' | 'filter'>) =>
    `${source} with filter ${summarize(filter)}`;
  const mismatch = selectsSame({ ...watermark, requestSha256: request.api.requestSha256 }, request)
    ? 'other settings of the service, or to other parents (headers, vendor, parents, api.request, api.dates or api.auth)'
    : `${describe(watermark)} and does not apply to ${describe(request)}`;
  return new ExportError(
    'ConfigurationError',
    `The watermark of export ${exportName} belongs to ${mismatch}: ` +
      'reports matched only by the new request would be missed. Use another export name, or start with --since to set the ' +
      'lower bound (and with --restart, if a run is unfinished)',
  );
}

const inSeconds = (ms: number): string => `${(ms / 1_000).toLocaleString('en')} s`;

/** Request values of any size, short enough for an error message. */
export const summarize = (value: unknown): string => truncate(JSON.stringify(value ?? null), 150);

/**
 * The oldest start whose lookback window no run has exported, once this start has begun a run. Until a run completes,
 * there is no watermark that would keep the window of a run that is abandoned.
 */
export function firstStartOf(
  { since: policy, request }: ExportDefinition,
  { watermark, firstStart }: ExportState,
  input: StartInput,
  now: number,
): Instant | undefined {
  if (firstStart !== undefined || policy.from !== 'lookback' || input.since !== undefined) return firstStart;
  if (watermark !== undefined && selectsSame(watermark, request)) return undefined;
  return instantOf(Math.min(now, timeOfStart(input, now)));
}

/**
 * The watermark after `run` has completed: how far the run has exported (`completedUpTo`). It never moves back. It does
 * not move either if the run's `since` is after the point at which the next run would have started: that would leave a
 * gap, now or within the overlap. A watermark for another request is replaced: the start has named its `since`.
 */
export function watermarkAfter(
  state: ExportState,
  { since: policy }: ExportDefinition,
  run: Run,
  firstPages: readonly FirstPage[],
): Instant | undefined {
  const reached = completedUpTo(run, firstPages);
  const current = state.watermark;
  if (current === undefined) return firstWatermark(run, reached, startOfFirstRun(policy, state));
  if (!selectsSame(current, run.request)) return reached;
  const overlapMs = policy.from === 'watermark' ? policy.overlapMs : 0;
  const leavesGap = epochMsOf(run.since) > Math.max(0, epochMsOf(current.instant) - overlapMs);
  return leavesGap ? current.instant : later(current.instant, reached);
}

/**
 * The watermark after the first run that completes. `start` is where the first run starts unless its start says
 * otherwise. A run that begins after it leaves a gap, so there is no watermark. A run that ends before it moves the
 * start of the next run to its own end: the reports in between are wanted, too.
 */
function firstWatermark({ since }: Run, reached: Instant, start: Instant | undefined): Instant | undefined {
  if (start === undefined) return reached;
  // With a slow clock, a run seems to end before it starts. Reports before its `since` are not wanted.
  return epochMsOf(since) > epochMsOf(start) ? undefined : later(since, reached);
}

/** Where the first run starts unless its start says otherwise; undefined if nothing says it. */
function startOfFirstRun(policy: ExportDefinition['since'], { firstStart }: ExportState): Instant | undefined {
  if (policy.from === 'watermark') return policy.initial;
  return firstStart && startOfWindow(firstStart, policy.lookbackMs);
}

const later = (one: Instant, other: Instant): Instant => (epochMsOf(other) > epochMsOf(one) ? other : one);

/** How far the run has exported: to the earliest request for a first page, less the lag, or to its `until`. */
export function completedUpTo(run: Run, firstPages: readonly FirstPage[]): Instant {
  const ends = firstPages.map((page) => epochMsOf(requestedAt(run, page)) - run.lagMs);
  if (run.until !== undefined) ends.push(epochMsOf(run.until));
  return instantOf(Math.min(...ends));
}
