/** Where a new run starts, and why there: the start input says so, or the export's policy (design, "Where a run starts and ends"). */

import { ExportError } from '../errors.ts';
import type { ExportDefinition, Head, Instant, Watermark } from '../model.ts';
import { shortened } from '../sanitize.ts';
import { epochMsOf, instantOf } from '../timestamps.ts';
import type { StartInput } from './start-input.ts';
import { isFor } from './watermark.ts';

export interface Since {
  readonly since: Instant;
  /** For the person who asks; no sentence, without its stop. */
  readonly because: string;
}

/** Everything the service has: the contract needs a `gte`, and nothing is dated before this. */
const beginning = instantOf(0);

/** @throws ConfigurationError where the watermark is that of another service or filter, and the input names no since */
export function sinceOf(definition: ExportDefinition, head: Head, input: StartInput, now: number): Since {
  if (input.since !== undefined) return { since: input.since, because: 'the start says so' };
  return definition.since.from === 'look-back'
    ? lookingBack(definition, definition.since.lookBackMs, head, input.scheduledTime, now)
    : fromWatermark(definition, definition.since, head);
}

function lookingBack(
  { request }: ExportDefinition,
  lookBackMs: number,
  { watermark }: Head,
  scheduled: string | undefined,
  now: number,
): Since {
  const scheduledMs = scheduled === undefined ? Number.NaN : Date.parse(scheduled);
  const isScheduled = !Number.isNaN(scheduledMs);
  const fixed = Math.max(0, (isScheduled ? scheduledMs : now) - lookBackMs);
  // A start that was skipped, or spent on finishing an older run, left a stretch that no fixed look-back reaches.
  const reached = watermark !== undefined && isFor(watermark, request) ? epochMsOf(watermark.instant) : fixed;
  if (reached < fixed) {
    return { since: instantOf(reached), because: 'the watermark lies further back than the look-back reaches' };
  }
  const from = isScheduled ? `its scheduled time, ${scheduled}` : 'now';
  return { since: instantOf(fixed), because: `the look-back of ${inSeconds(lookBackMs)} before ${from}` };
}

function fromWatermark(
  { name, request }: ExportDefinition,
  { initial, overlapMs }: { readonly initial?: Instant | undefined; readonly overlapMs: number },
  { watermark }: Head,
): Since {
  if (watermark === undefined) {
    return initial === undefined
      ? { since: beginning, because: 'no run has completed, and no initial value is set: everything the service has' }
      : { since: initial, because: 'no run has completed: the initial value' };
  }
  if (!isFor(watermark, request)) {
    const told = (bound: Pick<Watermark, 'source' | 'filter'>) =>
      `${bound.source} with filter ${inFewWords(bound.filter)}`;
    throw new ExportError(
      'ConfigurationError',
      `The watermark of export ${name} was measured at ${told(watermark)}, and means nothing to ${told(request)}: ` +
        'what only the new one selects would be left out. Use another export name, or say with since where to start ' +
        '(and restart, where a run is unfinished)',
    );
  }
  const since = instantOf(Math.max(0, epochMsOf(watermark.instant) - overlapMs));
  return overlapMs === 0
    ? { since, because: 'the watermark' }
    : { since, because: `the watermark, ${watermark.instant}, less the overlap of ${inSeconds(overlapMs)}` };
}

const inSeconds = (ms: number): string => `${(ms / 1_000).toLocaleString('en')} s`;

/** A filter may be of any size, and an error is for a person to read. */
export const inFewWords = (value: unknown): string => shortened(JSON.stringify(value ?? null), 150);
