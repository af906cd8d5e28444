/** The bounds of a backfill, and how many windows are exported at the same time: what may be requested. */

import { ExportError } from '../core/errors.ts';
import { epochMsOf } from '../core/timestamps.ts';
import { type Api, findDateProblem } from '../settings/api-settings.ts';
import type { Backfill } from './store.ts';
import { countWindows } from './windows.ts';

export interface BackfillRequest extends Pick<Backfill, 'from' | 'to' | 'windowMs' | 'parallel'> {}

/** For a person's sake, who looks at the list of windows; and each start reads the states of all windows. */
export const maxWindows = 10_000;

/** What is wrong with the bounds of a backfill at the time `now`; undefined if nothing is. */
export function findBackfillProblem(
  request: Pick<BackfillRequest, 'from' | 'to' | 'windowMs'>,
  now: number,
): string | undefined {
  if (epochMsOf(request.from) >= epochMsOf(request.to)) return '--to: must be after --from';
  if (epochMsOf(request.to) > now) {
    return '--to: must not be in the future: a window is exported once, so its later reports would never be exported';
  }
  const windows = countWindows(request);
  if (windows <= maxWindows) return undefined;
  return `--window: results in ${windows.toLocaleString('en')} windows, more than ${maxWindows.toLocaleString('en')}. Choose longer windows, or a shorter period`;
}

/** @throws ConfigurationError if requests would round these bounds, so that windows overlap. `api` is that of the service */
export function assertFitsDates(
  { from, to, windowMs }: Pick<BackfillRequest, 'from' | 'to' | 'windowMs'>,
  api: Pick<Api, 'dates'> | undefined,
): void {
  const problems = Object.entries({ '--from': from, '--to': to, '--window': windowMs }).flatMap(([option, value]) => {
    const problem = findDateProblem(api, value);
    return problem === undefined ? [] : [`${option}: ${problem}`];
  });
  if (problems.length > 0) throw new ExportError('ConfigurationError', problems.join('; '));
}

export const defaultParallel = 4;

interface ParallelLimits {
  readonly maxConcurrentPages?: number | undefined;
  readonly spareConcurrency?: number | undefined;
}

/**
 * How many windows are exported at the same time: `wanted`; if that is undefined, four, or as many as the service and the function allow.
 * @throws ConfigurationError if these allow fewer than `wanted`, or the function none
 */
export function chooseParallel(wanted: number | undefined, limits: ParallelLimits): number {
  const { maxConcurrentPages = Number.POSITIVE_INFINITY, spareConcurrency = Number.POSITIVE_INFINITY } = limits;
  const reject = (problem: string) => {
    throw new ExportError('ConfigurationError', problem);
  };
  if (spareConcurrency < 1) {
    reject(
      'A backfill is not possible: exportPage.reservedConcurrency leaves no invocation for a window beside one for each export of the ' +
        'service. Raise exportPage.reservedConcurrency and deploy the stack again',
    );
  }
  const parallel = wanted ?? Math.min(defaultParallel, maxConcurrentPages, spareConcurrency);
  if (parallel > maxConcurrentPages) {
    reject(
      `--parallel: must be at most ${maxConcurrentPages}, because the service allows so many requests at the same time (maxConcurrentPages)`,
    );
  }
  if (parallel > spareConcurrency) {
    reject(
      `--parallel: must be at most ${spareConcurrency}, because exportPage.reservedConcurrency leaves so many invocations beside one for ` +
        'each export of the service',
    );
  }
  return parallel;
}
