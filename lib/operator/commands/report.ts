/** `report-exporter report`: writes an HTML file that shows how a run went. */

import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { ExportError } from '../../core/errors.ts';
import { parseRunId } from '../../core/storage/keys.ts';
import { instantOf } from '../../core/timestamps.ts';
import { describeFileSystemError } from '../../local/durable-fs.ts';
import { type Call, exitStatuses, openExport, runOnTarget } from '../context.ts';
import type { Options } from '../option-table.ts';
import { createPageCounter } from '../output/progress.ts';
import { renderPage } from '../run-report/render-page.ts';
import { readRunData } from '../run-report/run-data.ts';
import { findRun, noRunError, readExport, type RunView } from '../run-view.ts';
import type { ExportTarget } from '../target.ts';

export async function reportCommand(call: Call): Promise<number> {
  const { names, options, stdout, stderr, runtime } = call;
  return await runOnTarget(call, async (target) => {
    const opened = await openExport(target, names[0]);
    const view = await selectRun(opened, options, runtime.now());
    const { add: onPage, end } = createPageCounter(stderr, 'Read', runtime.now);
    const run = await readRunData(opened, view, onPage).finally(end);
    const origin = { deployment: target.name, deploymentOption: target.option, createdAt: instantOf(runtime.now()) };
    const file = resolve(options.to ?? `${opened.name}-${view.run}.html`);
    writePage(file, renderPage({ ...origin, run }));
    const written = { status: 'ok', export: opened.name, run: view.run, file };
    stdout.write(options.json === true ? `${JSON.stringify(written)}\n` : `${file}\n`);
    return exitStatuses.ok;
  });
}

/** The run that is named, or else the newest regular one. @throws ConfigurationError if there is none */
async function selectRun(target: ExportTarget, { run: runId }: Options, now: number): Promise<RunView> {
  if (runId === undefined) {
    const newest = (await readExport(target, 1, now)).runs?.[0];
    if (newest === undefined) throw await noRunError(target, 'to report on');
    return newest;
  }
  const view = await findRun(target, parseRunId(runId));
  if (view !== undefined) return view;
  const message = `Export ${target.name} has no run ${runId}. The status command lists its runs`;
  throw new ExportError('ConfigurationError', message);
}

function writePage(file: string, page: string): void {
  try {
    writeFileSync(file, page);
  } catch (cause) {
    const message = `--to: cannot write ${file}: ${describeFileSystemError(cause)}`;
    throw new ExportError('ConfigurationError', message, { cause });
  }
}
