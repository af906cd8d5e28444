/** Parses what a run is started with on the command line. All problems are reported at once, each by its option. */

import { isExportError } from '../core/errors.ts';
import type { Bounds } from '../core/model.ts';
import { startInputSchema } from '../core/start/start-input.ts';
import { isInFuture } from '../core/timestamps.ts';
import { describeProblem } from '../core/validation-errors.ts';
import { flagOf, type OptionName, type Options } from './option-table.ts';
import { parseWholeNumber } from './arguments.ts';
import { type GivenDays, isEach, type RequestedStart } from './bounded-start.ts';

/** Adds what is wrong to `problems`, as BeginRun does: here no execution has to be started for it. */
export function readStartRequest(
  { since, until, each, parents, again, parallel, slice, restart, skipParent }: Options,
  now: number,
  problems: string[],
): RequestedStart {
  const request = {
    since: since && fullInstant(since),
    until: until && fullInstant(until),
    parents,
    again,
    parallel: parallel === undefined ? undefined : parseWholeNumber(parallel),
    slice,
    restart,
    skipParent,
  };
  const { data, error } = startInputSchema.safeParse(request);
  for (const issue of error?.issues ?? []) {
    const problem = describeProblem(issue).replaceAll(/\b(since|until|parents)\b/g, '--$1');
    problems.push(`${flagOf(issue.path[0] as OptionName)}: ${problem}`);
  }
  if (data?.since !== undefined && isInFuture(data.since, now)) {
    problems.push('--since: must not be in the future: it has no reports yet');
  }
  if (each !== undefined && !isEach(each)) problems.push('--each: must be a duration, such as P7D, or month');
  if (each !== undefined && until === undefined) problems.push('--each: needs --since and --until');
  const days = (['since', 'until'] as const).filter((name) => isDay({ since, until }[name]));
  return { ...data, slice, each, days };
}

const isDay = (text: string | undefined): boolean => text !== undefined && /^\d{4}-\d\d-\d\d$/.test(text);

/** A day is its first moment, in UTC until the time zone of the export is known. */
const fullInstant = (text: string): string => (isDay(text) ? `${text}T00:00:00Z` : text);

/** The bounds of a bounded run. Adds to `problems` if there is only one. */
export function readBounds(options: Options, now: number, problems: string[]): (Bounds & GivenDays) | undefined {
  const { since, until, days } = readStartRequest(options, now, problems);
  if (since !== undefined && until === undefined)
    problems.push('--since: needs --until: together they name a bounded run');
  return since === undefined || until === undefined ? undefined : { since, until, days };
}

/** How often a step is tried at most. 1 means no retry. */
export function readMaxAttempts(text: string | undefined, problems: string[]): number | undefined {
  if (text === undefined) return undefined;
  const attempts = parseWholeNumber(text);
  if (!(attempts >= 1 && attempts <= 1_000)) problems.push('--max-attempts: must be a whole number from 1 to 1000');
  return attempts;
}

/** The result of `action`; undefined if it throws a ConfigurationError, whose lines are added to `problems`. */
export function collectProblems<Result>(action: () => Result, problems: string[]): Result | undefined {
  try {
    return action();
  } catch (error) {
    if (!isExportError(error, 'ConfigurationError')) throw error;
    problems.push(...error.message.split('\n'));
    return undefined;
  }
}
