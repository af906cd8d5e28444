/** Asks the service for a window with reports, and for an empty one: whether it honors the upper bound that a backfill relies on. */

import { assertRootOfProbe, rootOfFirstProbe } from '../core/document-root.ts';
import { type ErrorName, ExportError, isExportError } from '../core/errors.ts';
import type { DocumentRoot, ExportDefinition, Instant } from '../core/model.ts';
import { untilPlaceholder } from '../core/filter.ts';
import { type FetchedPage, nextCursorOf, type PageLog, type ReportService, type Runtime } from '../core/ports.ts';
import { epochMsOf, instantOf } from '../core/timestamps.ts';
import { windowDefinition } from './window-definition.ts';
import type { Window } from './windows.ts';

interface WindowProbeDependencies {
  readonly definition: ExportDefinition;
  readonly service: ReportService;
  /** The operator of the upper bound of a window: `lt`. Undefined: the service has none. */
  readonly untilOperator: string | undefined;
  readonly log: Pick<PageLog, 'exportState'>;
  readonly runtime: Pick<Runtime, 'sleep'>;
}

/**
 * Sends two requests for one report each: for the reports of `period`, and for those since its beginning and before its beginning. There
 * must be some of the former, and none of the latter. Stores nothing. Returns the root element of the responses, if they have one.
 *
 * A service may reject the empty window instead: it accepted the same filter with a later bound, so it compares the two.
 *
 * @throws ConfigurationError if the service ignores, includes or rejects the upper bound, or returns no reports of the period; what
 *   `fetchPage` throws, temporary errors after several attempts
 */
export async function probeWindow(
  { definition, service, untilOperator, log, runtime }: WindowProbeDependencies,
  period: Window,
  signal?: AbortSignal,
): Promise<DocumentRoot | undefined> {
  const { since, until } = period;
  const bound = untilOperator === untilPlaceholder ? untilPlaceholder : `filter.date.${untilOperator}`;
  const isDescribed = untilOperator === untilPlaceholder;
  const excludeBound = isDescribed
    ? 'Use a parameter that excludes the bound'
    : 'Set filterUntil to an operator that excludes the bound, such as date.lt';
  const retry = createRetries(runtime, signal);
  let expectedRoot = await rootOfFirstProbe(definition, log);
  const hasReports = async (window: Window) => {
    const { request } = windowDefinition(definition, window, untilOperator);
    const label = `a report from ${window.since} to ${window.until}`;
    const probe = { request: { ...request, size: 1 }, ...window, cursor: null, label };
    return await retry(async () => {
      const page = await service.fetchPage(probe, signal);
      const isFound = await containsReports(page);
      // An error document says nothing about the bound.
      expectedRoot = assertRootOfProbe(label, page, expectedRoot);
      return isFound;
    });
  };
  const hasReportsAt = async (instant: Instant) => {
    const attempt = () => hasReports({ since: instant, until: instant });
    // Twice: the rejection may be that of a gateway.
    return await attempt()
      .catch(ifRejected(attempt))
      .catch(ifRejected(async () => false));
  };
  const refuse = (reason: string, cause?: unknown) =>
    new ExportError(
      'ConfigurationError',
      `The service ${definition.request.source} cannot be exported by window: ${reason}. Nothing was stored`,
      cause === undefined ? {} : { cause },
    );

  let isFound: boolean;
  try {
    isFound = await hasReports(period);
  } catch (error) {
    if (!isExportError(error, 'RequestRejectedError')) throw error;
    throw refuse(`it rejects the filter with ${bound}. ${error.message}`, error);
  }
  if (!isFound) {
    throw refuse(
      `it returns no reports from ${since} to ${until}. Either there are none, so there is nothing to export, or it does not honor ${bound}`,
    );
  }
  if (!(await hasReportsAt(since))) return expectedRoot?.root;
  // Only a service that ignores the bound has reports of every empty window.
  if (await hasReportsAt(instantOf(epochMsOf(since) - 1_000))) {
    throw refuse(
      `it ignores ${bound}${isDescribed ? ', or includes a whole day (api.dates)' : ''}. It sent reports for the empty window from ${since} to ${since}, so windows would overlap`,
    );
  }
  throw refuse(
    `${bound} is inclusive. The window from ${since} to ${since} has a report, which is dated ${since} and would be in two windows. ${excludeBound}`,
  );
}

const ifRejected = (otherwise: () => Promise<boolean>) => async (error: unknown) => {
  if (isExportError(error, 'RequestRejectedError')) return await otherwise();
  throw error;
};

/** A page without reports and without a next page. Reads it to its end. */
async function containsReports(page: FetchedPage): Promise<boolean> {
  for await (const _ of page.body);
  // The reports of other formats than XML cannot be counted, but with one per page, more than one need a second page.
  return nextCursorOf(page) !== null || (page.reports() ?? 0) > 0;
}

const temporaryErrors: readonly string[] = [
  'ServiceUnavailableError',
  'ServiceThrottledError',
  'ContractError',
] satisfies ErrorName[];

/** A person waits for the answer, and the function on AWS has less than a minute for it. */
const maxWaitSeconds = 20;

/**
 * Repeats a request after 1, 2, 4 and 8 s, or after its Retry-After, while the service is not available, or responds with no page of reports.
 * The waits of all requests count.
 */
function createRetries({ sleep }: WindowProbeDependencies['runtime'], signal: AbortSignal | undefined) {
  let left = maxWaitSeconds;
  return async <Result>(request: () => Promise<Result>): Promise<Result> => {
    for (let pause = 1; ; pause *= 2) {
      try {
        return await request();
      } catch (error) {
        if (!isExportError(error) || !temporaryErrors.includes(error.name)) throw error;
        const { name, message, retryAfterSeconds } = error;
        const seconds = Math.max(pause, retryAfterSeconds ?? 0);
        if (seconds > left) {
          const when = retryAfterSeconds === undefined ? 'when the service responds' : `after ${retryAfterSeconds} s`;
          const advice = `Nothing was stored. Start the backfill again ${when}`;
          throw new ExportError(name, `${message}. ${advice}`, { cause: error, retryAfterSeconds });
        }
        left -= seconds;
        await sleep(seconds * 1_000, signal);
      }
    }
  };
}
