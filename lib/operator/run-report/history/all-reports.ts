/**
 * Writes the reports of all runs: a page per run, an index per export and, for a whole deployment, an overview. Links are relative,
 * so that the folder can be moved or served from anywhere. One run is in memory at a time.
 */

import type { ExportState, PageEntry, RunId } from '../../../core/model.ts';
import type { DeployedExport, Deployment, NextStart } from '../../../target/target.ts';
import { readStatuses, type RunStatus } from '../../run-status.ts';
import { plural } from '../../output/format.ts';
import { createStatusLine } from '../../output/progress.ts';
import type { Terminal } from '../../output/terminal.ts';
import { collectRunReportData, type RunReportOrigin } from '../data.ts';
import { readRunFacts } from '../run-facts.ts';
import { renderRunReport, withReportData } from '../run-report.ts';
import type { RunNeighbors } from './history-section.ts';
import { type OverviewRow, renderExportIndex, renderOverview, renderUnreadableRun } from './index-page.ts';
import { type ReportFolder, writeReportFolder } from './report-folder.ts';
import {
  type HistoryRun,
  maxRecentRuns,
  type ReadError,
  readRunHistory,
  type RunHistory,
  toReadError,
} from './run-history.ts';

export interface AllReportsOptions {
  readonly deployment: Deployment;
  /** undefined: all exports, each in a folder of its own. */
  readonly exportName: string | undefined;
  readonly origin: RunReportOrigin;
  readonly directory: string;
  /** Of each export, the newest ones. */
  readonly maxRuns: number;
  readonly maxPagesOfIncidents: number;
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
  const progress = createProgress(options);
  try {
    if (exportName === undefined) {
      return await writeReportFolder(directory, signal, (folder) => addAllExports({ folder, progress }, options));
    }
    const read = await readExport(exportName, options);
    return await writeReportFolder(directory, signal, async (folder) => [
      await addExport(read, { folder, progress, prefix: '', overview: null }, options),
    ]);
  } finally {
    progress.end();
  }
}

async function addAllExports(
  target: Pick<Target, 'folder' | 'progress'>,
  options: AllReportsOptions,
): Promise<WrittenExport[]> {
  const written: WrittenExport[] = [];
  const rows: OverviewRow[] = [];
  for (const entry of await readStatuses(options.deployment, options.now())) {
    const { export: name, service } = entry;
    const read = await settled(() => readExport(name, options), options);
    if ('error' in read) {
      written.push({ export: name, error: read.error });
      rows.push({ entry: 'error' in entry ? entry : { export: name, service, error: read.error }, index: null });
      continue;
    }
    const folder = { ...target, prefix: `${name}/`, overview: '../index.html' };
    const added = await addExport(read.value, folder, options);
    written.push(added);
    rows.push({ entry, index: { address: `${name}/index.html`, ...added, unreadable: added.unreadable.length } });
  }
  await target.folder.add('index.html', renderOverview(rows, options.origin));
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

interface Target {
  readonly folder: ReportFolder;
  readonly progress: Progress;
  /** The path of the export's pages. */
  readonly prefix: string;
  /** The address of the page with all exports. */
  readonly overview: string | null;
}

interface ReadExport {
  readonly deployed: DeployedExport;
  readonly state: ExportState | undefined;
  readonly history: Awaited<ReturnType<typeof readRunHistory>>;
  readonly next: NextStart | null;
}

async function readExport(
  name: string,
  { deployment, origin, maxRuns, maxPagesOfIncidents }: AllReportsOptions,
): Promise<ReadExport> {
  const deployed = await deployment.open(name);
  const state = await deployed.log.exportState(name);
  const { createdAt } = origin;
  return {
    deployed,
    state,
    history: await readRunHistory(deployed, state, { maxRuns, createdAt, maxPagesOfIncidents }),
    // Reading the schedule needs a permission of its own.
    next: await deployed.nextStart().catch(() => null),
  };
}

const addressOfRun = (run: RunId): string => `${run}.html`;

async function addExport(
  { deployed, state, history, next }: ReadExport,
  { folder, prefix, overview, progress }: Target,
  options: AllReportsOptions,
): Promise<Exclude<WrittenExport, { error: unknown }>> {
  const { origin } = options;
  const { name } = deployed;
  const { statuses } = history;
  const unreadable = new Map<RunId, ReadError>();
  const runs: HistoryRun[] = [];
  for (const [index, status] of statuses.entries()) {
    progress.beginRun(name, index + 1, statuses.length);
    const counting = withCountedEntries(deployed, progress.addPage);
    const data = await settled(async () => {
      const facts = await readRunFacts(counting, state, status);
      return await collectRunReportData(counting, facts, origin);
    }, options);
    const neighbors = neighborsOf(statuses, index);
    const page =
      'error' in data
        ? renderUnreadableRun({ ...status, error: data.error }, neighbors, origin)
        : renderRunReport(data.value, { history: recentRuns(history, index), neighbors });
    await folder.add(`${prefix}${addressOfRun(status.run)}`, page);
    if ('error' in data) unreadable.set(status.run, data.error);
    runs.push(
      ...history.runs.slice(index, index + 1).map((run) => ('error' in data ? run : withReportData(run, data.value))),
    );
  }
  const index = {
    export: name,
    history: { ...history, runs },
    watermark: state?.watermark?.instant ?? null,
    completedAt: state?.lastCompleted?.completedAt ?? null,
    next,
    unreadable,
  };
  await folder.add(`${prefix}index.html`, renderExportIndex(index, { addressOf: addressOfRun, overview }, origin));
  return {
    export: name,
    runs: runs.length,
    gaps: history.gaps.length,
    unreadable: [
      ...[...unreadable].map(([run, error]) => ({ run, error })),
      ...(history.error === null ? [] : [{ run: null, error: history.error }]),
    ],
  };
}

function neighborsOf(statuses: readonly RunStatus[], index: number): RunNeighbors {
  const written = new Set(statuses.map(({ run }) => run));
  const [newer, older] = [statuses[index - 1], statuses[index + 1]];
  return {
    index: 'index.html',
    newer: newer === undefined ? null : addressOfRun(newer.run),
    older: older === undefined ? null : addressOfRun(older.run),
    addressOf: (run) => (written.has(run) ? addressOfRun(run) : undefined),
  };
}

/** The newest runs, or those around an older one. */
function recentRuns(history: RunHistory, index: number): RunHistory {
  const lastStart = Math.max(0, history.runs.length - maxRecentRuns);
  const start = index < maxRecentRuns ? 0 : Math.min(lastStart, index - maxRecentRuns / 2);
  const runs = history.runs.slice(start, start + maxRecentRuns);
  const listed = new Set(runs.map(({ run }) => run));
  return {
    ...history,
    runs,
    hasNewer: start > 0,
    hasOlder: history.hasOlder || start < lastStart,
    gaps: history.gaps.filter(({ before }) => listed.has(before)),
  };
}

/** Calls `add` with the size of each page that is read from the page log. */
export function withCountedEntries<Export extends Pick<DeployedExport, 'log'>>(
  deployed: Export,
  add: (bytes: number) => void,
): Export {
  const { log } = deployed;
  return { ...deployed, log: { ...log, entries: (run) => counted(log.entries(run), add) } };
}

async function* counted(entries: AsyncIterable<PageEntry>, add: (bytes: number) => void): AsyncGenerator<PageEntry> {
  for await (const entry of entries) {
    add(entry.bytes);
    yield entry;
  }
}

interface Progress {
  beginRun(exportName: string, run: number, runs: number): void;
  readonly addPage: () => void;
  end(): void;
}

/** On a terminal: `nightly: run 3 of 30 · 1,204 pages read`. Elsewhere it writes nothing. */
function createProgress({ stderr, now }: AllReportsOptions): Progress {
  const status = createStatusLine(stderr, now);
  let position = '';
  let pages = 0;
  const show = () => {
    if (stderr.isTTY === true) status.update(`${position} · ${plural(pages, 'page')} read`);
  };
  return {
    beginRun(exportName, run, runs) {
      position = `${exportName}: run ${run} of ${runs}`;
      show();
    },
    addPage() {
      pages += 1;
      show();
    },
    end: status.clear,
  };
}
