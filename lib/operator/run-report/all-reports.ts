/** Writes a page per run, and an index of all of them, into one folder. One run is in memory at a time. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ExportError } from '../../core/errors.ts';
import type { RunId } from '../../core/model.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import { createDirectory, describeFileSystemError } from '../../local/durable-fs.ts';
import { type ExportTarget, type Target, type UnreadableExport, unreadableExport } from '../../target/target.ts';
import { noteOf, scheduleText } from '../output/status-table.ts';
import { categoryOf, readStatuses, type RunStatus, sortStatuses, type StatusEntry } from '../run-status.ts';
import { type ListedRun, type Origin, renderPage } from './render-page.ts';
import { lastActivityOf, readRunData } from './run-data.ts';

export interface AllReportsOptions {
  readonly origin: Origin;
  readonly directory: string;
  /** Of each export, the newest ones. */
  readonly maxRuns: number;
  /** Called with the size of each page that is read. */
  readonly onPage: (bytes: number) => void;
  readonly signal: AbortSignal;
}

export interface WrittenExport {
  readonly export: string;
  readonly runs: number;
  /** Runs without a page; null stands for all of the export. */
  readonly unreadable: readonly { readonly run: RunId | null; readonly error: UnreadableExport['error'] }[];
}

export const indexFile = 'index.html';
export const runFile = ({ export: name, run }: Pick<RunStatus, 'export' | 'run'>): string => `${name}-${run}.html`;

/**
 * Writes the index last: after an interruption, the one before still leads to pages that exist. A run or an export that cannot be read
 * is a result, not an exception.
 * @throws ConfigurationError if there is no such export, or the directory cannot be written
 */
export async function writeAllReports(
  deployment: Target,
  exportName: string | undefined,
  options: AllReportsOptions,
): Promise<readonly WrittenExport[]> {
  const { origin, directory, maxRuns, signal } = options;
  const now = epochMsOf(origin.createdAt);
  const opened = exportName === undefined ? await deployment.openAll() : [await deployment.open(exportName)];
  writing(directory, () => createDirectory(directory));
  const runsOf = new Map<StatusEntry, readonly ListedRun[]>();
  for (const [index, entry] of (await readStatuses(opened, maxRuns, now)).entries()) {
    const deployed = opened[index] as ExportTarget;
    runsOf.set(entry, 'error' in entry ? [] : await writeRuns(deployed, entry.runs, options));
  }
  const exports = sortStatuses([...runsOf.keys()]).map((entry) => ({
    name: entry.export,
    state: categoryOf(entry),
    facts: factsOf(entry, now),
    runs: runsOf.get(entry) ?? [],
  }));
  signal.throwIfAborted();
  writePage(join(directory, indexFile), renderPage({ ...origin, exports }));
  return [...runsOf].map(([entry, runs]) => ({
    export: entry.export,
    runs: runs.length,
    unreadable: [
      ...('error' in entry ? [{ run: null, error: entry.error }] : []),
      ...runs.flatMap(({ run, page }) => ('error' in page ? [{ run, error: page.error }] : [])),
    ],
  }));
}

async function writeRuns(
  deployed: ExportTarget,
  statuses: readonly RunStatus[] = [],
  { origin, directory, onPage, signal }: AllReportsOptions,
): Promise<readonly ListedRun[]> {
  const { name, log } = deployed;
  const state = await log.exportState(name);
  const runs: ListedRun[] = [];
  for (const status of statuses) {
    const file = runFile(status);
    const run = await readRunData(deployed, state, status, origin.createdAt, onPage).catch((cause: unknown) =>
      unreadableExport(name, null, cause),
    );
    signal.throwIfAborted();
    const isReadable = !('error' in run);
    if (isReadable) writePage(join(directory, file), renderPage({ ...origin, run, index: indexFile }));
    const lastActiveAt = lastActivityOf(status, origin.createdAt);
    runs.push({ ...status, lastActiveAt, page: isReadable ? { file } : { error: run.error } });
  }
  return runs;
}

function factsOf(entry: StatusEntry, now: number): readonly string[] {
  const note = noteOf(entry, now);
  if ('error' in entry) return [note];
  const { completedAt, watermark, schedule } = entry;
  return [
    completedAt === null ? 'never completed' : `completed ${completedAt}`,
    `watermark ${watermark ?? 'none'}`,
    `schedule ${scheduleText(schedule)}`,
    ...(note === '' ? [] : [note]),
  ];
}

/** @throws ConfigurationError if the file cannot be written */
export const writePage = (file: string, html: string): void => writing(file, () => writeFileSync(file, html));

function writing(path: string, write: () => void): void {
  try {
    write();
  } catch (cause) {
    const message = `--to: cannot write ${path}: ${describeFileSystemError(cause)}`;
    throw new ExportError('ConfigurationError', message, { cause });
  }
}
