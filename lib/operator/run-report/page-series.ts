/**
 * Condenses the pages of a run into a bounded number of points in time for the charts, in any order of the pages. Pages that were
 * logged within the same interval share a point. The interval doubles whenever there are too many points, so a short run has a point
 * per page, and a run of a million pages has no more points than a chart has pixels.
 */

import type { PageEntry } from '../../core/model.ts';
import { epochMsOf } from '../../core/timestamps.ts';

const maxPoints = 2_000;

/** Sums over pages, unless the name says otherwise. Times are in milliseconds. */
export const measures = [
  /** When the last of the pages was logged, since the epoch. */
  'loggedAt',
  'pages',
  /** Pages with times. An adopted page has none, because another attempt fetched it. */
  'timedPages',
  /** From the request to the response headers. */
  'latency',
  'maxLatency',
  /** From the response headers to the log entry. */
  'transfer',
  'bytes',
  'maxBytes',
  'reports',
  /** Failed attempts before the pages. */
  'failedAttempts',
  /** Waits before the pages, because the service responded with Retry-After. */
  'waited',
] as const;

export type Point = Readonly<Record<(typeof measures)[number], number>>;

export class PageSeries {
  #points = new Map<number, Point>();
  #intervalMs = 1;

  add(entry: PageEntry): void {
    const point = toPoint(entry);
    addTo(this.#points, Math.floor(point.loggedAt / this.#intervalMs), point);
    while (this.#points.size > maxPoints) {
      this.#intervalMs *= 2;
      const finer = this.#points;
      this.#points = new Map();
      for (const [interval, each] of finer) addTo(this.#points, Math.floor(interval / 2), each);
    }
  }

  /** In order of time. */
  points(): readonly Point[] {
    return [...this.#points.values()].sort((one, other) => one.loggedAt - other.loggedAt);
  }
}

/** Merges adjacent points, so that at most `maxGroups` are left. */
export function mergeAdjacent(points: readonly Point[], maxGroups: number): readonly Point[] {
  const groups = new Map<number, Point>();
  const size = Math.ceil(points.length / maxGroups);
  for (const [index, point] of points.entries()) addTo(groups, Math.floor(index / size), point);
  return [...groups.values()];
}

function toPoint(entry: PageEntry): Point {
  const { timing, bytes, reports, failedAttempts = 0, waitedSeconds = 0 } = entry;
  const loggedAt = epochMsOf(entry.loggedAt);
  const latency = Math.round(timing?.latencyMs ?? 0);
  // The clocks of two machines may differ, which can result in a negative duration.
  const transfer = timing === null ? 0 : Math.max(0, loggedAt - epochMsOf(timing.requestedAt) - latency);
  return {
    loggedAt,
    pages: 1,
    timedPages: timing === null ? 0 : 1,
    latency,
    maxLatency: latency,
    transfer,
    bytes,
    maxBytes: bytes,
    reports: reports ?? 0,
    failedAttempts,
    waited: waitedSeconds * 1_000,
  };
}

function addTo(points: Map<number, Point>, key: number, added: Point): void {
  const point = points.get(key);
  points.set(key, point === undefined ? added : merge(point, added));
}

const merge = (one: Point, other: Point): Point => ({
  loggedAt: Math.max(one.loggedAt, other.loggedAt),
  pages: one.pages + other.pages,
  timedPages: one.timedPages + other.timedPages,
  latency: one.latency + other.latency,
  maxLatency: Math.max(one.maxLatency, other.maxLatency),
  transfer: one.transfer + other.transfer,
  bytes: one.bytes + other.bytes,
  maxBytes: Math.max(one.maxBytes, other.maxBytes),
  reports: one.reports + other.reports,
  failedAttempts: one.failedAttempts + other.failedAttempts,
  waited: one.waited + other.waited,
});
