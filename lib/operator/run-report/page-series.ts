/** Converts the page log of a run into a series of points for charts: one point per page, or per group of pages in a long run. */

import type { Instant, PageEntry } from '../../core/model.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import {
  createBoundedSeries,
  createLatencyHistogram,
  type LatencySummary,
  mergeStatistics,
  type StatisticSet,
  statisticsOf,
} from './statistics.ts';

/** A chart is at most a few thousand pixels wide, so more points would not be visible. */
const maxPoints = 2_000;

export interface PageSeries {
  /** In page order, each of `pagesPerPoint` pages; the last may have fewer. */
  readonly points: readonly PagePoint[];
  readonly pagesPerPoint: number;
  /** null if no page has times. */
  readonly latency: LatencySummary | null;
  readonly timeByPhase: TimeByPhase;
  /** The longest time without a new page, and the page that ended it. */
  readonly longestGap: { readonly ms: number; readonly page: number } | null;
  /** The number of adopted pages. They have no times, because another attempt fetched them. */
  readonly adoptedPages: number;
}

/** Consecutive pages. Times are in milliseconds, and null if no page has them. */
export interface PagePoint {
  readonly firstPage: number;
  readonly pages: number;
  /** When the last of the pages was logged, in milliseconds since the epoch. */
  readonly loggedAt: number;
  /** From the log entry of the previous page to the request: state transitions, waits, failed attempts. */
  readonly between: StatisticSet | null;
  /** From the request to the response headers. */
  readonly latency: StatisticSet | null;
  /** From the response headers to the log entry: transfer, storage, logging. */
  readonly transfer: StatisticSet | null;
  readonly bytes: StatisticSet;
  readonly reports: StatisticSet | null;
}

/** Milliseconds, summed over all pages that have times. */
interface TimeByPhase {
  readonly between: number;
  readonly latency: number;
  readonly transfer: number;
}

/** Collects entries in page order, in constant memory. */
export function createPageSeries(startedAt: Instant) {
  const points = createBoundedSeries<PagePoint>(maxPoints, mergePoints);
  const latencies = createLatencyHistogram();
  const timeByPhase = { between: 0, latency: 0, transfer: 0 };
  let longestGap: PageSeries['longestGap'] = null;
  let adoptedPages = 0;
  let previousLoggedAt = epochMsOf(startedAt);
  return {
    add(entry: PageEntry): void {
      const point = toPoint(entry, previousLoggedAt);
      points.add(point);
      if (entry.timing === null) adoptedPages += 1;
      else latencies.add(entry.page, entry.timing.latencyMs);
      timeByPhase.between += point.between?.sum ?? 0;
      timeByPhase.latency += point.latency?.sum ?? 0;
      timeByPhase.transfer += point.transfer?.sum ?? 0;
      const gapMs = Math.max(0, point.loggedAt - previousLoggedAt);
      if (gapMs > (longestGap?.ms ?? -1)) longestGap = { ms: gapMs, page: entry.page };
      previousLoggedAt = point.loggedAt;
    },
    series: (): PageSeries => ({
      points: points.items,
      pagesPerPoint: points.perItem,
      latency: latencies.summary(),
      timeByPhase,
      longestGap,
      adoptedPages,
    }),
  };
}

function toPoint({ page, loggedAt, timing, bytes, reports }: PageEntry, previousLoggedAt: number): PagePoint {
  const loggedMs = epochMsOf(loggedAt);
  const requestedMs = timing === null ? 0 : epochMsOf(timing.requestedAt);
  const latencyMs = timing?.latencyMs ?? 0;
  // The clocks of two machines may differ, which can result in negative durations.
  const duration = (ms: number) => (timing === null ? null : statisticsOf(Math.max(0, ms)));
  return {
    firstPage: page,
    pages: 1,
    loggedAt: loggedMs,
    between: duration(requestedMs - previousLoggedAt),
    latency: duration(latencyMs),
    transfer: duration(loggedMs - requestedMs - latencyMs),
    bytes: statisticsOf(bytes),
    reports: reports === null ? null : statisticsOf(reports),
  };
}

/** Merges two adjacent points. */
export function mergePoints(a: PagePoint, b: PagePoint): PagePoint {
  return {
    firstPage: a.firstPage,
    pages: a.pages + b.pages,
    loggedAt: b.loggedAt,
    between: mergeStatistics(a.between, b.between),
    latency: mergeStatistics(a.latency, b.latency),
    transfer: mergeStatistics(a.transfer, b.transfer),
    bytes: mergeStatistics(a.bytes, b.bytes),
    reports: mergeStatistics(a.reports, b.reports),
  };
}
