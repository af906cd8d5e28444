/** Asks the service for a window with reports, and for an empty one: whether it honors the upper bound that a backfill relies on. */

import { ExportError, isExportError } from '../errors.ts';
import type { ExportDefinition, Window } from '../model.ts';
import type { FetchedPage, ReportService } from '../ports.ts';
import { windowDefinition } from '../steps/select-export.ts';

interface WindowProbeDependencies {
  readonly definition: ExportDefinition;
  readonly service: ReportService;
  /** The service's `filterUntil` without `date.`; absent: it has none. */
  readonly untilOperator: string | undefined;
}

/**
 * Sends two requests for one report each: for the reports of `period`, and for those since its beginning and before its beginning. There
 * must be some of the former, and none of the latter. Stores nothing.
 *
 * @throws ConfigurationError if the service ignores or rejects the upper bound, or returns no reports of the period; what `fetchPage`
 *   throws
 */
export async function probeWindow(
  { definition, service, untilOperator }: WindowProbeDependencies,
  period: Window,
  signal?: AbortSignal,
): Promise<void> {
  const { since, until } = period;
  const bound = `filter.date.${untilOperator}`;
  const hasReports = async (window: Window) => {
    const { request } = windowDefinition(definition, window, untilOperator);
    const label = `a report from ${window.since} to ${window.until}`;
    const page = await service.fetchPage({ request: { ...request, size: 1 }, since, cursor: null, label }, signal);
    return await containsReports(page);
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
  if (await hasReports({ since, until: since })) {
    throw refuse(
      `it ignores ${bound}. It sent reports for the empty window from ${since} to ${since}, so every window would contain all later reports`,
    );
  }
}

/** A page without reports and without a next page. Reads it to its end. */
async function containsReports(page: FetchedPage): Promise<boolean> {
  for await (const _ of page.body);
  // The reports of other formats than XML cannot be counted, but with one per page, more than one need a second page.
  return page.nextCursor !== null || (page.reports() ?? 0) > 0;
}
