/**
 * The data of a run report, collected from the page log. Its size is bounded, however many pages the run has. It contains no secrets, because its sources contain none.
 */

import { filterOf } from '../../core/filter.ts';
import {
  type ExportDefinition,
  type ExportRequest,
  type ExportState,
  type Instant,
  type JsonObject,
  type PageEntry,
  type RunFailure,
  type RunTotals,
  sumTotals,
  totalsOf,
} from '../../core/model.ts';
import { findManifest } from '../../core/storage/published-runs.ts';
import { epochMsOf, instantOf } from '../../core/timestamps.ts';
import type { DeployedExport, ScheduleState } from '../../target/target.ts';
import { findLoggedSlices, type RunStatus } from '../run-status.ts';
import type { Origin } from './page.ts';
import { createPageSeries, type PageSeries, type SeriesEntry } from './page-series.ts';

export interface RunReportData extends PageSeries {
  readonly run: RunFacts;
  readonly origin: Origin;
  readonly totals: RunTotals;
  /** The last activity; for a running run, the time at which the run report was created. */
  readonly endedAt: Instant;
  readonly firstPage: string | null;
  readonly lastPage: string | null;
}

/** What is known about the run as a whole. Values that are no longer stored are null. */
export interface RunFacts extends Pick<
  RunStatus,
  | 'export'
  | 'run'
  | 'state'
  | 'since'
  | 'until'
  | 'bounded'
  | 'slices'
  | 'startedAt'
  | 'completedAt'
  | 'endedAt'
  | 'lastIncident'
> {
  /** The export's watermark after this run, if it is the newest completed one; otherwise null. */
  readonly watermark: Instant | null;
  /** Paths or `s3://` addresses of the manifest and of the page folder. */
  readonly manifest: string | null;
  readonly folder: string;
  /** Its filter includes the lower bound of the date. */
  readonly request: (Omit<ExportRequest, 'size' | 'api'> & { readonly size?: number | null | undefined }) | null;
  /** null if it cannot be read. */
  readonly schedule: ScheduleState | null;
  /** How the next run's `since` is chosen. */
  readonly sincePolicy: ExportDefinition['since'];
  /** Used if the page log no longer contains the run. */
  readonly totals: RunTotals;
}

/** Why the run failed or was interrupted; null if it was not, or this is not known. */
export const failureOf = ({ lastIncident }: Pick<RunFacts, 'lastIncident'>): RunFailure | null =>
  lastIncident?.kind === 'failed-run' ? lastIncident : null;

/**
 * Reads the page log once, in bounded memory; of a run with several slices, with some 100 bytes a page. Calls `onPage` with the size of each page in the log.
 * @throws PageConflictError if the manifest of the run was changed; ExportError if the log cannot be read or an entry is corrupt
 */
export async function readRunReportData(
  deployed: DeployedExport,
  state: ExportState | undefined,
  status: RunStatus,
  origin: Origin,
  onPage: (bytes: number) => void,
): Promise<RunReportData> {
  return await collectRunReportData(deployed, await readRunFacts(deployed, state, status), origin, onPage);
}

async function readRunFacts(
  deployed: DeployedExport,
  exportState: ExportState | undefined,
  status: RunStatus,
): Promise<RunFacts> {
  const { store, definition } = deployed;
  const { run, manifest, folder, pages, reports, bytes } = status;
  const active = exportState?.active?.run === run ? exportState.active : undefined;
  const published = manifest === null ? undefined : await findManifest(store, manifest);
  // Only the header is needed; leaving the loop closes the file.
  if (published !== undefined) for await (const _ of published.pages) break;
  const lastCompleted = exportState?.lastCompleted?.result;
  const completed = lastCompleted?.run === run ? lastCompleted : undefined;
  return {
    ...status,
    since: status.since ?? completed?.since ?? null,
    watermark: completed?.watermark ?? null,
    manifest: manifest === null ? null : store.locate(manifest),
    folder: store.locate(folder),
    request:
      active === undefined
        ? published === undefined
          ? null
          : { ...published.header, filter: published.header.filter as JsonObject }
        : { ...active.request, filter: filterOf(active.request, active.since) },
    schedule: await findSchedule(deployed),
    sincePolicy: definition.since,
    totals: { pages, reports, bytes },
  };
}

/** Reading the schedule needs a permission of its own. */
export const findSchedule = (deployed: DeployedExport): Promise<ScheduleState | null> =>
  deployed.readSchedule().catch(() => null);

export async function collectRunReportData(
  { log, store }: Pick<DeployedExport, 'log' | 'store'>,
  run: RunFacts,
  origin: Origin,
  onPage: (bytes: number) => void = () => {},
): Promise<RunReportData> {
  const pages = createPageSeries(run.startedAt);
  const sorted: SeriesEntry[] = [];
  const lastPages: PageEntry[] = [];
  let first: PageEntry | undefined;
  for (const chain of await findLoggedSlices(log, run)) {
    let last: PageEntry | undefined;
    let previousLoggedAt: Instant | null = null;
    for await (const entry of log.entries(chain)) {
      first ??= entry;
      last = entry;
      if (entry.slice === undefined) pages.add(entry);
      else {
        const { page, slice, loggedAt, timing, bytes, reports, failedAttempts, waitedSeconds } = entry;
        const delays = { failedAttempts, waitedSeconds };
        sorted.push({ page, slice, loggedAt, timing, bytes, reports, previousLoggedAt, ...delays });
      }
      previousLoggedAt = entry.loggedAt;
      onPage(entry.bytes);
    }
    if (last !== undefined) lastPages.push(last);
  }
  sorted.sort((one, other) => epochMsOf(one.loggedAt) - epochMsOf(other.loggedAt));
  for (const [index, entry] of sorted.entries()) pages.add({ ...entry, page: index + 1 });
  const last = lastPages.at(-1);
  return {
    run,
    origin,
    ...pages.series(),
    totals: last === undefined ? run.totals : sumTotals(lastPages.map(totalsOf)),
    endedAt: lastActivity(run, origin.createdAt, [...lastPages.map(({ loggedAt }) => loggedAt), run.lastIncident?.at]),
    firstPage: first === undefined ? null : store.locate(first.key),
    lastPage: last === undefined ? null : store.locate(last.key),
  };
}

/** When the run completed; if it runs, the present; otherwise the newest of `activities`. */
export function lastActivity(
  { completedAt, state, startedAt }: Pick<RunStatus, 'completedAt' | 'state' | 'startedAt'>,
  now: Instant,
  activities: readonly (Instant | null | undefined)[],
): Instant {
  if (completedAt !== null) return completedAt;
  if (state === 'running') return now;
  const known = activities.filter((instant) => instant !== null && instant !== undefined);
  return instantOf(Math.max(...[startedAt, ...known].map(epochMsOf)));
}
