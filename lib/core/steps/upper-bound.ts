/**
 * Proves, before the first page of a run with slices or an upper bound, that the service honors the bounds of requests:
 * a report outside the interval of its request would be in two slices, or in two runs. The proof is repeated for each
 * run, because the service may change, and because a period without reports proves nothing.
 */

import type { RootCheck } from '../document-root.ts';
import { ExportError, isExportError } from '../errors.ts';
import { type Instant, refOf, type Run } from '../model.ts';
import { isSkipped, type ParentOf } from '../parents/run-parents.ts';
import { hasParents, parallelOf, type Slice, sliceCountOf, sliceOf } from '../slices.ts';
import type { FetchOptions, ReceivedPage } from '../ports.ts';
import { describePage } from '../storage/keys.ts';
import { firstGoneError, firstParents } from '../parents/gone-parents.ts';
import { pageFetcher, type PageRequestsDependencies, type RequestLimits } from '../slots/page-requests.ts';

/** Whether a report outside the interval of its request would be twice in a run, or in two. */
export const needsProofOfBounds = (run: Pick<Run, 'slices' | 'bounded'>): boolean =>
  run.bounded === true || run.slices?.lengthMs !== undefined;

type Answer = 'empty' | 'reports' | 'rejected';

/**
 * Requests the reports of empty intervals, and otherwise what the run requests. There must be no reports.
 *
 * A service may reject such a request instead. If it accepts page 1 of the run, and then rejects the empty interval
 * again, it compares the two bounds, so it knows both. A document that is no page proves nothing: `roots` compares it
 * with the expected root. `intervals` are the instants at which the empty intervals begin and end.
 *
 * With parents, the first one is asked that is neither gone nor skipped.
 *
 * The proof costs one request, or two for a run with three or more slices, which are sent together if those of the run
 * may be. If the service rejects empty intervals, it costs two more.
 * @throws ConfigurationError if a bound is not honored, or the first parents are all gone; any other error leaves the
 *   proof open
 */
export async function proveBounds(
  deps: PageRequestsDependencies,
  run: Run,
  roots: RootCheck,
  limits: RequestLimits & {
    readonly signal: AbortSignal;
    readonly intervals?: Iterable<Instant> | undefined;
    readonly parentOf: ParentOf;
  },
): Promise<void> {
  const { intervals = emptyIntervals(run), parentOf } = limits;
  const cancellation = new AbortController();
  const signal = AbortSignal.any([limits.signal, cancellation.signal]);

  /** The parent that is asked: the first one that is neither gone nor skipped. */
  let number = await notSkipped(run, parentOf, 1);
  let gone = 0;
  // Nothing is requested.
  if (number > sliceCountOf(run)) return;

  async function request(period: Pick<Slice, 'since' | 'until'>, label: string): Promise<ReceivedPage> {
    for (;;) {
      const slice = { ...refOf(run), ...period, ...(hasParents(run) && { slice: number }) };
      const fetchPage = pageFetcher(deps, { run, slice, parent: await parentOf(slice) }, limits);
      const { received } = await fetchPage({ page: 1, cursor: null, label }, { sink: discard, signal });
      if (received.kind === 'page') {
        roots.assertProbe(label, received);
        return received;
      }
      if (received.reason !== 'gone') throw new Error(`The service ended the pages before ${label}`);
      gone += 1;
      number = await notSkipped(run, parentOf, number + 1);
      if (gone === firstParents || number > sliceCountOf(run)) throw firstGoneError(run, gone);
    }
  }

  async function requestEmptyInterval(at: Instant): Promise<Answer> {
    const label = `the empty interval from ${at} to ${at}, before page 1 of run ${run.run}`;
    try {
      const { nextCursor, reports } = await request({ ...refOf(run), since: at, until: at }, label);
      // Reports of some formats are not counted. But an empty interval has no next page.
      return nextCursor !== null || (reports ?? 0) > 0 ? 'reports' : 'empty';
    } catch (error) {
      if (isExportError(error, 'RequestRejectedError')) return 'rejected';
      throw error;
    }
  }

  async function proveInterval(at: Instant, firstAnswer: Promise<Answer>): Promise<Answer> {
    let answer = await firstAnswer;
    if (answer === 'rejected') {
      // If page 1 is rejected, too, the service objects to something else than the empty interval.
      await request(
        sliceOf(run, 1),
        `${describePage({ page: 1, slice: run.slices && number })} of run ${run.run}, to check the bounds`,
      );
      // A gateway may have rejected the first request by mistake.
      answer = await requestEmptyInterval(at);
    }
    if (answer === 'reports') throw boundsError(deps, run, at);
    return answer;
  }

  const together = limits.slot === undefined && parallelOf(run) > 1;
  const ahead = new Map([...(together ? intervals : [])].map((at) => [at, requestEmptyInterval(at)]));
  // A failure is thrown below, unless the one before it is.
  for (const answer of ahead.values()) answer.catch(() => {});
  try {
    for (const at of intervals) {
      const answer = await proveInterval(at, ahead.get(at) ?? requestEmptyInterval(at));
      if (answer === 'rejected') break;
    }
  } finally {
    cancellation.abort(new Error('The proof is over'));
    await Promise.allSettled(ahead.values());
  }
}

/**
 * Where the empty intervals of a run are. At the end of the first slice, a service that ignores the upper bound sends
 * later reports. At the beginning of the last slice, a service that ignores the lower bound sends earlier ones. There
 * are none if the first slice has no end.
 */
function emptyIntervals(run: Run): Iterable<Instant> {
  const { until } = sliceOf(run, 1);
  if (until === undefined) return [];
  const count = hasParents(run) ? 1 : sliceCountOf(run);
  return count === 1 ? [until] : new Set([until, sliceOf(run, count).since]);
}

/** The first slice from `number` on whose parent is not skipped; more than there are, if there is none. */
async function notSkipped(run: Run, parentOf: ParentOf, number: number): Promise<number> {
  let next = number;
  while (run.skipped !== undefined && isSkipped(run, await parentOf({ slice: next }))) next += 1;
  return next;
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
