/**
 * Asks the service, before the first page of a run that depends on it, whether it honors the bounds of requests: a
 * report outside the interval of its request would be in two slices, or in two runs. Nothing is kept: a vendor
 * changes, and a quiet night proves nothing.
 */

import type { RootCheck } from '../document-root.ts';
import { ExportError, isExportError } from '../errors.ts';
import { type Instant, refOf, type Run } from '../model.ts';
import { type Slice, sliceCountOf, sliceOf } from '../slices.ts';
import type { FetchOptions, ReceivedPage } from '../ports.ts';
import { describePage } from '../storage/keys.ts';
import { pageFetcher, type PageRequestsDependencies, type RequestLimits } from './page-requests.ts';

/**
 * Requests the reports of empty intervals, in all else as the run requests its pages. There must be none. A service
 * may reject such a request instead. That counts only if it accepts page 1 of the run, and then rejects the empty
 * interval again: it compares the two bounds. A document that is no page proves nothing: `roots` compares it with
 * what is expected. `intervals` are where they begin and end; without it, where the slices of the run do.
 *
 * The first page of a run costs one request more, or two with three or more slices. If the service rejects empty
 * intervals, it costs three.
 * @throws ConfigurationError if a bound is not honored; any other error leaves the proof open
 */
export async function proveBounds(
  deps: PageRequestsDependencies,
  run: Run,
  roots: RootCheck,
  limits: RequestLimits & { readonly signal: AbortSignal; readonly intervals?: Iterable<Instant> | undefined },
): Promise<void> {
  const { signal, intervals = emptyIntervals(run) } = limits;

  async function request(slice: Slice, label: string): Promise<ReceivedPage> {
    const fetchPage = pageFetcher(deps, { run, slice }, limits);
    const { received } = await fetchPage({ page: 1, cursor: null, label }, { sink: discard, signal });
    roots.assertProbe(label, received);
    return received;
  }

  async function requestEmptyInterval(at: Instant): Promise<'empty' | 'reports' | 'rejected'> {
    const label = `the empty interval from ${at} to ${at}, before page 1 of run ${run.run}`;
    try {
      const { nextCursor, reports } = await request({ ...refOf(run), since: at, until: at }, label);
      // The reports of some formats are not counted. A next page shows that there are more than one has.
      return nextCursor !== null || (reports ?? 0) > 0 ? 'reports' : 'empty';
    } catch (error) {
      if (isExportError(error, 'RequestRejectedError')) return 'rejected';
      throw error;
    }
  }

  const first = sliceOf(run, 1);
  for (const at of intervals) {
    let answer = await requestEmptyInterval(at);
    if (answer === 'rejected') {
      // If this is rejected, too, the service objects to something else than the empty interval.
      await request(first, `${describePage({ page: 1, slice: first.slice })} of run ${run.run}, to check the bounds`);
      // The rejection may have been that of a gateway.
      answer = await requestEmptyInterval(at);
    }
    if (answer === 'reports') throw boundsError(deps, run, at);
    if (answer === 'rejected') break;
  }
}

/**
 * Reports after the end of the first slice show that the upper bound is ignored. Reports before the last slice show
 * that the lower bound is. None if the first slice has no end.
 */
function emptyIntervals(run: Run): Iterable<Instant> {
  const { until } = sliceOf(run, 1);
  if (until === undefined) return [];
  const count = sliceCountOf(run);
  return count === 1 ? [until] : new Set([until, sliceOf(run, count).since]);
}

/** Reads the bytes of a page and keeps none. */
export const discard: FetchOptions['sink'] = async (body) => {
  for await (const _ of body);
};

const boundsError = ({ definition }: PageRequestsDependencies, run: Run, at: Instant): ExportError => {
  const { upperBound = 'the upper bound' } = definition.dates;
  return new ExportError(
    'ConfigurationError',
    `Report service sent reports for the empty interval from ${at} to ${at}. So it ignores ${upperBound} or the lower bound, ` +
      `or ${upperBound} includes reports that are dated exactly at it. Reports would be in two slices or runs. ` +
      `Run ${run.run} of export ${run.export} has stored no page. ` +
      'Correct the bounds in the settings, or export without slices and without an upper bound',
  );
};
