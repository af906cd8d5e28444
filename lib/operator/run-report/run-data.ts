/** Collects what the page about a run shows. It contains no secrets, because its sources contain none. */

import { createHistogram } from 'node:perf_hooks';
import { filterOf } from '../../core/filter.ts';
import type { ExportState, Instant } from '../../core/model.ts';
import { findManifest } from '../../core/storage/published-runs.ts';
import { epochMsOf, instantOf } from '../../core/timestamps.ts';
import type { ExportTarget } from '../../target/target.ts';
import { findLoggedSlices, type RunStatus } from '../run-status.ts';
import { measures, mergeAdjacent, PageSeries, type Point } from './page-series.ts';

/** Its size is bounded, however many pages the run has. */
export interface RunData extends RunStatus {
  /** When the run was completed or last active; for a running run, the present. */
  readonly lastActiveAt: Instant;
  /** The export's watermark after this run, if it is the newest completed one; otherwise null. */
  readonly watermark: Instant | null;
  /** null if it is no longer stored. Its filter includes the lower bound of the date. */
  readonly request: RequestData | null;
  /** Milliseconds from a request to the response headers, to 0.1%. null if no page has times. */
  readonly latency: { readonly median: number; readonly p95: number; readonly max: number } | null;
  readonly points: Columns;
  /** The same pages in few points, for a table. */
  readonly groups: Columns;
}

interface RequestData {
  readonly service: string;
  /** As JSON. */
  readonly filter: string;
  readonly format: string;
  readonly container: string;
  /** Reports per page; null for the service's default. */
  readonly size: number | null;
}

/** The form that the charts take, and half the size of a list of objects. */
export type Columns = Readonly<Record<keyof Point, readonly number[]>>;

const maxGroups = 12;

/**
 * Reads the page log once, in bounded memory. Calls `onPage` with the size of each page.
 * @throws ExportError if the log cannot be read or an entry is corrupt
 */
export async function readRunData(
  deployed: ExportTarget,
  state: ExportState | undefined,
  status: RunStatus,
  now: Instant,
  onPage: (bytes: number) => void,
): Promise<RunData> {
  const { log, store } = deployed;
  const series = new PageSeries();
  const latencies = createHistogram({ figures: 3 });
  for (const chain of await findLoggedSlices(log, status)) {
    for await (const entry of log.entries(chain)) {
      series.add(entry);
      if (entry.timing !== null) latencies.record(Math.max(1, Math.round(entry.timing.latencyMs)));
      onPage(entry.bytes);
    }
  }
  const points = series.points();
  const completed = state?.lastCompleted?.result.run === status.run ? state.lastCompleted.result : undefined;
  return {
    ...status,
    since: status.since ?? completed?.since ?? null,
    lastActiveAt: lastActivityOf(status, now),
    watermark: completed?.watermark ?? null,
    folder: store.locate(status.folder),
    manifest: status.manifest && store.locate(status.manifest),
    request: await findRequest(deployed, state, status),
    latency:
      latencies.count === 0
        ? null
        : { median: latencies.percentile(50), p95: latencies.percentile(95), max: latencies.max },
    points: columnsOf(points),
    groups: columnsOf(mergeAdjacent(points, maxGroups)),
  };
}

/** Of an unfinished run from its state, of a published one from its manifest, unless that is damaged. */
async function findRequest(
  { store }: ExportTarget,
  state: ExportState | undefined,
  { run, state: runState, manifest }: RunStatus,
): Promise<RequestData | null> {
  const active = state?.active?.run === run ? state.active : undefined;
  const published = manifest !== null && runState === 'completed' ? await findManifest(store, manifest) : undefined;
  // Only the header is needed; leaving the loop closes the file.
  if (published !== undefined) for await (const _ of published.pages) break;
  const request = active?.request ?? published?.header;
  if (request === undefined) return null;
  const { source: service, format, container, size = null } = request;
  const filter = active === undefined ? request.filter : filterOf(active.request, active.since);
  return { service, filter: JSON.stringify(filter), format, container, size };
}

/** When the run was completed or last active; for a running run, `now`. */
export function lastActivityOf(status: RunStatus, now: Instant): Instant {
  const { state, startedAt, completedAt, lastPageAt, lastIncident } = status;
  if (completedAt !== null) return completedAt;
  if (state === 'running') return now;
  const known = [startedAt, lastPageAt, lastIncident?.at].filter((instant) => typeof instant === 'string');
  return instantOf(Math.max(...known.map(epochMsOf)));
}

const columnsOf = (points: readonly Point[]): Columns =>
  Object.fromEntries(measures.map((measure) => [measure, points.map((point) => point[measure])])) as unknown as Columns;
