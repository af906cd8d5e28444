/** The data of the page about a run, as JSON: the run, and its pages over time. Its sources contain no secrets. */

import { createHistogram } from 'node:perf_hooks';
import { type LogEntry, type PageEntry, refOf } from '../../core/model.ts';
import { entriesOfAny } from '../../core/run-progress.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import type { ExportTarget } from '../target.ts';
import { readStates, type RunView, stateOfRun } from '../run-view.ts';

/** Its size is bounded, however many pages the run has. */
export type RunData = Awaited<ReturnType<typeof readRunData>>;

/** The pages of a point: sums, or the highest value. Times are in milliseconds. */
const measures = {
  /** When the last of the pages was logged, since the epoch. */
  loggedAt: 'max',
  pages: 'sum',
  /** Pages with times. An adopted page has none, because another attempt fetched it. */
  timedPages: 'sum',
  /** From the request to the response headers. */
  latency: 'sum',
  maxLatency: 'max',
  /** From the response headers to the log entry. */
  transfer: 'sum',
  bytes: 'sum',
  maxBytes: 'max',
  reports: 'sum',
  /** Failed attempts before the pages. */
  failedAttempts: 'sum',
  /** Waits before the pages, because the service responded with Retry-After. */
  waited: 'sum',
} as const;
const names = Object.keys(measures) as readonly (keyof Point)[];
export type Point = Record<keyof typeof measures, number>;

/** The form that the charts take, and half the size of a list of objects. */
export type Columns = Readonly<Record<keyof Point, readonly number[]>>;

/** No more points than a chart has pixels. */
const maxPoints = 2_000;

/**
 * Reads the page log once, in bounded memory. Calls `onPage` with the size of each page.
 * @throws ExportError if the log cannot be read or an entry is corrupt
 */
export async function readRunData(target: ExportTarget, view: RunView, onPage: (bytes: number) => void) {
  const { store } = target;
  const latencies = createHistogram({ figures: 3 });
  // Pages that were logged within the same interval share a point. The slices come one after the other, so not in order
  // of time.
  let series = new Map<number, Point>();
  let intervalMs = 1;
  for await (const entry of loggedEntries(target, view)) {
    if (entry.kind === 'end') continue;
    addTo(series, Math.floor(epochMsOf(entry.loggedAt) / intervalMs), toPoint(entry));
    while (series.size > maxPoints) {
      intervalMs *= 2;
      const finer = series;
      series = new Map();
      for (const point of finer.values()) addTo(series, Math.floor(point.loggedAt / intervalMs), point);
    }
    if (entry.timing !== null) latencies.record(Math.max(1, Math.round(entry.timing.latencyMs)));
    onPage(entry.bytes);
  }
  const points = [...series.values()].sort((one, other) => one.loggedAt - other.loggedAt);
  return {
    ...view,
    folder: store.locate(view.folder),
    manifest: view.manifest && store.locate(view.manifest),
    /** Milliseconds from a request to the response headers, to 0.1%. null if no page has times. */
    latency:
      latencies.count === 0
        ? null
        : { median: latencies.percentile(50), p95: latencies.percentile(95), max: latencies.max },
    points: Object.fromEntries(names.map((name) => [name, points.map((point) => point[name])])) as unknown as Columns,
  };
}

/** The entries of the newest attempt of each slice. That of an unfinished run may have no entry yet. */
async function* loggedEntries(target: ExportTarget, view: RunView): AsyncGenerator<LogEntry> {
  const { active } = stateOfRun(await readStates(target), view.run) ?? {};
  yield* entriesOfAny(target.log, active?.run === view.run ? active : refOf(view));
}

function toPoint(entry: PageEntry): Point {
  const { timing, bytes, reports, failedAttempts = 0, waitedSeconds = 0 } = entry;
  const loggedAt = epochMsOf(entry.loggedAt);
  const latency = Math.round(timing?.latencyMs ?? 0);
  return {
    loggedAt,
    pages: 1,
    timedPages: timing === null ? 0 : 1,
    latency,
    maxLatency: latency,
    // The clocks of two machines may differ, which can result in a negative duration.
    transfer: timing === null ? 0 : Math.max(0, loggedAt - epochMsOf(timing.requestedAt) - latency),
    bytes,
    maxBytes: bytes,
    reports: reports ?? 0,
    failedAttempts,
    waited: waitedSeconds * 1_000,
  };
}

/** Adds `added` to the point at `key`, which becomes `added` if there is none. */
function addTo(points: Map<number, Point>, key: number, added: Point): void {
  const point = points.get(key);
  if (point === undefined) points.set(key, added);
  else {
    for (const name of names) {
      point[name] = measures[name] === 'max' ? Math.max(point[name], added[name]) : point[name] + added[name];
    }
  }
}
