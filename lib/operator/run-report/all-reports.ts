/**
 * Writes the reports of all runs: a page per run, an index per export and, for a whole deployment, an overview. Links are relative,
 * so that the folder can be moved or served from anywhere. One run is in memory at a time.
 */

import type { ExportState, RunId } from '../../core/model.ts';
import type { DeployedExport, Deployment, ScheduleState } from '../../target/target.ts';
import { readStatuses } from '../run-status.ts';
import { createPageCounter } from '../output/progress.ts';
import type { Terminal } from '../output/terminal.ts';
import { findSchedule, readRunReportData } from './data.ts';
import { type OverviewRow, renderExportIndex, renderOverview, renderUnreadableRun } from './list-pages.ts';
import { type Html, html } from './markup.ts';
import type { Origin } from './page.ts';
import { type ReportFolder, writeReportFolder } from './report-files.ts';
import { type ReadError, readRunHistory, toReadError } from './run-history.ts';
import { renderRunReport } from './run-report.ts';

export interface AllReportsOptions {
  readonly deployment: Deployment;
  /** undefined: all exports, each in a folder of its own. */
  readonly exportName: string | undefined;
  readonly origin: Origin;
  readonly directory: string;
  /** Of each export, the newest ones. */
  readonly maxRuns: number;
  /** For progress. */
  readonly stderr: Terminal;
  readonly signal: AbortSignal;
  readonly now: () => number;
}

/** What was written of an export. */
export type WrittenExport =
  | {
      readonly export: string;
      readonly runs: number;
      readonly gaps: number;
      /** A run of which the page only says why it cannot be read, or null for runs that cannot be listed. */
      readonly unreadable: readonly { readonly run: RunId | null; readonly error: ReadError }[];
    }
  | { readonly export: string; readonly error: ReadError };

/**
 * A run or an export that cannot be read is a result, not an exception.
 * @throws ConfigurationError if there is no such export, or the directory cannot be written
 */
export async function writeAllReports(options: AllReportsOptions): Promise<readonly WrittenExport[]> {
  const { exportName, directory, signal } = options;
  if (exportName === undefined) {
    return await writeReportFolder(directory, signal, (folder) => addAllExports(folder, options));
  }
  const read = await readExport(exportName, options);
  return await writeReportFolder(directory, signal, async (folder) => [await addExport(read, folder, [], options)]);
}

async function addAllExports(folder: ReportFolder, options: AllReportsOptions): Promise<WrittenExport[]> {
  const written: WrittenExport[] = [];
  const rows: OverviewRow[] = [];
  const overview = html`<a href="../index.html">All exports</a>`;
  for (const entry of await readStatuses(options.deployment, options.now())) {
    const { export: name, service } = entry;
    const read = await settled(() => readExport(name, options), options);
    if ('error' in read) {
      written.push({ export: name, error: read.error });
      rows.push({ entry: 'error' in entry ? entry : { export: name, service, error: read.error }, index: null });
      continue;
    }
    const subfolder: ReportFolder = { add: (path, page) => folder.add(`${name}/${path}`, page) };
    const added = await addExport(read.value, subfolder, [overview], options);
    written.push(added);
    rows.push({ entry, index: { address: `${name}/index.html`, ...added, unreadable: added.unreadable.length } });
  }
  await folder.add('index.html', renderOverview(rows, options.origin));
  return written;
}

/** The result, or the error that an operation on stored data ends with. An interruption is thrown. */
async function settled<Value>(
  operation: () => Promise<Value>,
  { signal }: AllReportsOptions,
): Promise<{ readonly value: Value } | { readonly error: ReadError }> {
  try {
    return { value: await operation() };
  } catch (error) {
    signal.throwIfAborted();
    return { error: toReadError(error) };
  }
}

interface ReadExport {
  readonly deployed: DeployedExport;
  readonly state: ExportState | undefined;
  readonly history: Awaited<ReturnType<typeof readRunHistory>>;
  readonly schedule: ScheduleState | null;
}

async function readExport(name: string, { deployment, origin, maxRuns }: AllReportsOptions): Promise<ReadExport> {
  const deployed = await deployment.open(name);
  const state = await deployed.log.exportState(name);
  const history = await readRunHistory(deployed, state, maxRuns, origin.createdAt);
  return { deployed, state, history, schedule: await findSchedule(deployed) };
}

const addressOf = (run: RunId): string => `${run}.html`;

async function addExport(
  { deployed, state, history, schedule }: ReadExport,
  folder: ReportFolder,
  indexLinks: readonly Html[],
  options: AllReportsOptions,
): Promise<Exclude<WrittenExport, { error: unknown }>> {
  const { origin, stderr, now } = options;
  const { name } = deployed;
  const { statuses } = history;
  const unreadable = new Map<RunId, ReadError>();
  for (const [index, status] of statuses.entries()) {
    const { run } = status;
    const counter = createPageCounter(stderr, `${name}, run ${index + 1} of ${statuses.length}: read`, now);
    const data = await settled(() => readRunReportData(deployed, state, status, origin, counter.add), options);
    counter.end();
    const links = linksOf(run, statuses[index + 1]?.run, statuses[index - 1]?.run);
    const page =
      'error' in data
        ? renderUnreadableRun({ ...status, error: data.error }, { links, origin })
        : renderRunReport(data.value, { links });
    await folder.add(addressOf(run), page);
    if ('error' in data) unreadable.set(run, data.error);
  }
  const index = {
    export: name,
    history,
    watermark: state?.watermark?.instant ?? null,
    completedAt: state?.lastCompleted?.completedAt ?? null,
    schedule,
    unreadable,
  };
  await folder.add('index.html', renderExportIndex(index, { addressOf, links: indexLinks, origin }));
  return {
    export: name,
    runs: statuses.length,
    gaps: history.gaps.length,
    unreadable: [
      ...[...unreadable].map(([run, error]) => ({ run, error })),
      ...(history.error === null ? [] : [{ run: null, error: history.error }]),
    ],
  };
}

/** The list shows the run among the others. */
function linksOf(run: RunId, older: RunId | undefined, newer: RunId | undefined): Html[] {
  return [
    html`<a href="index.html#${run}">All runs</a>`,
    ...(older === undefined ? [] : [html`<a href="${addressOf(older)}" rel="prev">← Older run</a>`]),
    ...(newer === undefined ? [] : [html`<a href="${addressOf(newer)}" rel="next">Newer run →</a>`]),
  ];
}
