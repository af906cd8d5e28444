/** Writes the page of a run. */

import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { ExportError } from '../../core/errors.ts';
import { parseRunId } from '../../core/storage/keys.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import { describeFileSystemError } from '../../local/durable-fs.ts';
import type { ExportTarget } from '../target.ts';
import { findRun, noRunError, readExport } from '../run-view.ts';
import { type Origin, renderPage } from './render-page.ts';
import { readRunData } from './run-data.ts';

interface ReportOptions {
  readonly origin: Origin;
  /** Called with the size of each page that is read. */
  readonly onPage: (bytes: number) => void;
}

/**
 * Writes the page of the run that is named, or else of the newest regular one.
 * @throws ConfigurationError if there is none, or the file cannot be written
 */
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
  const file = resolve(to ?? `${name}-${view.run}.html`);
  const page = renderPage({ ...origin, run: await readRunData(target, view, onPage) });
  try {
    writeFileSync(file, page);
  } catch (cause) {
    const message = `--to: cannot write ${file}: ${describeFileSystemError(cause)}`;
    throw new ExportError('ConfigurationError', message, { cause });
  }
  return { export: name, run: view.run, file };
}
