/** The status of an export and of its runs, as the status and report commands show it. */

import { isExportError } from '../core/errors.ts';
import { reportsStatus, type ReportsStatus } from '../core/expected-reports.ts';
import {
  type ExportState,
  type Instant,
  type PageEntry,
  type Run,
  type RunId,
  type RunTotals,
  totalsOf,
} from '../core/model.ts';
import type { RunRef } from '../core/ports.ts';
import { manifestKey, runFolder, runLocation, startOf } from '../core/storage/keys.ts';
import { findManifest, findSummary } from '../core/storage/published-runs.ts';
import type { ManifestHeader } from '../core/storage/published-schemas.ts';
import { type BackfillStatus, readBackfillStatus } from '../backfill/backfill.ts';
import type { DeployedExport, Incident, NextStart } from '../target/target.ts';

/**
 * `running`: an execution is working on the run. `failed`, `stopped`: none is, and the next start resumes it.
 * `completed`: it is published. `empty`: it found no reports and is not published, because publishEmptyRuns is false.
 * `damaged`: it was published, but its manifest is missing or was changed. `abandoned`: it never will be published.
 */
export type RunState = 'running' | 'failed' | 'stopped' | 'completed' | 'empty' | 'damaged' | 'abandoned';

export interface RunStatus {
  readonly export: string;
  readonly run: RunId;
  readonly state: RunState;
  /** null if it is no longer known, as for an abandoned run. */
  readonly since: Instant | null;
  /** Set for a run of a window. */
  readonly until?: Instant | undefined;
  readonly startedAt: Instant;
  readonly completedAt: Instant | null;
  /** The service's clock at the request for the first page; null if it is not known, as for an unpublished run. */
  readonly serviceStartedAt: Instant | null;
  /** When it was completed, or the next run began after it was abandoned; null if it has not ended or this is unknown. */
  readonly endedAt: Instant | null;
  /** When its newest page was logged; null if it has none. */
  readonly lastPageAt: Instant | null;
  readonly pages: number;
  readonly reports: number | null;
  readonly bytes: number;
  /** The key of the run's folder. */
  readonly folder: string;
  /** The key of its manifest; null if the run is not published. */
  readonly manifest: string | null;
  /** The newest incident of a run that has not ended, or of the newest run if it was abandoned. */
  readonly lastIncident: Incident | null;
}

export interface ExportStatus extends ReportsStatus {
  readonly export: string;
  readonly watermark: Instant | null;
  /** When the newest completed run was completed. */
  readonly completedAt: Instant | null;
  readonly next: NextStart;
  /** The newest backfill; null if there is none. */
  readonly backfill: BackfillStatus | null;
  /** Newest first. */
  readonly runs: readonly RunStatus[];
}

/** The export with its newest runs, at most `maxRuns`. */
export async function readExportStatus(deployed: DeployedExport, maxRuns: number, now: number): Promise<ExportStatus> {
  const state = await deployed.log.exportState(deployed.name);
  const runs: RunStatus[] = [];
  for await (const run of listRuns(deployed, state)) {
    runs.push(run);
    if (runs.length >= maxRuns) break;
  }
  return {
    export: deployed.name,
    watermark: state?.watermark?.instant ?? null,
    completedAt: state?.lastCompleted?.completedAt ?? null,
    ...reportsStatus(deployed.definition, state, now),
    next: await deployed.nextStart(),
    backfill: (await readBackfillStatus(deployed, deployed.name)) ?? null,
    runs,
  };
}

/** The runs of the export that the page log still has, newest first, without those of windows. */
export async function* listRuns(deployed: DeployedExport, state: ExportState | undefined): AsyncGenerator<RunStatus> {
  const active = state?.active;
  let nextStartedAt: Instant | null = null;
  if (active !== undefined) {
    yield await activeRunStatus(deployed, active);
    nextStartedAt = active.startedAt;
  }
  for await (const last of deployed.log.runs(deployed.name)) {
    if (last.run === active?.run || last.until !== undefined) continue;
    const run = await pastRunStatus(deployed, state, last, nextStartedAt);
    // The newest run may have been abandoned because it failed permanently: then the operator wants to know why.
    const mayHaveFailed = nextStartedAt === null && run.state === 'abandoned';
    yield mayHaveFailed
      ? { ...run, lastIncident: (await deployed.lastIncident({ ...run, completedAt: undefined })) ?? null }
      : run;
    nextStartedAt = run.startedAt;
  }
}

/** One run of the export; undefined if the page log does not have it. */
export async function findRunStatus(
  deployed: DeployedExport,
  state: ExportState | undefined,
  run: RunId,
): Promise<RunStatus | undefined> {
  if (state?.active?.run === run) return await activeRunStatus(deployed, state.active);
  const last = await deployed.log.last({ export: deployed.name, run });
  if (last === undefined) return undefined;
  if (last.until !== undefined) return await windowRunStatus(deployed, last);
  const past = await pastRunStatus(deployed, state, last, null);
  return past.endedAt === null ? { ...past, endedAt: await nextRunStartedAt(deployed, state, run) } : past;
}

async function windowRunStatus(deployed: DeployedExport, last: PageEntry): Promise<RunStatus> {
  for await (const state of deployed.log.windowStates(deployed.name)) {
    if (state.active?.run === last.run) return await activeRunStatus(deployed, state.active);
    if (state.lastCompleted?.result.run === last.run) return await pastRunStatus(deployed, state, last, null);
  }
  return await pastRunStatus(deployed, undefined, last, null);
}

/** When the run after `run` began; null if there is none. */
async function nextRunStartedAt(
  { log, name }: DeployedExport,
  state: ExportState | undefined,
  run: RunId,
): Promise<Instant | null> {
  let nextStartedAt = state?.active?.startedAt ?? null;
  for await (const last of log.runs(name)) {
    if (last.run === run) break;
    if (last.run !== state?.active?.run && last.until === undefined) nextStartedAt = startOf(last.run);
  }
  return nextStartedAt;
}

async function activeRunStatus(deployed: DeployedExport, run: Run): Promise<RunStatus> {
  const { log, executions } = deployed;
  const [last, isRunning] = await Promise.all([log.last(run), executions.isRunning(run.execution)]);
  return {
    export: run.export,
    run: run.run,
    state: isRunning ? 'running' : run.lastFailure === undefined ? 'stopped' : 'failed',
    since: run.since,
    ...(run.until === undefined ? {} : { until: run.until }),
    startedAt: run.startedAt,
    completedAt: null,
    serviceStartedAt: null,
    endedAt: null,
    ...totalsOf(last),
    lastPageAt: last?.loggedAt ?? null,
    folder: runFolder(run),
    manifest: null,
    lastIncident: (await deployed.lastIncident(run)) ?? recordedFailure(run),
  };
}

/** The failure in the export state, for a run whose incidents are no longer recorded. */
function recordedFailure({ lastFailure }: Run): Incident | null {
  return lastFailure === undefined ? null : { kind: 'failed-run', page: null, ...lastFailure };
}

/** Whether no execution will continue the run, and it moved the watermark. */
export const isComplete = ({ state }: Pick<RunStatus, 'state'>): boolean =>
  state === 'completed' || state === 'empty' || state === 'damaged';

/**
 * What a run without a manifest is: `damaged` if it was published; `empty` if it found no reports and was not, because of
 * publishEmptyRuns. Only of the newest run is that recorded; others were published if they have a summary.
 */
export async function stateWithoutManifest(
  { store, definition }: Pick<DeployedExport, 'store' | 'definition'>,
  run: RunRef,
  { last, lastCompleted }: { readonly last: PageEntry | undefined } & Pick<ExportState, 'lastCompleted'>,
): Promise<'damaged' | 'empty' | 'abandoned'> {
  if (lastCompleted?.result.run === run.run) return lastCompleted.result.manifest === null ? 'empty' : 'damaged';
  // A run that has more pages was never published.
  if (last !== undefined && last.nextCursor !== null) return 'abandoned';
  if ((await findSummary(store, run)) !== undefined) return 'damaged';
  return last?.totals.reports === 0 && !definition.publishEmptyRuns ? 'empty' : 'abandoned';
}

async function pastRunStatus(
  deployed: DeployedExport,
  exportState: ExportState | undefined,
  last: PageEntry,
  nextStartedAt: Instant | null,
): Promise<RunStatus> {
  const { store } = deployed;
  const { lastCompleted } = exportState ?? {};
  const location = runLocation(last.export, last.run);
  const manifest = manifestKey(location);
  const header = await readManifestHeader(store, manifest);
  const state =
    header === undefined
      ? await stateWithoutManifest(deployed, last, { last, lastCompleted })
      : header === 'unreadable'
        ? 'damaged'
        : 'completed';
  // The summary repeats the manifest.
  const found = state === 'damaged' ? await findSummary(store, last) : header;
  const published = found === 'unreadable' ? undefined : found;
  const isEmpty = state === 'empty';
  const emptyResult = isEmpty && lastCompleted?.result.run === last.run ? lastCompleted : undefined;
  const completedAt = published?.completedAt ?? emptyResult?.completedAt ?? null;
  // The entries of an old log expire in any order, and `last` may be one of the first pages.
  const { pages, reports, bytes } = published ?? totalsOf(last);
  return {
    export: last.export,
    run: last.run,
    state,
    since: published?.since ?? emptyResult?.result.since ?? null,
    ...(last.until === undefined ? {} : { until: last.until }),
    startedAt: published?.startedAt ?? startOf(last.run),
    completedAt,
    serviceStartedAt: published?.serviceStartedAt ?? (isEmpty && last.page === 1 ? last.serviceTime : null),
    endedAt: completedAt ?? (isEmpty ? last.loggedAt : nextStartedAt),
    pages,
    reports,
    bytes,
    lastPageAt: last.loggedAt,
    folder: runFolder(location),
    manifest: state === 'completed' || state === 'damaged' ? manifest : null,
    lastIncident: null,
  };
}

/** Reads the header only. A changed manifest is `unreadable`; the verify command reports why. */
async function readManifestHeader(
  store: DeployedExport['store'],
  manifest: string,
): Promise<(ManifestHeader & RunTotals) | 'unreadable' | undefined> {
  try {
    const found = await findManifest(store, manifest);
    if (found === undefined) return undefined;
    for await (const _ of found.pages) break;
    return { ...found.header, ...found.header.totals };
  } catch (error) {
    if (isExportError(error, 'PageConflictError')) return 'unreadable';
    throw error;
  }
}
