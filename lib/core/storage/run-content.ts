/** The head of a manifest: totals and times of a run, from the first and the last log entry of each slice. */

import {
  type EndEntry,
  type ExportRequest,
  type Instant,
  type LogEntry,
  type PageEntry,
  type Run,
  type RunTotals,
  sumTotals,
  totalsOf,
  zeroTotals,
} from '../model.ts';
import { numberOf } from '../slices.ts';
import { epochMsOf } from '../timestamps.ts';
import type { RunKeyParts } from './keys.ts';
import type { MissingParent } from './published-schemas.ts';

/** The times of a page's request. */
export type FirstPage = Pick<PageEntry, 'serviceTime' | 'timing'>;

/** The facts from the page log that the manifest has before its list of pages. */
export interface RunContent {
  readonly totals: RunTotals;
  /** How many slices are complete, and how many of these have no page. */
  readonly complete: number;
  readonly withoutPages: number;
  /** The parents without pages that are gone or were skipped. */
  readonly missing: readonly MissingParent[];
  /** The totals of each slice; none if the run has one. */
  readonly slices: readonly RunTotals[];
  /** By the service's clock: when it sent the earliest first page and the latest last page of the slices. */
  readonly serviceStartedAt: Instant | null;
  readonly serviceCompletedAt: Instant | null;
  /** The first page of a slice that was requested earliest. */
  readonly firstPage: FirstPage;
  readonly ignoredPages: IgnoredPages;
}

/** Which pages in the folder of a run do not belong to it. */
export interface IgnoredPages {
  /** For each slice whose log has an end, the number of the page in whose place it is. A stored one is ignored. */
  readonly ends: ReadonlyMap<number, number>;
  /** For each slice that has started over, its newest attempt. The pages of others are ignored. */
  readonly attempts: ReadonlyMap<number, number>;
}

/** The parts of a run without which its log cannot be read. Its manifest has them, too. */
export type LoggedRun = RunKeyParts &
  Pick<Run, 'until' | 'slices'> & {
    readonly request: Pick<ExportRequest, 'reportsAt'> & { readonly api: Pick<ExportRequest['api'], 'pagination'> };
  };

const earlier = (one: Instant | null, other: Instant | null): Instant | null =>
  one === null || (other !== null && epochMsOf(other) < epochMsOf(one)) ? other : one;
const later = (one: Instant | null, other: Instant | null): Instant | null =>
  one === null || (other !== null && epochMsOf(other) > epochMsOf(one)) ? other : one;

export const countMissing = ({ missing }: Pick<RunContent, 'missing'>, reason: MissingParent['reason']): number =>
  missing.filter((parent) => parent.reason === reason).length;

/** The parent of a slice that has no pages, if it is gone or was skipped. */
function missingParentOf({ slice, parent, reason, status }: EndEntry): MissingParent | undefined {
  if (slice === undefined || parent === undefined) return undefined;
  return reason === 'gone' || reason === 'skipped' ? { slice, parent, reason, status } : undefined;
}

/** Adds up complete slices one after the other. */
export function foldContent(run: LoggedRun) {
  const ends = new Map<number, number>();
  const attempts = new Map<number, number>();
  const slices: RunTotals[] = [];
  let totals = zeroTotals;
  const missing: MissingParent[] = [];
  let [complete, withoutPages] = [0, 0];
  const msOf = (page: FirstPage): number => epochMsOf(requestedAt(run, page));
  let serviceStartedAt: Instant | null = null;
  let serviceCompletedAt: Instant | null = null;
  let firstPage: FirstPage | undefined;
  const addEnd = (end: EndEntry): void => {
    ends.set(numberOf(end), end.page);
    const parent = missingParentOf(end);
    if (parent !== undefined) missing.push(parent);
  };
  return {
    add(first: LogEntry, last: LogEntry): void {
      const { attempt = 1 } = last;
      const own = totalsOf(last);
      complete += 1;
      totals = sumTotals([totals, own]);
      if (run.slices?.lengthMs !== undefined) slices.push(own);
      if (own.pages === 0) withoutPages += 1;
      if (last.kind === 'end') addEnd(last);
      if (attempt > 1) attempts.set(numberOf(last), attempt);
      serviceStartedAt = earlier(serviceStartedAt, first.serviceTime);
      serviceCompletedAt = later(serviceCompletedAt, last.serviceTime);
      // What has appeared after the first of two passes may be in neither.
      const serviceTime = earlier(first.serviceTime, (first.kind === 'page' && first.earlierPassAt) || null);
      const page = { serviceTime, timing: first.kind === 'page' ? first.timing : null };
      const isEarlier = firstPage === undefined || msOf(page) < msOf(firstPage);
      firstPage = isEarlier ? page : firstPage;
    },
    content: (): RunContent => ({
      totals,
      complete,
      withoutPages,
      missing,
      slices,
      serviceStartedAt,
      serviceCompletedAt,
      firstPage: firstPage ?? { serviceTime: null, timing: null },
      ignoredPages: { ends, attempts },
    }),
  };
}

/**
 * When a first page was requested, by the service's clock or by our own. Either clock may be wrong, and one response
 * may have the Date of a wrong clock. The earlier one loses no report; a watermark in the future would skip reports for
 * good.
 */
export function requestedAt(
  { startedAt, request, until, slices }: LoggedRun,
  { serviceTime, timing }: FirstPage,
): Instant {
  if (serviceTime === null) return startedAt;
  // A request with an upper bound may have asked only for what is dated before the run began.
  const mayHaveUpperBound = request.api.pagination !== undefined || until !== undefined || slices !== undefined;
  // It is not known when an adopted page was requested.
  const ourTime = mayHaveUpperBound ? startedAt : (timing?.requestedAt ?? startedAt);
  return epochMsOf(serviceTime) < epochMsOf(ourTime) ? serviceTime : ourTime;
}
