/** `report-exporter report`: one file that shows how a run went, to open, to keep, or to send to somebody. */

import { writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import open from 'open';
import { systemRuntime } from '../../core/clock.ts';
import { ExportError } from '../../core/errors.ts';
import { asRunId, type ExportState, type JsonObject } from '../../core/model.ts';
import type { DeployedExport, Deployment } from '../../core/operations/deployment.ts';
import { type RunStatus, findRunStatus, listRuns } from '../../core/operations/run-status.ts';
import { manifestKeyFromRunId } from '../../core/storage/keys.ts';
import { findManifest } from '../../core/storage/published-runs.ts';
import { instantOf } from '../../core/timestamps.ts';
import { type CommandContext, exitStatuses, openExport, operate, type PlaceOptions } from '../context.ts';
import { collectRunReport } from '../run-report/collect.ts';
import type { ReportedRun } from '../run-report/data.ts';
import { runReportHtml } from '../run-report/page.ts';

export interface ReportOptions extends PlaceOptions {
  readonly run?: string;
  readonly open?: boolean;
  /** The file to write. */
  readonly to?: string;
}

/** Writes the file, and says where it is. */
export async function reportCommand(
  exportName: string | undefined,
  options: ReportOptions,
  problems: readonly string[],
  world: CommandContext,
): Promise<number> {
  return await operate(options, problems, world, async (installation) => {
    const installed = await openExport(installation, exportName);
    const run = await reportedRun(installed, await overviewFor(installed, options.run));
    const html = runReportHtml(await collectRunReport(installed, run, occasionAt(installation)));
    const file = resolve(options.to ?? `${installed.name}-${run.run}.html`);
    await write(file, html);
    if (options.json === true) {
      world.stdout.write(`${JSON.stringify({ status: 'ok', export: installed.name, run: run.run, file })}\n`);
    } else {
      world.stdout.write(`${file}\n`);
    }
    if (options.open === true) await open(file);
    return exitStatuses.ok;
  });
}

const occasionAt = ({ name, option }: Deployment) => ({
  place: name,
  option,
  madeAt: instantOf(systemRuntime.now()),
});

/** The run that was named, or the newest. */
async function overviewFor(installed: DeployedExport, named: string | undefined): Promise<RunStatus> {
  const { name, log } = installed;
  // An odd name is refused before anything is searched for it.
  if (named !== undefined) manifestKeyFromRunId(name, named);
  const head = await log.exportState(name);
  const found = await (named === undefined ? newestRun(installed, head) : findRunStatus(installed, head, asRunId(named)));
  if (found !== undefined) return found;
  throw new ExportError(
    'ConfigurationError',
    named === undefined
      ? `Export ${name} has made no run yet; there is nothing to report on`
      : `The page log knows no run ${named} of export ${name}; status lists those it knows`,
  );
}

async function newestRun(installed: DeployedExport, head: ExportState | undefined): Promise<RunStatus | undefined> {
  for await (const run of listRuns(installed, head)) return run;
  return undefined;
}

async function reportedRun({ log, store, name }: DeployedExport, overview: RunStatus): Promise<ReportedRun> {
  const { run, state, manifest, folder, pages, reports, bytes } = overview;
  const head = await log.exportState(name);
  const active = head?.active?.run === run ? head.active : undefined;
  const published = manifest === null ? undefined : await findManifest(store, manifest);
  if (published !== undefined) for await (const _ of published.pages) break;
  const request = active?.request ?? published?.head;
  const completed = head?.lastCompleted?.result;
  return {
    export: name,
    run,
    state,
    since: overview.since,
    watermark: completed?.run === run ? completed.watermark : null,
    startedAt: overview.startedAt,
    completedAt: overview.completedAt,
    givenUpAt: state === 'abandoned' ? overview.endedAt : null,
    manifest: manifest === null ? null : store.locate(manifest),
    folder: store.locate(folder),
    filter: (request?.filter as JsonObject | undefined) ?? null,
    format: request?.format ?? null,
    container: request?.container ?? null,
    size: request?.size ?? null,
    totals: { pages, reports, bytes },
    failure: active?.lastFailure ?? null,
  };
}

async function write(file: string, html: string): Promise<void> {
  try {
    await writeFile(file, html);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new ExportError('ConfigurationError', `--to: the report cannot be written: ${why}`, { cause });
  }
}
