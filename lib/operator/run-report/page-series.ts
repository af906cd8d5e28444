/** Converts the page log of a run into a series of points for charts: one point per page, or per group of pages in a long run. */

import { createHistogram } from 'node:perf_hooks';
import type { Delays, Instant, PageEntry } from '../../core/model.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import { formatNumber } from './format.ts';

/** A chart is at most a few thousand pixels wide, so more points would not be visible. An even number. */
const maxPoints = 2_000;

/** At least two values are above the p95 of so many: of twelve, it would only be the slowest but one. */
const minValuesForP95 = 40;

export interface PageSeries {
  /** In page order, each of `pagesPerPoint` pages; the last may have fewer. */
  readonly points: readonly PagePoint[];
  readonly pagesPerPoint: number;
  /** null if no page has times. */
  readonly latency: LatencySummary | null;
  /** The longest time without a new page, and the page that ended it. */
  readonly longestGap: { readonly ms: number; readonly page: number } | null;
  /** The number of adopted pages. They have no times, because another attempt fetched them. */
  readonly adoptedPages: number;
}

/** Consecutive pages. Times are in milliseconds. A value is null if no page has it. */
export interface PagePoint extends Readonly<Record<PageValue, Statistics | null>> {
  readonly firstPage: number;
  readonly pages: number;
  /** When the last of the pages was logged, in milliseconds since the epoch. */
  readonly loggedAt: number;
}

/**
 * `between`: from the log entry of the previous page to the request: state transitions, waits, failed attempts.
 * `latency`: from the request to the response headers. `transfer`: from these to the log entry: transfer, storage, logging.
 * `slice`: the number of the slice; no page has one if the run has one slice. `attempts`: those that failed before the page. `waited`:
 * how long the run had waited before it, because the service responded with Retry-After. A page without any has no value.
 */
export type PageValue = 'between' | 'latency' | 'transfer' | 'bytes' | 'reports' | 'slice' | 'attempts' | 'waited';

export interface Statistics {
  readonly count: number;
  readonly sum: number;
  readonly min: number;
  readonly max: number;
}

/** In milliseconds, at least 1. Median and p95 are exact to 0.1%. */
interface LatencySummary {
  readonly min: number;
  readonly median: number;
  /** null if there are too few values. */
  readonly p95: number | null;
  readonly max: number;
  readonly slowestPage: number;
}

/** What the series has of a page, so that those of all slices fit into memory to be sorted: some 100 bytes each. */
export interface SeriesEntry extends Pick<
  PageEntry,
  'slice' | 'loggedAt' | 'timing' | 'bytes' | 'reports' | keyof Delays
> {
  /** In the order of the series. */
  readonly page: number;
  /** When the page before it was logged. Absent: that of the entry before it. null: it is the first page of a slice. */
  readonly previousLoggedAt?: Instant | null | undefined;
}

/**
 * Collects entries in page order, in bounded memory. When there are too many points, adjacent ones are merged pairwise, and each
 * point represents twice as many pages as before. The number of pages need not be known in advance.
 */
export function createPageSeries(startedAt: Instant) {
  let points: PagePoint[] = [];
  let pagesPerPoint = 1;
  const latencies = createHistogram({ figures: 3 });
  let [min, max, slowestPage] = [Number.POSITIVE_INFINITY, 0, 0];
  let longestGap: PageSeries['longestGap'] = null;
  let adoptedPages = 0;
  let previousLoggedAt = epochMsOf(startedAt);

  const addPoint = (point: PagePoint) => {
    const last = points.at(-1);
    if (last !== undefined && last.pages < pagesPerPoint) {
      points[points.length - 1] = mergePoints(last, point);
      return;
    }
    if (points.length === maxPoints) {
      points = mergeGroups(points, 2);
      pagesPerPoint *= 2;
    }
    points.push(point);
  };
  const addLatency = (page: number, ms: number) => {
    latencies.record(ms);
    min = Math.min(min, ms);
    if (ms > max) [max, slowestPage] = [ms, page];
  };
  return {
    add(entry: SeriesEntry): void {
      const point = toPoint(entry, previousLoggedAt);
      addPoint(point);
      if (entry.timing === null) adoptedPages += 1;
      else addLatency(entry.page, Math.max(1, Math.round(entry.timing.latencyMs)));
      const gapMs = Math.max(0, point.loggedAt - previousLoggedAt);
      if (gapMs > (longestGap?.ms ?? -1)) longestGap = { ms: gapMs, page: entry.page };
      previousLoggedAt = point.loggedAt;
    },
    series(): PageSeries {
      const { count } = latencies;
      const p95 = count < minValuesForP95 ? null : latencies.percentile(95);
      const latency = count === 0 ? null : { min, median: latencies.percentile(50), p95, max, slowestPage };
      return { points, pagesPerPoint, latency, longestGap, adoptedPages };
    },
  };
}

function toPoint(
  { page, slice, loggedAt, timing, bytes, reports, previousLoggedAt: ofSlice, ...delays }: SeriesEntry,
  previousLoggedAt: number,
): PagePoint {
  const previousMs = typeof ofSlice === 'string' ? epochMsOf(ofSlice) : previousLoggedAt;
  const loggedMs = epochMsOf(loggedAt);
  const requestedMs = timing === null ? 0 : epochMsOf(timing.requestedAt);
  const latencyMs = timing?.latencyMs ?? 0;
  const statisticsOf = (value: number): Statistics => ({ count: 1, sum: value, min: value, max: value });
  // The clocks of two machines may differ, which can result in negative durations.
  const duration = (ms: number) => (timing === null ? null : statisticsOf(Math.max(0, ms)));
  return {
    firstPage: page,
    pages: 1,
    loggedAt: loggedMs,
    // Other slices were exported before the first page of this one.
    between: ofSlice === null ? null : duration(requestedMs - previousMs),
    latency: duration(latencyMs),
    transfer: duration(loggedMs - requestedMs - latencyMs),
    bytes: statisticsOf(bytes),
    reports: reports === null ? null : statisticsOf(reports),
    slice: slice === undefined ? null : statisticsOf(slice),
    attempts: delays.failedAttempts === undefined ? null : statisticsOf(delays.failedAttempts),
    waited: delays.waitedSeconds === undefined ? null : statisticsOf(delays.waitedSeconds * 1_000),
  };
}

/** `3`, or `3–5`. */
export function pagesText({ firstPage, pages }: PagePoint): string {
  const first = formatNumber(firstPage);
  return pages === 1 ? first : `${first}–${formatNumber(firstPage + pages - 1)}`;
}

/** Of all pages; null if no page has the value. */
export const statisticsOfAll = (points: readonly PagePoint[], value: PageValue): Statistics | null =>
  points.map((point) => point[value]).reduce(mergeStatistics, null);

export const meanOf = ({ sum, count }: Statistics): number => sum / count;

function mergeStatistics(a: Statistics | null, b: Statistics | null): Statistics | null {
  if (a === null || b === null) return a ?? b;
  return { count: a.count + b.count, sum: a.sum + b.sum, min: Math.min(a.min, b.min), max: Math.max(a.max, b.max) };
}

/** Merges two adjacent points. */
function mergePoints(a: PagePoint, b: PagePoint): PagePoint {
  return {
    firstPage: a.firstPage,
    pages: a.pages + b.pages,
    loggedAt: b.loggedAt,
    between: mergeStatistics(a.between, b.between),
    latency: mergeStatistics(a.latency, b.latency),
    transfer: mergeStatistics(a.transfer, b.transfer),
    bytes: mergeStatistics(a.bytes, b.bytes),
    reports: mergeStatistics(a.reports, b.reports),
    slice: mergeStatistics(a.slice, b.slice),
    attempts: mergeStatistics(a.attempts, b.attempts),
    waited: mergeStatistics(a.waited, b.waited),
  };
}

/** Merges each `size` adjacent points into one. */
export function mergeGroups(points: readonly PagePoint[], size: number): PagePoint[] {
  const groups: PagePoint[] = [];
  for (const [index, point] of points.entries()) {
    const last = groups.at(-1);
    if (index % size === 0 || last === undefined) groups.push(point);
    else groups[groups.length - 1] = mergePoints(last, point);
  }
  return groups;
}
