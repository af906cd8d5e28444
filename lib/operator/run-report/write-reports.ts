/** Writes the page of a run; or into a folder a page per run, and an index. One run is in memory at a time. */

import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { ExportError } from '../../core/errors.ts';
import { parseRunId } from '../../core/storage/keys.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import { createDirectory, describeFileSystemError } from '../../local/durable-fs.ts';
import { type ExportTarget, type Target, unreadableExport } from '../target.ts';
import { noteOf, scheduleText } from '../output/status-table.ts';
import {
  categoryOf,
  findRun,
  noRunError,
  readExport,
  readExports,
  type RunView,
  sortExports,
  type ViewedExport,
} from '../run-view.ts';
import { type ListedExport, type ListedRun, type Origin, type PageData, renderPage } from './render-page.ts';
import { readRunData } from './run-data.ts';

const indexFile = 'index.html';
const runFile = ({ export: name, run }: RunView): string => `${name}-${run}.html`;

export interface ReportOptions {
  readonly origin: Origin;
  /** Called with the size of each page that is read. */
  readonly onPage: (bytes: number) => void;
}

/** The run that is named, or else the newest regular one. @throws ConfigurationError if there is none */
export async function writeReport(
  target: ExportTarget,
  { run: runId, to }: { readonly run?: string; readonly to?: string },
  { origin, onPage }: ReportOptions,
) {
  const { name } = target;
  const view =
    runId === undefined
      ? (await readExport(target, 1, epochMsOf(origin.createdAt))).runs?.[0]
      : await findRun(target, parseRunId(runId));
  if (view === undefined) {
    if (runId === undefined) throw await noRunError(target, 'to report on');
    const message = `Export ${name} has no run ${runId}. The status command lists its runs`;
    throw new ExportError('ConfigurationError', message);
  }
  const file = resolve(to ?? runFile(view));
  writePage(file, { ...origin, run: await readRunData(target, view, onPage) });
  return { export: name, run: view.run, file };
}

export interface AllReportsOptions extends ReportOptions {
  readonly directory: string;
  /** How many of the newest runs of each export. */
  readonly maxRuns: number;
  readonly signal: AbortSignal;
}

/**
 * Writes a page per run, one after the other, and the index last: after an interruption, the one before still leads to
 * pages that exist. A run or an export that cannot be read is a result, not an exception. The exports that need
 * attention come first.
 */
export async function writeAllReports(
  target: Target,
  exportName: string | undefined,
  { origin, directory, maxRuns, onPage, signal }: AllReportsOptions,
) {
  const now = epochMsOf(origin.createdAt);
  const opened = exportName === undefined ? await target.openAll() : [await target.open(exportName)];
  writing(directory, () => createDirectory(directory));
  const targets = new Map(opened.flatMap((each) => ('error' in each ? [] : [[each.name, each]])));
  const listed: ListedExport[] = [];
  const exports = [];
  for (const view of sortExports(await readExports(opened, maxRuns, now))) {
    const { export: name } = view;
    const runs: ListedRun[] = [];
    for (const run of 'error' in view ? [] : (view.runs ?? [])) {
      const data = await readRunData(targets.get(name) as ExportTarget, run, onPage).catch((error: unknown) =>
        unreadableExport(name, null, error),
      );
      signal.throwIfAborted();
      if ('error' in data) runs.push({ ...run, page: { error: data.error } });
      else {
        const file = runFile(run);
        writePage(join(directory, file), { ...origin, run: data, index: indexFile });
        runs.push({ ...run, page: { file } });
      }
    }
    listed.push({ name, state: categoryOf(view), facts: factsOf(view, now), runs });
    /** The runs without a page; null is all of the export. */
    const unreadable = runs.flatMap(({ run, page }) => ('error' in page ? [{ run, error: page.error }] : []));
    exports.push({
      export: name,
      runs: runs.length,
      unreadable: 'error' in view ? [{ run: null, error: view.error }] : unreadable,
    });
  }
  const file = join(directory, indexFile);
  writePage(file, { ...origin, exports: listed });
  return { file, exports };
}

function factsOf(view: ViewedExport, now: number): readonly string[] {
  const note = noteOf(view, now);
  if ('error' in view) return [note];
  const { completedAt, watermark, schedule } = view;
  return [
    completedAt === null ? 'never completed' : `completed ${completedAt}`,
    `watermark ${watermark ?? 'none'}`,
    `schedule ${scheduleText(schedule)}`,
    ...(note === '' ? [] : [note]),
  ];
}

const writePage = (file: string, data: PageData): void => writing(file, () => writeFileSync(file, renderPage(data)));

/** @throws ConfigurationError if it cannot be written */
function writing(path: string, write: () => void): void {
  try {
    write();
  } catch (cause) {
    const message = `--to: cannot write ${path}: ${describeFileSystemError(cause)}`;
    throw new ExportError('ConfigurationError', message, { cause });
  }
}
