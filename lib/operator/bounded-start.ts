/**
 * Decides, before a start, which bounded runs are left of what a person names. Exported twice, reports would be in two
 * runs.
 *
 * With `each`, the command begins one bounded run after the other. Nothing stores that they belong together: the same
 * command finds those that are complete by their bounds, and continues with the others.
 */

import {
  assertBoundable,
  assertNoOverlap,
  boundedStateName,
  exportedBy,
  findDateProblem,
} from '../core/bounded-runs.ts';
import { ExportError, isExportError } from '../core/errors.ts';
import type { Bounds, ExportDefinition, ExportState, Instant, RequestDates } from '../core/model.ts';
import type { PageLog } from '../core/ports.ts';
import type { StartRequest } from '../core/start/start-input.ts';
import { instantAt, utcZone, wallClockOf } from '../core/time/time-zones.ts';
import { durationSchema, epochMsOf, instantOf } from '../core/timestamps.ts';
import type { ExportTarget } from './target.ts';

export interface GivenDays {
  /** The bounds that were given as a day, without a time. They are the first moment of the day in UTC. */
  readonly days?: readonly ('since' | 'until')[] | undefined;
}

/** The start that a person asks for. */
export interface RequestedStart extends StartRequest, GivenDays {
  /** Splits the period into bounded runs of this length: a duration, or `month`, which is a calendar month. */
  readonly each?: string | undefined;
}

/** `left` has at least one start. */
export type BoundedStarts =
  | { readonly kind: 'done'; readonly reason: string }
  | { readonly kind: 'left'; readonly left: readonly StartRequest[] };

export interface BoundableExport extends Pick<ExportTarget, 'definition'> {
  readonly log: Pick<PageLog, 'boundedStates'>;
}

/**
 * The starts that are left, in their order: of a regular run, it is one.
 * @throws ConfigurationError that names every problem of the bounds, or the bounded run that they overlap
 */
export async function findStarts(
  { definition, log }: BoundableExport,
  { each, days, ...given }: RequestedStart,
  now: number,
): Promise<BoundedStarts> {
  const request = { ...given, ...boundsIn(definition.dates, { ...given, days }) };
  assertStartable(definition, { each, ...request }, now);
  const { since, until, again = false } = request;
  if (since === undefined || until === undefined) return { kind: 'left', left: [request] };
  const parts = each === undefined ? [{ since, until }] : partsOf({ since, until }, each, definition.dates.zone);
  assertExpressible(definition, parts);
  const { name } = definition;
  const completed = again ? new Map() : await findCompleted({ definition, log }, { since, until }, parts);
  const left = parts.filter((part) => !completed.has(boundedStateName(name, part)));
  if (left.length > 0) return { kind: 'left', left: left.map((part) => ({ ...request, ...part })) };
  const [first] = completed.values();
  const runs = each === undefined ? `run ${first.result.run} has` : `${parts.length} runs have`;
  const reason = `${runs} exported ${name} from ${since} to ${until}. To export it again: --again`;
  return { kind: 'done', reason };
}

/** The bounds, with days that begin in the time zone of the export's dates. */
export function boundsIn<Given extends Partial<Bounds> & GivenDays>(
  { zone = utcZone }: Pick<RequestDates, 'zone'>,
  { since, until, days = [] }: Given,
): Pick<Given, 'since' | 'until'> {
  const inZone = (name: 'since' | 'until', bound: Instant | undefined) =>
    bound !== undefined && days.includes(name) ? instantOf(instantAt(epochMsOf(bound), zone)) : bound;
  return { since: inZone('since', since), until: inZone('until', until) };
}

type Completed = NonNullable<ExportState['lastCompleted']>;

/**
 * The runs that have exported one of the parts, by the name of its state.
 * @throws ConfigurationError if another bounded run overlaps the period
 */
async function findCompleted(
  { definition, log }: BoundableExport,
  period: Bounds,
  parts: readonly Bounds[],
): Promise<ReadonlyMap<string, Completed>> {
  const names = new Set(parts.map((part) => boundedStateName(definition.name, part)));
  await assertNoOverlap(log, definition, period, names);
  const completed = new Map<string, Completed>();
  for await (const state of log.boundedStates(definition.name)) {
    const run = names.has(state.export) ? exportedBy(state, definition.request) : undefined;
    if (run !== undefined) completed.set(state.export, run);
  }
  return completed;
}

/** @throws ConfigurationError with a line for each problem, by its option */
function assertStartable(definition: ExportDefinition, { each, ...request }: RequestedStart, now: number): void {
  const slice = request.slice === undefined ? undefined : durationSchema.parse(request.slice);
  const problem =
    each === undefined || each === month ? undefined : findDateProblem(definition.dates, durationSchema.parse(each));
  try {
    assertBoundable(definition, { ...request, slice }, now);
    if (problem !== undefined) throw new ExportError('ConfigurationError', `each: ${problem}`);
  } catch (error) {
    if (!isExportError(error, 'ConfigurationError')) throw error;
    const lines = error.message.split('; ').map((line) => line.replace(/^[a-zA-Z]+(?=: )/, toFlag));
    throw new ExportError('ConfigurationError', lines.join('\n'), { cause: error });
  }
}

const toFlag = (field: string): string => `--${field.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

const month = 'month';

/** Whether `text` says how long the bounded runs of a period are. */
export const isEach = (text: string): boolean => text === month || (durationSchema.safeParse(text).data ?? 0) > 0;

/** A person reads the list of runs. */
const maxParts = 1_000;

/** The bounds of each bounded run, the oldest first. They are as long by the clocks of `zone`. */
function partsOf({ since, until }: Bounds, each: string, zone = utcZone): readonly Bounds[] {
  const parts: Bounds[] = [];
  for (let from = since; epochMsOf(from) < epochMsOf(until);) {
    const end = endOfPart(from, each, zone);
    const to = epochMsOf(end) < epochMsOf(until) ? end : until;
    parts.push({ since: from, until: to });
    if (parts.length > maxParts) {
      throw new ExportError(
        'ConfigurationError',
        `--each: results in more than ${maxParts} runs. Choose a longer one, or a shorter period`,
      );
    }
    from = to;
  }
  return parts;
}

/** The bounds of the period have been checked before. @throws ConfigurationError if requests cannot have another one */
function assertExpressible({ dates }: Pick<ExportDefinition, 'dates'>, parts: readonly Bounds[]): void {
  for (const { since } of parts) {
    const problem = findDateProblem(dates, since);
    if (problem !== undefined)
      throw new ExportError('ConfigurationError', `--each: a run would begin at ${since}: ${problem}`);
  }
}

function endOfPart(since: Instant, each: string, zone: string): Instant {
  const from = wallClockOf(epochMsOf(since), zone);
  const date = new Date(from);
  const end =
    each === month ? Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1) : from + durationSchema.parse(each);
  return instantOf(instantAt(end, zone));
}
