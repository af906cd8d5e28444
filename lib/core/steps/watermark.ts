/** How far an export has come across its runs: where the next one starts. */

import { isDeepStrictEqual } from 'node:util';
import { ExportError } from '../errors.ts';
import type { ExportDefinition, ExportRequest, ExportState, Instant, PageEntry, Run, Watermark } from '../model.ts';
import { truncate } from '../sanitize.ts';
import { epochMsOf, instantOf } from '../timestamps.ts';
import type { StartInput } from './start-input.ts';

/** Whether `watermark` bounds what `request` selects: reports of another service or filter may lie before it, unseen. */
function appliesTo(watermark: Watermark, { source, filter }: ExportRequest): boolean {
  return watermark.source === source && isDeepStrictEqual(watermark.filter, filter);
}

/** A service's clock further ahead of ours than this is not believed: the watermark could never come back from there. */
const believableLeadMs = 86_400_000;

/** Ours were off, too, if it was ahead of a clock that runs ahead. */
function earlier(ours: Instant, theirs: Instant | null): Instant {
  return theirs !== null && epochMsOf(theirs) < epochMsOf(ours) ? theirs : ours;
}

/**
 * Where the next run starts: the service's clock at the run's first response, ours where it sent none or one that cannot
 * be. It never moves back, and stays where the run began after the point from which the next one would ask: moving it
 * would leave out what lies between, or what may yet show up there within the overlap.
 */
export function watermarkAfter(
  head: ExportState,
  { since }: ExportDefinition,
  run: Run,
  first: PageEntry,
): Watermark | undefined {
  const { source, filter } = run.request;
  const known =
    head.watermark !== undefined && appliesTo(head.watermark, run.request) ? head.watermark.instant : undefined;
  // Behind another request's watermark it was the start input that said where to start: that is where this bound begins.
  const initial = since.from === 'watermark' && head.watermark === undefined ? since.initial : undefined;
  const bound = known ?? initial;
  const { serviceTime, loggedAt } = first;
  const believed = serviceTime !== null && epochMsOf(serviceTime) - epochMsOf(loggedAt) <= believableLeadMs;
  const reached = believed ? serviceTime : earlier(run.startedAt, serviceTime);
  if (bound !== undefined) {
    const overlapMs = known !== undefined && since.from === 'watermark' ? since.overlapMs : 0;
    const leavesGap = epochMsOf(run.since) > Math.max(0, epochMsOf(bound) - overlapMs);
    if (leavesGap || epochMsOf(reached) <= epochMsOf(bound)) return head.watermark;
  }
  return { instant: reached, source, filter };
}

// MERGED since.ts: Where a new run starts, and why there: the start input says so, or the export's policy (design, "Where a run starts and ends").

export interface Since {
  readonly since: Instant;
  /** For the person who asks; no sentence, without its stop. */
  readonly reason: string;
}

/** Everything the service has: the contract needs a `gte`, and nothing is dated before this. */
const beginning = instantOf(0);

/** @throws ConfigurationError where the watermark is that of another service or filter, and the input names no since */
export function chooseSince(definition: ExportDefinition, head: ExportState, input: StartInput, now: number): Since {
  if (input.since !== undefined) return { since: input.since, reason: 'the start says so' };
  return definition.since.from === 'lookback'
    ? lookingBack(definition, definition.since.lookbackMs, head, input.scheduledTime, now)
    : fromWatermark(definition, definition.since, head);
}

function lookingBack(
  { request }: ExportDefinition,
  lookbackMs: number,
  { watermark }: ExportState,
  scheduled: string | undefined,
  now: number,
): Since {
  const scheduledMs = scheduled === undefined ? Number.NaN : Date.parse(scheduled);
  const isScheduled = !Number.isNaN(scheduledMs);
  const fixed = Math.max(0, (isScheduled ? scheduledMs : now) - lookbackMs);
  // A start that was skipped, or spent on finishing an older run, left a stretch that no fixed look-back reaches.
  const reached = watermark !== undefined && appliesTo(watermark, request) ? epochMsOf(watermark.instant) : fixed;
  if (reached < fixed) {
    return { since: instantOf(reached), reason: 'the watermark lies further back than the look-back reaches' };
  }
  const from = isScheduled ? `its scheduled time, ${scheduled}` : 'now';
  return { since: instantOf(fixed), reason: `the look-back of ${inSeconds(lookbackMs)} before ${from}` };
}

function fromWatermark(
  { name, request }: ExportDefinition,
  { initial, overlapMs }: { readonly initial?: Instant | undefined; readonly overlapMs: number },
  { watermark }: ExportState,
): Since {
  if (watermark === undefined) {
    return initial === undefined
      ? { since: beginning, reason: 'no run has completed, and no initial value is set: everything the service has' }
      : { since: initial, reason: 'no run has completed: the initial value' };
  }
  if (!appliesTo(watermark, request)) {
    const told = (bound: Pick<Watermark, 'source' | 'filter'>) =>
      `${bound.source} with filter ${summarize(bound.filter)}`;
    throw new ExportError(
      'ConfigurationError',
      `The watermark of export ${name} was measured at ${told(watermark)}, and means nothing to ${told(request)}: ` +
        'what only the new one selects would be left out. Use another export name, or say with since where to start ' +
        '(and restart, where a run is unfinished)',
    );
  }
  const since = instantOf(Math.max(0, epochMsOf(watermark.instant) - overlapMs));
  return overlapMs === 0
    ? { since, reason: 'the watermark' }
    : { since, reason: `the watermark, ${watermark.instant}, less the overlap of ${inSeconds(overlapMs)}` };
}

const inSeconds = (ms: number): string => `${(ms / 1_000).toLocaleString('en')} s`;

/** A filter may be of any size, and an error is for a person to read. */
export const summarize = (value: unknown): string => truncate(JSON.stringify(value ?? null), 150);
