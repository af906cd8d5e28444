/** `report-exporter report`: writes the run report, one HTML file that shows how a run went. */

import { writeFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import open from 'open';
import { systemRuntime } from '../../core/clock.ts';
import { ExportError } from '../../core/errors.ts';
import type { ExportState, JsonObject, PageEntry } from '../../core/model.ts';
import type { DeployedExport } from '../../core/operations/deployment.ts';
import { findRunStatus, listRuns, type RunStatus } from '../../core/operations/run-status.ts';
import { parseRunId } from '../../core/storage/keys.ts';
import { filterSince } from '../../core/settings/filter.ts';
import { findManifest } from '../../core/storage/published-runs.ts';
import { instantOf } from '../../core/timestamps.ts';
import { type CommandContext, exitStatuses, openExport, runOnDeployment, type TargetOptions } from '../context.ts';
import { createPageCounter } from '../output/progress.ts';
import { collectRunReportData, type RunFacts } from '../run-report/data.ts';
import { renderRunReport } from '../run-report/run-report.ts';

export interface ReportOptions extends TargetOptions {
  readonly run?: string;
  readonly open?: boolean;
  /** The file to write. */
  readonly to?: string;
}

/** Writes the file and prints its path. */
export async function reportCommand(
  exportName: string | undefined,
  options: ReportOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  const { stdout, stderr } = context;
  return await runOnDeployment(options, usageErrors, context, async (deployment) => {
    const deployed = await openExport(deployment, exportName);
    const { name, log } = deployed;
    const state = await log.exportState(name);
    const status = await readRunStatus(deployed, state, options.run);
    const facts = await readRunFacts(deployed, state, status);
    const counter = createPageCounter(stderr, 'Read', systemRuntime.now);
    const entries: typeof log.entries = (run) => counted(log.entries(run), counter.add);
    const origin = {
      deployment: deployment.name,
      deploymentOption: deployment.option,
      createdAt: instantOf(systemRuntime.now()),
    };
    const html = renderRunReport(await collectRunReportData({ ...deployed, log: { ...log, entries } }, facts, origin));
    counter.end();
    const file = resolve(options.to ?? `${name}-${status.run}.html`);
    await writeReport(file, html);
    const json = { status: 'ok', export: name, run: status.run, file };
    stdout.write(options.json === true ? `${JSON.stringify(json)}\n` : `${file}\n`);
    if (options.open === true) await open(file);
    return exitStatuses.ok;
  });
}

/** The run `runId`, or the newest one. @throws ConfigurationError if there is none */
async function readRunStatus(
  deployed: DeployedExport,
  state: ExportState | undefined,
  runId: string | undefined,
): Promise<RunStatus> {
  if (runId !== undefined) {
    const status = await findRunStatus(deployed, state, parseRunId(runId));
    if (status !== undefined) return status;
    throw new ExportError(
      'ConfigurationError',
      `Export ${deployed.name} has no run ${runId}. The status command lists its runs`,
    );
  }
  for await (const newest of listRuns(deployed, state)) return newest;
  throw new ExportError('ConfigurationError', `Export ${deployed.name} has no run to report on yet`);
}

async function readRunFacts(
  deployed: DeployedExport,
  exportState: ExportState | undefined,
  status: RunStatus,
): Promise<RunFacts> {
  const { store, name } = deployed;
  const { run, state, since, startedAt, completedAt, endedAt, manifest, folder, pages, reports, bytes } = status;
  const active = exportState?.active?.run === run ? exportState.active : undefined;
  const published = manifest === null ? undefined : await findManifest(store, manifest);
  // Only the header is needed; leaving the loop closes the file.
  if (published !== undefined) for await (const _ of published.pages) break;
  const request =
    active === undefined
      ? published?.header
      : { ...active.request, filter: filterSince(active.request.filter, active.since) };
  const lastResult = exportState?.lastCompleted?.result;
  return {
    export: name,
    run,
    state,
    since,
    watermark: lastResult?.run === run ? lastResult.watermark : null,
    startedAt,
    completedAt,
    abandonedAt: state === 'abandoned' ? endedAt : null,
    manifest: manifest === null ? null : store.locate(manifest),
    folder: store.locate(folder),
    source: request?.source ?? null,
    filter: (request?.filter as JsonObject | undefined) ?? null,
    format: request?.format ?? null,
    container: request?.container ?? null,
    size: request?.size ?? null,
    // Reading the schedule needs a permission of its own.
    next: await deployed.nextStart().catch(() => null),
    sincePolicy: deployed.definition.since,
    totals: { pages, reports, bytes },
    failure: active?.lastFailure ?? null,
  };
}

async function* counted(entries: AsyncIterable<PageEntry>, add: (bytes: number) => void): AsyncGenerator<PageEntry> {
  for await (const entry of entries) {
    add(entry.bytes);
    yield entry;
  }
}

async function writeReport(file: string, html: string): Promise<void> {
  try {
    await writeFile(file, html);
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
    const reason =
      code === 'ENOENT'
        ? `the directory ${dirname(file)} does not exist. Create it, or choose another file`
        : code === 'EISDIR'
          ? `${file} is a directory. Add the name of a file`
          : message;
    throw new ExportError('ConfigurationError', `--to: cannot write the report: ${reason}`, { cause });
  }
}
