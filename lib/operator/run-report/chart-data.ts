/** What the charts draw, by columns: the form the charting library takes, and half the size of a list of objects. */

import { epochMsOf } from '../../core/timestamps.ts';
import type { PagePoint, RunReportData } from './data.ts';
import { meanOf, type Spread } from './statistics.ts';

/** Read by `charts.js`. Moments are in seconds since the epoch, times in milliseconds. */
export function chartData({ run, endedAt, points, pagesPerPoint, latency, setbacks }: RunReportData) {
  const column = (of: (point: PagePoint) => Spread | null) => points.map((point) => shown(of(point), meanOf));
  const range = (of: (point: PagePoint) => Spread | null) =>
    pagesPerPoint === 1
      ? null
      : [
          points.map((point) => shown(of(point), (it) => it.min)),
          points.map((point) => shown(of(point), (it) => it.max)),
        ];
  const marks = (kind: 'wait' | 'failed-attempt' | 'failed-run') =>
    setbacks.marks
      .filter((mark) => mark.kind === kind)
      .map(({ at, seconds, count }) => [at / 1_000, kind === 'wait' ? seconds : count]);
  return {
    start: epochMsOf(run.startedAt) / 1_000,
    end: epochMsOf(endedAt) / 1_000,
    pagesPerPoint,
    firstPage: points.map((point) => point.firstPage),
    pages: points.map((point) => point.pages),
    loggedAt: points.map((point) => point.loggedAt / 1_000),
    before: column((point) => point.before),
    latency: column((point) => point.latency),
    latencyRange: range((point) => point.latency),
    transfer: column((point) => point.transfer),
    bytes: column((point) => point.bytes),
    bytesRange: range((point) => point.bytes),
    reports: column((point) => point.reports),
    reportsRange: range((point) => point.reports),
    median: latency?.median ?? null,
    p95: latency?.p95 ?? null,
    waits: marks('wait'),
    attempts: marks('failed-attempt'),
    failures: marks('failed-run'),
  };
}

/** Tenths are finer than any chart. */
const shown = (spread: Spread | null, of: (spread: Spread) => number): number | null =>
  spread === null ? null : Math.round(of(spread) * 10) / 10;
