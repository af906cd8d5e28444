/** The status of exports: a line for each, or one of them with its newest runs. */

import { stripVTControlCharacters } from 'node:util';
import type { Incident, ScheduleState } from '../../target/target.ts';
import { toPrintable, truncate } from '../../core/sanitize.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import {
  type BoundedRun,
  type BoundedRuns,
  type Category,
  categories,
  categoryOf,
  type ExportStatus,
  needsAttention,
  type RunState,
  type RunStatus,
  type SlicesStatus,
  type StatusEntry,
} from '../run-status.ts';
import { type Column, countKinds, type ExportColumns, exportTable, rowsOf } from './export-table.ts';
import { bytes, coarseDuration, plural, relativeTime } from './format.ts';
import { type Cell, columnGap, columnWidths, ellipsize, type TextStyle, tableLines, wrapText } from './terminal.ts';

export interface StatusTableOptions {
  readonly now: number;
  readonly style: TextStyle;
  /** `npx report-exporter` and `--stack ReportExporter`: for the commands that the table suggests. */
  readonly program: string;
  readonly option: string;
  /** The width of the terminal. */
  readonly columns: number;
  /** How many lines fit on the screen. The last exports are left out. Absent: all. */
  readonly rows?: number | undefined;
  /** Of all exports, below the table. */
  readonly summary: string;
}

/** One export whose runs were read with these, or a line per export and a summary. */
export function statusLines(entries: readonly StatusEntry[], options: StatusTableOptions): string[] {
  const [only] = entries;
  if (only === undefined) return ['No exports yet.'];
  return 'runs' in only ? exportLines(only, only.runs, options) : overviewLines(entries, options);
}

function overviewLines(entries: readonly StatusEntry[], options: StatusTableOptions): string[] {
  const { style, program, option, columns, rows = Number.POSITIVE_INFINITY, summary } = options;
  const hint = entries.some(needsAttention)
    ? hintLines('for details', `${program} status <export> ${option}`, columns)
    : [];
  const hintRows = hint.reduce((sum, line) => sum + Math.ceil(line.length / columns), 0);
  // The heading, an empty line, the summary and the line on which the cursor stays.
  const maxLines = Math.max(1, rows - 4 - hintRows);
  const shown = entries.length > maxLines ? entries.slice(0, Math.max(1, maxLines - 1)) : entries;
  const more = entries.length - shown.length;
  return [
    ...exportTable(shown, columnsOf(shown), options),
    ...(more === 0 ? [] : [style('dim', `… and ${plural(more, 'more export')}`)]),
    '',
    ellipsize(summary, columns),
    ...hint.map((line) => style('dim', line)),
  ];
}

/** A command is never cut, so that it can be copied. On a narrow terminal it has its own line, which the terminal wraps. */
export function hintLines(purpose: string, command: string, columns: number): string[] {
  const line = `→ ${purpose}: ${command}`;
  return line.length <= columns ? [line] : [ellipsize(`→ ${purpose}:`, columns), command];
}

/** `100 exports: 2 failed, 1 stale, 5 running, 92 completed`. Each export counts once. */
export function summarizeStatuses(entries: readonly StatusEntry[]): string {
  const text = (category: Category) => (category === 'never' ? 'never completed' : category);
  return countKinds(entries.map(categoryOf).map(text), categories.map(text));
}

const stateStyles: Readonly<Record<Category | RunState, Cell['style']>> = {
  unreadable: 'red',
  damaged: 'red',
  failed: 'red',
  interrupted: 'yellow',
  stale: 'yellow',
  running: 'cyan',
  completed: 'green',
  empty: 'green',
  abandoned: 'dim',
  never: 'dim',
};

const stateCell = (state: Category | RunState) => ({ text: state, style: stateStyles[state] });

const reportsText = ({ reports }: Pick<RunStatus, 'reports'>): string => reports?.toLocaleString('en') ?? '–';

const readable =
  (text: (status: ExportStatus, now: number) => string): Column<StatusEntry>['cell'] =>
  (entry, now) => ({ text: 'error' in entry ? '' : text(entry, now) });

const exportColumns: readonly Column<StatusEntry>[] = [
  { heading: 'EXPORT', cell: (entry) => ({ text: entry.export, style: 'bold' }) },
  { heading: 'STATE', cell: (entry) => stateCell(categoryOf(entry)) },
  {
    heading: 'COMPLETED',
    cell: readable(({ completedAt }, now) =>
      completedAt === null ? 'never' : relativeTime(epochMsOf(completedAt), now),
    ),
  },
];
const serviceColumn: Column<StatusEntry> = { heading: 'SERVICE', cell: (entry) => ({ text: entry.service ?? '' }) };
/** Shown if there is space for them, the first ones first. */
const optionalColumns: readonly Column<StatusEntry>[] = [
  { heading: 'REPORTS', alignRight: true, cell: readable(reportsText) },
  { heading: 'BYTES', alignRight: true, cell: readable((entry) => bytes(entry.bytes)) },
  { heading: 'PAGES', alignRight: true, cell: readable(({ pages }) => pages.toLocaleString('en')) },
  { heading: 'SCHEDULE', cell: readable(({ schedule }) => scheduleText(schedule)) },
];

const runColumns: readonly Column<RunStatus>[] = [
  { heading: 'RUN', cell: ({ run }) => ({ text: run }) },
  { heading: 'STATE', cell: ({ state }) => stateCell(state) },
  { heading: 'PAGES', alignRight: true, cell: ({ pages }) => ({ text: pages.toLocaleString('en') }) },
  { heading: 'REPORTS', alignRight: true, cell: (run) => ({ text: reportsText(run) }) },
  { heading: 'BYTES', alignRight: true, cell: (run) => ({ text: bytes(run.bytes) }) },
  { heading: 'SINCE', cell: ({ since }) => ({ text: since ?? '–' }) },
  { heading: 'STARTED', cell: ({ startedAt }, now) => ({ text: relativeTime(epochMsOf(startedAt), now) }) },
  { heading: 'TOOK', cell: (run, now) => ({ text: tookText(run, now) }) },
];

function tookText({ state, startedAt, completedAt }: RunStatus, now: number): string {
  const endedMs = completedAt === null ? (state === 'running' ? now : undefined) : epochMsOf(completedAt);
  return endedMs === undefined ? '–' : coarseDuration(endedMs - epochMsOf(startedAt));
}

const columnsOf = (entries: readonly StatusEntry[]): ExportColumns<StatusEntry> => {
  const hasServices = new Set(entries.map(({ service }) => service)).size > 1;
  return {
    required: exportColumns,
    optional: [...(hasServices ? [serviceColumn] : []), ...optionalColumns],
    noteOf,
  };
};

/** Shows `cron(0 2 * * ? *) Europe/Berlin`. A rate has no time zone. */
export function scheduleText(schedule: ScheduleState): string {
  if (schedule.kind === 'manual')
    return schedule.awsSchedule === undefined ? '–' : `${schedule.awsSchedule} on AWS only`;
  const { kind, expression, timeZone } = schedule;
  const text = expression.startsWith('rate') ? expression : `${expression} ${timeZone}`;
  return kind === 'disabled' ? `${text} (disabled)` : text;
}

/** Why the export needs attention, or how far its run has come; and which of its bounded runs are unfinished. */
export function noteOf(entry: StatusEntry, now: number): string {
  if ('error' in entry) return errorText(entry.error.name, entry.error.message);
  const { state, stale, freshnessSeconds, reportsOverdue, reportsEverySeconds, startedAt, lastFailure, bounded } =
    entry;
  const started = startedAt === null ? '' : `, started ${relativeTime(epochMsOf(startedAt), now)}`;
  const place = `${placeText(entry)}${started}`;
  const hasFailed = state === 'failed' || state === 'interrupted';
  const { unfinished } = bounded;
  const states = unfinished.map((run) => run.state);
  return [
    state === 'failed' && lastFailure !== null ? errorText(lastFailure.error, lastFailure.message) : '',
    state === 'interrupted' ? `no execution is working on it: ${place}` : '',
    stale && !hasFailed ? `not completed for ${coarseDuration((freshnessSeconds ?? 0) * 1_000)}` : '',
    reportsOverdue && !hasFailed ? `no reports for ${coarseDuration((reportsEverySeconds ?? 0) * 1_000)}` : '',
    state === 'running' ? `running: ${place}` : '',
    ...[...new Set(states)].map((each) => {
      const count = states.filter((other) => other === each).length;
      return `${plural(count, 'bounded run')} ${each}`;
    }),
  ]
    .filter(Boolean)
    .join('; ');
}

/** How far a run has come. */
const placeText = ({ pages, slices }: Pick<ExportStatus, 'pages' | 'slices'>): string =>
  slices === null ? plural(pages, 'page') : `${slicesText(slices)}, ${plural(pages, 'page')}`;

const slicesText = ({ done, count }: SlicesStatus): string =>
  `${done.toLocaleString('en')} of ${plural(count, 'slice')}`;

/** On one line, whatever the service returned. */
export const errorText = (name: string, message: string): string => toPrintable(`${name}: ${message}`);

const maxErrorLength = 300;

/** An export, a table of its runs, its bounded runs, and what to do about a run that is unfinished. Only commands are longer than a line. */
function exportLines(status: ExportStatus, runs: readonly RunStatus[] = [], options: StatusTableOptions): string[] {
  const { now, style, program, option, columns } = options;
  const { export: name, watermark, completedAt, schedule, bounded } = status;
  const facts = [
    completedAt === null ? 'never completed' : `completed ${relativeTime(epochMsOf(completedAt), now)}`,
    `watermark ${watermark ?? 'none'}`,
    schedule.kind === 'manual' && schedule.awsSchedule === undefined
      ? 'no schedule'
      : `schedule ${scheduleText(schedule)}`,
  ];
  const [newest] = runs;
  const wrapped = (lines: readonly string[]) => lines.flatMap((line) => wrapText(line, columns, '    '));
  return [
    ...factLines(name, facts, options),
    ...wrapped(status.reportsOverdue ? [`  ${style('yellow', overdueReports(status, now))}`] : []),
    ...(newest === undefined
      ? ['  no runs yet', `  → ${program} start ${name} ${option}`]
      : [
          ...runTable(runs, { ...options, columns: columns - 2 }).map((line) => `  ${line}`),
          ...wrapped(newestRunLines(newest, options)),
          ...resumeLines(newest, options),
        ]),
    ...damagedRunLines(runs, options),
    ...boundedLines(name, bounded, options),
    ...wrapped(failedStartLines(status, options)),
  ].map((line) => line.trimEnd());
}

function failedStartLines({ failedStart }: ExportStatus, { now, style }: StatusTableOptions): string[] {
  if (failedStart === null) return [];
  const { at, error, message } = failedStart;
  const text = truncate(errorText(error, message), maxErrorLength);
  return [`  ${style('red', 'last start failed')} ${relativeTime(epochMsOf(at), now)}: ${text}`];
}

/** Unfinished ones, each with what to do about it; of the others, of which a series may have hundreds, the newest. */
function boundedLines(
  name: string,
  { unfinished, completed, newest }: BoundedRuns,
  { now, style, program, option, columns }: StatusTableOptions,
): string[] {
  const wrapped = (lines: readonly string[]) => lines.flatMap((line) => wrapText(line, columns, '    '));
  const boundsOf = ({ since, until }: BoundedRun) => `${since} to ${until}`;
  const lines = unfinished.flatMap((run) => {
    const { state, since, until, series, slices, lastFailure } = run;
    const failure = lastFailure === null ? '' : `: ${errorText(lastFailure.error, lastFailure.message)}`;
    const stateText = style(state === 'failed' ? 'red' : state === 'running' ? 'cyan' : 'yellow', state);
    const each = series === null ? '' : ` --each ${series.each}`;
    const start = `${program} start ${name} --since ${since} --until ${series?.until ?? until}${each} ${option}`;
    return [
      ...wrapped([
        `  bounded run ${boundsOf(run)} ${stateText}, ${placeText(run)}${truncate(failure, maxErrorLength)}`,
        ...setAsideLines(slices),
      ]),
      ...(state === 'running' ? [] : hintLines('to resume', start, columns - 2).map((line) => `  ${line}`)),
    ];
  });
  if (newest === null) return lines;
  const ago = newest.completedAt === null ? '' : `, ${relativeTime(epochMsOf(newest.completedAt), now)}`;
  const done = `  ${plural(completed, 'bounded run')} completed, the last one ${boundsOf(newest)}${ago}`;
  return [...lines, ...wrapped([done])];
}

/** Why slices were not exported to their end. */
const setAsideLines = (slices: SlicesStatus | null | undefined): string[] =>
  (slices?.setAside ?? []).map(
    ({ slice, error, message }) => `  slice ${slice} is set aside: ${errorText(error, message)}`,
  );

/** `nightly  completed 3 h ago · watermark …`: in one line, or with some of them in lines below. */
function factLines(
  name: string,
  [first = '', ...others]: readonly string[],
  { style, columns }: StatusTableOptions,
): readonly string[] {
  const lines: string[] = [];
  let line = `${style('bold', name)}  ${first}`;
  for (const fact of others) {
    const longer = `${line} · ${fact}`;
    const fits = stripVTControlCharacters(longer).length <= columns;
    if (!fits) lines.push(line);
    line = fits ? longer : `  ${fact}`;
  }
  return [...lines, line];
}

/** Left out, in this order, until the rest fits. */
const optionalRunColumns: readonly string[] = ['SINCE', 'BYTES', 'TOOK', 'STARTED'];

function runTable(
  runs: readonly RunStatus[],
  { now, style, columns }: Pick<StatusTableOptions, 'now' | 'style' | 'columns'>,
): string[] {
  let shown = runColumns;
  for (const optional of optionalRunColumns) {
    const widths = columnWidths(rowsOf(runs, shown, now));
    if (widths.reduce((sum, width) => sum + width + columnGap, -columnGap) <= columns) break;
    shown = shown.filter(({ heading }) => heading !== optional);
  }
  return tableLines(rowsOf(runs, shown, now), style, columns);
}

function overdueReports({ lastReportsAt, reportsEverySeconds }: ExportStatus, now: number): string {
  const agoMs = lastReportsAt === null ? 0 : now - epochMsOf(lastReportsAt);
  const every = coarseDuration((reportsEverySeconds ?? 0) * 1_000);
  return `no completed run has had reports for ${coarseDuration(agoMs)}; expected within ${every} (expect.reportsEvery)`;
}

/** Only the newest run of an export can be unfinished. */
function newestRunLines(run: RunStatus, { now, style }: StatusTableOptions): string[] {
  const { state, lastIncident, lastPageAt, slices } = run;
  if (state === 'completed') return [];
  const lines = slices === undefined ? [] : [`  ${slicesText(slices)} done`, ...setAsideLines(slices)];
  if (state === 'running' && lastPageAt !== null) lines.push(`  last page ${relativeTime(epochMsOf(lastPageAt), now)}`);
  if (lastIncident !== null) {
    const label = style('yellow', lastIncident.kind === 'wait' ? 'last wait' : 'last error');
    const when = relativeTime(epochMsOf(lastIncident.at), now);
    lines.push(`  ${label} ${when}: ${truncate(describeIncident(lastIncident), maxErrorLength)}`);
  }
  return lines;
}

function resumeLines({ export: name, state }: RunStatus, { program, option, columns }: StatusTableOptions): string[] {
  if (state !== 'failed' && state !== 'interrupted') return [];
  return hintLines('to resume', `${program} start ${name} ${option}`, columns - 2).map((line) => `  ${line}`);
}

function damagedRunLines(
  runs: readonly RunStatus[],
  { program, option, columns }: StatusTableOptions,
): readonly string[] {
  return runs
    .filter(({ state }) => state === 'damaged')
    .flatMap(({ export: name, run }) => [
      ...wrapText(`  run ${run} was published, but its manifest is missing or was changed`, columns, '    '),
      ...hintLines('to see what', `${program} verify ${name} --run ${run} ${option}`, columns - 2).map(
        (line) => `  ${line}`,
      ),
    ]);
}

function describeIncident(incident: Incident): string {
  return incident.kind === 'wait'
    ? `the service sent Retry-After: ${incident.seconds} s`
    : `${incident.error}: ${incident.message.replaceAll(/\s+/g, ' ')}`;
}
