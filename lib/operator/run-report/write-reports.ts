/** Writes the page of a run; or into one folder a page per run, and an index of all of them. One run is in memory at a time. */

import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { ExportError } from '../../core/errors.ts';
import { parseRunId } from '../../core/storage/keys.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import { createDirectory, describeFileSystemError } from '../../local/durable-fs.ts';
import { type ExportTarget, type Target, unreadableExport } from '../../target/target.ts';
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
import { type ListedExport, type ListedRun, type Origin, renderPage } from './render-page.ts';
import { readRunData } from './run-data.ts';

const indexFile = 'index.html';
const runFile = ({ export: name, run }: RunView): string => `${name}-${run}.html`;

/** The run that is named, or else the newest regular one. @throws ConfigurationError if there is none */
export async function writeReport(
  target: ExportTarget,
  { run: runId, to }: { readonly run?: string; readonly to?: string },
  { origin, onPage }: Pick<AllReportsOptions, 'origin' | 'onPage'>,
) {
  const { name } = target;
  const view =
    runId === undefined
      ? (await readExport(target, 1, epochMsOf(origin.createdAt))).runs?.[0]
      : await findRun(target, parseRunId(runId));
  if (view === undefined) {
    if (runId === undefined) throw noRunError(name, 'to report on');
    const message = `Export ${name} has no run ${runId}. The status command lists its runs`;
    throw new ExportError('ConfigurationError', message);
  }
  const file = resolve(to ?? runFile(view));
  writePage(file, renderPage({ ...origin, run: await readRunData(target, view, onPage) }));
  return { export: name, run: view.run, file };
}

export interface AllReportsOptions {
  readonly origin: Origin;
  readonly directory: string;
  /** Of each export, the newest ones. */
  readonly maxRuns: number;
  /** Called with the size of each page that is read. */
  readonly onPage: (bytes: number) => void;
  readonly signal: AbortSignal;
}

/**
 * Writes a page per run, one after the other, and the index last: after an interruption, the one before still leads to pages that exist.
 * A run or an export that cannot be read is a result, not an exception. The exports that need attention come first.
 */
export async function writeAllReports(target: Target, exportName: string | undefined, options: AllReportsOptions) {
  const { origin, directory, maxRuns, signal } = options;
  const now = epochMsOf(origin.createdAt);
  const opened = exportName === undefined ? await target.openAll() : [await target.open(exportName)];
  writing(directory, () => createDirectory(directory));
  const targets = new Map(opened.map((each) => ['error' in each ? each.export : each.name, each]));
  const listed: ListedExport[] = [];
  const exports = [];
  for (const view of sortExports(await readExports(opened, maxRuns, now))) {
    const runs: ListedRun[] = [];
    for (const run of 'error' in view ? [] : (view.runs ?? [])) {
      const page = await writeRun(targets.get(view.export) as ExportTarget, run, options);
      runs.push({ ...run, page });
      signal.throwIfAborted();
    }
    listed.push({ name: view.export, state: categoryOf(view), facts: factsOf(view, now), runs });
    const unreadable = runs.flatMap(({ run, page }) => ('error' in page ? [{ run, error: page.error }] : []));
    exports.push({
      export: view.export,
      runs: runs.length,
      /** The runs without a page; null stands for all of the export. */
      unreadable: 'error' in view ? [{ run: null, error: view.error }] : unreadable,
    });
  }
  const file = join(directory, indexFile);
  writePage(file, renderPage({ ...origin, exports: listed }));
  return { file, exports };
}

async function writeRun(
  target: ExportTarget,
  view: RunView,
  { origin, directory, onPage, signal }: AllReportsOptions,
): Promise<ListedRun['page']> {
  const file = runFile(view);
  const run = await readRunData(target, view, onPage).catch((error: unknown) =>
    unreadableExport(target.name, null, error),
  );
  signal.throwIfAborted();
  if ('error' in run) return { error: run.error };
  writePage(join(directory, file), renderPage({ ...origin, run, index: indexFile }));
  return { file };
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

const writePage = (file: string, html: string): void => writing(file, () => writeFileSync(file, html));

/** @throws ConfigurationError if it cannot be written */
function writing(path: string, write: () => void): void {
  try {
    write();
  } catch (cause) {
    const message = `--to: cannot write ${path}: ${describeFileSystemError(cause)}`;
    throw new ExportError('ConfigurationError', message, { cause });
  }
}
