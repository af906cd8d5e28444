/** What an operator sees of an export at a glance: where it stands, and how its recent runs went. */

import { dirname } from 'node:path/posix';
import { isExportError } from '../errors.ts';
import type { ExportState, Instant, PageEntry, Run, RunId } from '../model.ts';
import { manifestKey } from '../storage/keys.ts';
import { findManifest } from '../storage/published-runs.ts';
import type { ManifestHeader } from '../storage/published-schemas.ts';
import type { DeployedExport, Incident, NextStart } from './deployment.ts';

/**
 * `running`: an execution is at work on it. `failed`, `stopped`: none is, and the next start goes on with it.
 * `completed`: published. `abandoned`: never will be.
 */
export type RunState = 'running' | 'failed' | 'stopped' | 'completed' | 'abandoned';

export interface RunStatus {
  readonly export: string;
  readonly run: RunId;
  readonly state: RunState;
  /** null where nobody remembers: of a run that was given up. */
  readonly since: Instant | null;
  readonly startedAt: Instant;
  readonly completedAt: Instant | null;
  /** When it was completed, or given up for the run after it; null where it is not over, or nobody knows. */
  readonly endedAt: Instant | null;
  /** When its newest page was logged; null where it has none. */
  readonly lastPageAt: Instant | null;
  readonly pages: number;
  readonly reports: number | null;
  readonly bytes: number;
  /** Keys in the store. */
  readonly folder: string;
  readonly manifest: string | null;
  /** Of a run that is not over, or the newest one if it was given up: what held it up last. */
  readonly lastIncident: Incident | null;
}

export interface ExportStatus {
  readonly export: string;
  readonly watermark: Instant | null;
  /** When the newest completed run was. */
  readonly completedAt: Instant | null;
  readonly next: NextStart;
  /** The newest first. */
  readonly runs: readonly RunStatus[];
}

/** The export with its `most` newest runs. */
export async function readExportStatus(installed: DeployedExport, most: number): Promise<ExportStatus> {
  const head = await installed.log.exportState(installed.name);
  const runs: RunStatus[] = [];
  for await (const run of listRuns(installed, head)) {
    runs.push(run);
    if (runs.length >= most) break;
  }
  return {
    export: installed.name,
    watermark: head?.watermark?.instant ?? null,
    completedAt: await completedAt(installed, head, runs),
    next: await installed.nextStart(),
    runs,
  };
}

/** The runs of the export, the newest first, as far back as the page log remembers. */
export async function* listRuns(installed: DeployedExport, head: ExportState | undefined): AsyncGenerator<RunStatus> {
  const active = head?.active;
  let newer: Instant | null = null;
  if (active !== undefined) {
    yield await activeRun(installed, active);
    newer = active.startedAt;
  }
  for await (const last of installed.log.runs(installed.name)) {
    if (last.run === active?.run) continue;
    const run = await pastRun(installed, last, newer);
    // Where nothing came behind it, it may have failed for good, and the operator asks why.
    const mayHaveFailed = newer === null && run.state === 'abandoned';
    yield mayHaveFailed
      ? { ...run, lastIncident: (await installed.lastIncident({ ...run, completedAt: undefined })) ?? null }
      : run;
    newer = run.startedAt;
  }
}

/** One run of the export, however many came after it; undefined where the page log does not know it. */
export async function findRunStatus(
  installed: DeployedExport,
  head: ExportState | undefined,
  run: RunId,
): Promise<RunStatus | undefined> {
  if (head?.active?.run === run) return await activeRun(installed, head.active);
  const last = await installed.log.last({ export: installed.name, run });
  if (last === undefined) return undefined;
  const past = await pastRun(installed, last, null);
  return past.endedAt === null ? { ...past, endedAt: await startAfter(installed, head, run) } : past;
}

/** When the run after `run` began, as its name says. */
async function startAfter(
  { log, name }: DeployedExport,
  head: ExportState | undefined,
  run: RunId,
): Promise<Instant | null> {
  let newer = head?.active?.startedAt ?? null;
  for await (const each of log.runs(name)) {
    if (each.run === run) break;
    if (each.run !== head?.active?.run) newer = startOf(each.run);
  }
  return newer;
}

async function activeRun(installed: DeployedExport, run: Run): Promise<RunStatus> {
  const { log, executions } = installed;
  const [last, isRunning] = await Promise.all([log.last(run), executions.isRunning(run.execution)]);
  return {
    export: run.export,
    run: run.run,
    state: isRunning ? 'running' : run.lastFailure === undefined ? 'stopped' : 'failed',
    since: run.since,
    startedAt: run.startedAt,
    completedAt: null,
    endedAt: null,
    ...amountOf(last),
    folder: dirname(manifestKey(run)),
    manifest: null,
    lastIncident: (await installed.lastIncident(run)) ?? failureOf(run),
  };
}

/** As the head remembers it, where nothing else does. */
function failureOf({ lastFailure }: Run): Incident | null {
  return lastFailure === undefined ? null : { kind: 'failed-run', page: null, ...lastFailure };
}

async function pastRun({ store }: DeployedExport, last: PageEntry, newer: Instant | null): Promise<RunStatus> {
  const folder = dirname(last.key);
  const manifest = `${folder}/manifest.json`;
  const found = await manifestHead(() => findManifest(store, manifest));
  const head = found === 'unreadable' ? undefined : found;
  return {
    export: last.export,
    run: last.run,
    state: found === undefined ? 'abandoned' : 'completed',
    since: head?.since ?? null,
    startedAt: head?.startedAt ?? startOf(last.run),
    completedAt: head?.completedAt ?? null,
    endedAt: head?.completedAt ?? newer,
    ...amountOf(last),
    folder,
    manifest: found === undefined ? null : manifest,
    lastIncident: null,
  };
}

/** Its pages are not read, so its stream is let go. One that was edited is for `verify` to tell. */
async function manifestHead(
  find: () => ReturnType<typeof findManifest>,
): Promise<ManifestHeader | 'unreadable' | undefined> {
  try {
    const found = await find();
    if (found === undefined) return undefined;
    for await (const _ of found.pages) break;
    return found.head;
  } catch (error) {
    if (isExportError(error, 'PageConflictError')) return 'unreadable';
    throw error;
  }
}

/** A run is named by the second in which it began. */
function startOf(run: RunId): Instant {
  return run.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z-.*$/, '$1-$2-$3T$4:$5:$6Z') as Instant;
}

function amountOf(last: PageEntry | undefined) {
  return {
    pages: last?.page ?? 0,
    reports: last === undefined ? 0 : last.totals.reports,
    bytes: last?.totals.bytes ?? 0,
    lastPageAt: last?.loggedAt ?? null,
  };
}

async function completedAt(
  { store }: DeployedExport,
  head: ExportState | undefined,
  runs: readonly RunStatus[],
): Promise<Instant | null> {
  const result = head?.lastCompleted?.result;
  if (result === undefined) return null;
  const shown = runs.find(({ run }) => run === result.run);
  if (shown !== undefined) return shown.completedAt;
  const found = await manifestHead(() => findManifest(store, result.manifest));
  return found === undefined || found === 'unreadable' ? null : found.completedAt;
}
