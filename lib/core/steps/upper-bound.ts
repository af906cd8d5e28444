/**
 * Asks the service, before the first page of a run that depends on it, whether it honors the upper bound of requests: a report of an
 * empty interval would be in two slices, or in two runs. Nothing is kept: a vendor changes, and a quiet night proves nothing.
 */

import { assertRootOfResponse, type ExpectedRoot } from '../document-root.ts';
import { ExportError, isExportError } from '../errors.ts';
import { refOf, type Run } from '../model.ts';
import { sliceOf } from '../slices.ts';
import type { FetchOptions } from '../ports.ts';
import { pageFetcher, type PageRequestsDependencies, type RequestLimits } from './page-requests.ts';

/**
 * Requests the reports of an empty interval: since the end of the first slice, and before it. There must be none. A service may
 * reject such a request instead, twice: then it compares the two bounds, so it honors them. A document that is no page proves nothing:
 * it must have the `expected` root. Returns the root that first pages must have; undefined if nothing is known.
 * @throws ConfigurationError if the bound is not honored; any other error leaves the proof open
 */
export async function proveUpperBound(
  deps: PageRequestsDependencies,
  run: Run,
  expected: ExpectedRoot | undefined,
  limits: RequestLimits & { readonly signal: AbortSignal },
): Promise<ExpectedRoot | undefined> {
  const { until: at } = sliceOf(run, 1);
  if (at === undefined) return expected;
  const empty = { ...refOf(run), since: at, until: at };
  const fetchPage = pageFetcher(deps, withSmallPages(run), empty, limits);
  const label = `the empty interval from ${at} to ${at}, before page 1 of run ${run.run}`;
  const fetch = () => fetchPage({ page: 1, cursor: null, label }, { sink: discard, signal: limits.signal });
  const isRejection = (error: unknown) => isExportError(error, 'RequestRejectedError');
  try {
    // Twice: the rejection may be that of a gateway.
    const page = await fetch().catch((error: unknown) => (isRejection(error) ? fetch() : Promise.reject(error)));
    const root = assertRootOfResponse(label, page, expected);
    // The reports of some formats are not counted, but with one per page, more than one need a second page.
    if (page.nextCursor !== null || (page.reports ?? 0) > 0) throw boundError(deps, run, at);
    return root;
  } catch (error) {
    if (isRejection(error)) return expected;
    throw error;
  }
}

/** Reads the bytes of a page and keeps none. */
export const discard: FetchOptions['sink'] = async (body) => {
  for await (const _ of body);
};

/** Of the contract, the size is optional; a description may do without. */
const withSmallPages = (run: Run): Run =>
  run.request.size === undefined && run.request.api.pagination !== undefined
    ? run
    : { ...run, request: { ...run.request, size: 1 } };

const boundError = ({ definition }: PageRequestsDependencies, run: Run, at: string): ExportError => {
  const { upperBound = 'the upper bound' } = definition.dates;
  return new ExportError(
    'ConfigurationError',
    `Report service sent reports for the empty interval from ${at} to ${at}. So it ignores ${upperBound}, or includes reports that are dated ` +
      `exactly at it, and reports would be in two slices or runs. Run ${run.run} of export ${run.export} has requested no page. ` +
      'Correct the upper bound in the settings, or export without slices and without an upper bound',
  );
};
