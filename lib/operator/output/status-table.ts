/** The status of exports: as a table for a person, and as tab-separated values for a shell. */

import type { Incident, NextStart } from '../../target/target.ts';
import type { ExportStatus, RunState, RunStatus } from '../run-status.ts';
import { truncate } from '../../core/sanitize.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import { backfillLines } from './backfill-table.ts';
import { bytes, coarseDuration, relativeTime } from './format.ts';
import { type Cell, type TextStyle, tableLines } from './terminal.ts';

export type ExportStatusJson = ExportStatus | UnreadableExport;

/** An export whose state cannot be read, and why. */
interface UnreadableExport {
  readonly export: string;
  readonly error: { readonly name: string; readonly message: string };
}

interface TableOptions {
  readonly now: number;
  readonly style: TextStyle;
  /** `npx report-exporter` and `--out ./exports`: for the commands that the table suggests. */
  readonly program: string;
  readonly option: string;
}

const maxErrorLength = 300;

/** For a terminal: each export in one line, a table of its runs, and what to do about a run that stopped. */
export function statusLines(statuses: readonly ExportStatusJson[], options: TableOptions): string[] {
  if (statuses.length === 0) return ['No exports yet.'];
  return statuses
    .flatMap((status, index) => [
      ...(index === 0 ? [] : ['']),
      ...('error' in status ? unreadableLines(status, options) : exportLines(status, options)),
    ])
    .map((line) => line.trimEnd());
}

function unreadableLines({ export: name, error }: UnreadableExport, { style }: TableOptions): string[] {
  return [`${style('bold', name)}  ${style('red', 'state cannot be read')}`, `  ${error.name}: ${error.message}`];
}

function exportLines(status: ExportStatus, options: TableOptions): string[] {
  const { now, style, program, option } = options;
  const { export: name, runs, watermark, completedAt, next } = status;
  const facts = [
    completedAt === null ? 'never completed' : `completed ${relativeTime(epochMsOf(completedAt), now)}`,
    `watermark ${watermark ?? 'none'}`,
    describeNextStart(next, now),
  ];
  const title = `${style('bold', name)}  ${facts.join(' · ')}`;
  const warnings = status.reportsOverdue ? [`  ${style('yellow', overdueReports(status, now))}`] : [];
  const backfill = status.backfill === null ? [] : backfillLines(status.backfill, style);
  const [newest] = runs;
  if (newest === undefined)
    return [title, ...warnings, ...backfill, '  no runs yet', `  → ${program} start ${name} ${option}`];
  const heading = ['RUN', 'STATE', 'PAGES', 'REPORTS', 'BYTES', 'SINCE', 'STARTED', 'TOOK'].map((text, column) => ({
    text,
    style: 'dim' as const,
    alignRight: column >= 2 && column <= 4,
  }));
  const table = tableLines([heading, ...runs.map((run) => runCells(run, now))], style);
  return [
    title,
    ...warnings,
    ...backfill,
    ...table.map((line) => `  ${line}`),
    ...newestRunLines(newest, options),
    ...damagedRunLines(runs, options),
  ];
}

function overdueReports({ lastReportsAt, reportsEverySeconds }: ExportStatus, now: number): string {
  const agoMs = lastReportsAt === null ? 0 : now - epochMsOf(lastReportsAt);
  const every = coarseDuration((reportsEverySeconds ?? 0) * 1_000);
  return `no completed run has had reports for ${coarseDuration(agoMs)}; expected within ${every} (expect.reportsEvery)`;
}

function describeNextStart(next: NextStart, now: number): string {
  switch (next.kind) {
    case 'scheduled':
      return `next run ${next.approximate ? 'about ' : ''}${next.at} (${relativeTime(epochMsOf(next.at), now)})`;
    case 'disabled':
      return 'schedule disabled';
    case 'manual':
      return 'no schedule';
  }
}

const stateStyles: Readonly<Record<RunState, Cell['style']>> = {
  running: 'cyan',
  failed: 'red',
  stopped: 'yellow',
  completed: 'green',
  empty: 'green',
  damaged: 'red',
  abandoned: 'dim',
};

function runCells(run: RunStatus, now: number): readonly Cell[] {
  const startedAt = epochMsOf(run.startedAt);
  const endedAt = run.completedAt === null ? (run.state === 'running' ? now : undefined) : epochMsOf(run.completedAt);
  return [
    { text: run.run },
    { text: run.state, style: stateStyles[run.state] },
    { text: run.pages.toLocaleString('en'), alignRight: true },
    { text: run.reports === null ? '–' : run.reports.toLocaleString('en'), alignRight: true },
    { text: bytes(run.bytes), alignRight: true },
    { text: run.since ?? '–' },
    { text: relativeTime(startedAt, now) },
    { text: endedAt === undefined ? '–' : coarseDuration(endedAt - startedAt) },
  ];
}

/** Only the newest run of an export can be unfinished. */
function newestRunLines({ export: name, state, lastIncident, lastPageAt }: RunStatus, options: TableOptions): string[] {
  const { now, style, program, option } = options;
  const lines: string[] = [];
  if (state === 'running' && lastPageAt !== null) lines.push(`  last page ${relativeTime(epochMsOf(lastPageAt), now)}`);
  if (lastIncident !== null && state !== 'completed') {
    const label = style('yellow', lastIncident.kind === 'wait' ? 'last wait' : 'last error');
    const when = relativeTime(epochMsOf(lastIncident.at), now);
    lines.push(`  ${label} ${when}: ${truncate(describeIncident(lastIncident), maxErrorLength)}`);
  }
  if (state === 'failed' || state === 'stopped') {
    lines.push(`  → to resume: ${program} start ${name} ${option}`);
  }
  return lines;
}

function damagedRunLines(runs: readonly RunStatus[], { program, option }: TableOptions): string[] {
  return runs
    .filter(({ state }) => state === 'damaged')
    .map(
      ({ export: name, run }) =>
        `  → published, but its manifest is missing or was changed: ${program} verify ${name} --run ${run} ${option}`,
    );
}

function describeIncident(incident: Incident): string {
  return incident.kind === 'wait'
    ? `the service sent Retry-After: ${incident.seconds} s`
    : `${incident.error}: ${incident.message.replaceAll(/\s+/g, ' ')}`;
}

const columns = [
  'export',
  'run',
  'state',
  'pages',
  'reports',
  'bytes',
  'since',
  'watermark',
  'started',
  'completed',
  'completed_age_s',
  'next',
  'reports_overdue',
  'last_error',
] as const;

/**
 * For a shell: a heading, then for each export one line about the export itself, whose `run` is empty, and one line per run.
 * `watermark`, `completed_age_s`, `next` and `reports_overdue` belong to the export, so they are empty in the lines of its runs. An
 * unknown value is empty.
 */
export function statusValues(statuses: readonly ExportStatusJson[], now: number): string[] {
  const lines = statuses.flatMap((status) =>
    'error' in status
      ? [
          valueLine({
            export: status.export,
            state: 'unreadable',
            last_error: `${status.error.name}: ${status.error.message}`,
          }),
        ]
      : [exportValueLine(status, now), ...status.runs.map(runValueLine)],
  );
  return [columns.join('\t'), ...lines];
}

function exportValueLine(status: ExportStatus, now: number): string {
  const { export: name, watermark, completedAt, next, reportsOverdue } = status;
  return valueLine({
    export: name,
    completed: completedAt,
    watermark,
    completed_age_s: completedAt === null ? null : Math.floor((now - epochMsOf(completedAt)) / 1_000),
    next: next.kind === 'scheduled' ? next.at : next.kind,
    reports_overdue: reportsOverdue,
  });
}

function runValueLine(status: RunStatus): string {
  const { export: name, run, state, pages, reports, bytes, since, startedAt, completedAt, lastIncident } = status;
  return valueLine({
    export: name,
    run,
    state,
    pages,
    reports,
    bytes,
    since,
    started: startedAt,
    completed: completedAt,
    last_error: lastIncident === null ? null : describeIncident(lastIncident),
  });
}

function valueLine(values: Partial<Record<(typeof columns)[number], string | number | boolean | null>>): string {
  return columns.map((column) => String(values[column] ?? '').replaceAll(/\s+/g, ' ')).join('\t');
}
