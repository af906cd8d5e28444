/** The status of exports: a line for each, or one of them with its newest runs. */

import { stripVTControlCharacters } from 'node:util';
import type { RunFailure } from '../../core/model.ts';
import type { ScheduleState, UnreadableExport } from '../../target/target.ts';
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
import { type Column, countKinds, type ExportColumns, exportTable } from './export-table.ts';
import { bytes, coarseDuration, plural, relativeTime, sliceCounts } from './format.ts';
import { type Cell, ellipsize, type TextStyle, wrapText } from './terminal.ts';

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

/** One export whose runs were read with these, or why it cannot be read; or a line per export and a summary. */
export function statusLines(entries: readonly StatusEntry[], options: StatusTableOptions): string[] {
  const [only, ...others] = entries;
  if (only === undefined) return ['No exports yet.'];
  if ('error' in only && others.length === 0) return unreadableLines(only, options);
  const isOverview = 'error' in only || only.runs === undefined;
  return isOverview ? overviewLines(entries, options) : exportLines(only, only.runs ?? [], options);
}

function unreadableLines({ export: name, error }: UnreadableExport, { style, columns }: StatusTableOptions): string[] {
  const text = `${style('bold', name)}  ${style('red', 'unreadable')}: ${errorText(error.name, error.message)}`;
  return [...wrapText(text, columns, '  ')];
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

const runColumns: ExportColumns<RunStatus> = {
  required: [
    { heading: 'RUN', cell: ({ run }) => ({ text: run }) },
    { heading: 'STATE', cell: ({ state }) => stateCell(state) },
    { heading: 'PAGES', alignRight: true, cell: ({ pages }) => ({ text: pages.toLocaleString('en') }) },
    { heading: 'REPORTS', alignRight: true, cell: (run) => ({ text: reportsText(run) }) },
  ],
  optional: [
    { heading: 'BYTES', alignRight: true, cell: (run) => ({ text: bytes(run.bytes) }) },
    { heading: 'STARTED', cell: ({ startedAt }, now) => ({ text: relativeTime(epochMsOf(startedAt), now) }) },
    { heading: 'TOOK', cell: (run, now) => ({ text: tookText(run, now) }) },
    { heading: 'SINCE', cell: ({ since }) => ({ text: since ?? '–' }) },
  ],
  noteOf: () => '',
};

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
  slices === null ? plural(pages, 'page') : `${sliceCounts(slices)}, ${plural(pages, 'page')}`;

/** On one line, whatever the service returned. */
export const errorText = (name: string, message: string): string => toPrintable(`${name}: ${message}`);

const maxErrorLength = 300;
const shortError = ({ error, message }: Pick<RunFailure, 'error' | 'message'>): string =>
  truncate(errorText(error, message), maxErrorLength);

/** A text, which is wrapped between words; or a command for some purpose, which is not, so that it can be copied. */
type Detail = string | readonly [purpose: string, command: string];

/** An export, a table of its runs, and what to know and do about those that are unfinished or damaged, and about its bounded runs. */
function exportLines(status: ExportStatus, runs: readonly RunStatus[], options: StatusTableOptions): string[] {
  const { program, option, columns } = options;
  const { export: name } = status;
  const indented = (details: readonly Detail[]) =>
    details.flatMap((each) =>
      typeof each === 'string'
        ? wrapText(`  ${each}`, columns, '    ')
        : hintLines(...each, columns - 2).map((line) => `  ${line}`),
    );
  const command = (verb: string, more = '') => `${program} ${verb} ${name} ${more}${option}`;
  const [newest] = runs;
  return [
    ...factLines(status, options),
    ...indented(overdueReports(status, options)),
    ...(newest === undefined
      ? ['  no runs yet', `  → ${command('start')}`]
      : exportTable(runs, runColumns, { ...options, columns: columns - 2 }).map((line) => `  ${line}`)),
    ...indented([
      ...(newest === undefined ? [] : newestRunDetails(newest, options, command)),
      ...runs.filter(({ state }) => state === 'damaged').flatMap((run) => damagedRunDetails(run, command)),
      ...status.bounded.unfinished.flatMap((run) => boundedRunDetails(run, options, command)),
      ...completedBounded(status.bounded, options),
      ...failedStartDetails(status, options),
    ]),
  ].map((line) => line.trimEnd());
}

/** A command of this program about the export: `command('verify', '--run X ')`. */
type CommandAbout = (verb: string, more?: string) => string;

/** `nightly  completed 3 h ago · watermark …`: in one line, or with some of them in lines below. */
function factLines(
  { export: name, completedAt, watermark, schedule }: ExportStatus,
  { now, style, columns }: StatusTableOptions,
): readonly string[] {
  const scheduled = scheduleText(schedule);
  const completed = completedAt === null ? 'never completed' : `completed ${relativeTime(epochMsOf(completedAt), now)}`;
  const lines: string[] = [];
  let line = `${style('bold', name)}  ${completed}`;
  for (const fact of [
    `watermark ${watermark ?? 'none'}`,
    scheduled === '–' ? 'no schedule' : `schedule ${scheduled}`,
  ]) {
    const longer = `${line} · ${fact}`;
    const fits = stripVTControlCharacters(longer).length <= columns;
    if (!fits) lines.push(line);
    line = fits ? longer : `  ${fact}`;
  }
  return [...lines, line];
}

function overdueReports(
  { reportsOverdue, lastReportsAt, reportsEverySeconds }: ExportStatus,
  { now, style }: StatusTableOptions,
): readonly Detail[] {
  if (!reportsOverdue) return [];
  const agoMs = lastReportsAt === null ? 0 : now - epochMsOf(lastReportsAt);
  const every = coarseDuration((reportsEverySeconds ?? 0) * 1_000);
  const text = `no completed run has had reports for ${coarseDuration(agoMs)}; expected within ${every} (expect.reportsEvery)`;
  return [style('yellow', text)];
}

/** Only the newest run of an export can be unfinished. */
function newestRunDetails(
  { state, lastIncident, lastPageAt, slices }: RunStatus,
  { now, style }: StatusTableOptions,
  command: CommandAbout,
): readonly Detail[] {
  if (state === 'completed') return [];
  const details: Detail[] = slices === undefined ? [] : [`${sliceCounts(slices)} done`, ...setAsideDetails(slices)];
  if (state === 'running' && lastPageAt !== null) {
    details.push(`last page ${relativeTime(epochMsOf(lastPageAt), now)}`);
  }
  if (lastIncident !== null) {
    const label = style('yellow', lastIncident.kind === 'wait' ? 'last wait' : 'last error');
    const when = relativeTime(epochMsOf(lastIncident.at), now);
    const isWait = lastIncident.kind === 'wait';
    const what = isWait ? `the service sent Retry-After: ${lastIncident.seconds} s` : shortError(lastIncident);
    details.push(`${label} ${when}: ${what}`);
  }
  if (state === 'failed' || state === 'interrupted') details.push(['to resume', command('start')]);
  return details;
}

const damagedRunDetails = ({ run }: RunStatus, command: CommandAbout): readonly Detail[] => [
  `run ${run} was published, but its manifest is missing or was changed`,
  ['to see what', command('verify', `--run ${run} `)],
];

const boundsText = ({ since, until }: BoundedRun) => `${since} to ${until}`;

function boundedRunDetails(run: BoundedRun, { style }: StatusTableOptions, command: CommandAbout): readonly Detail[] {
  const { state, since, until, series, slices, lastFailure } = run;
  const stateText = style(state === 'failed' ? 'red' : state === 'running' ? 'cyan' : 'yellow', state);
  const failure = lastFailure === null ? '' : `: ${shortError(lastFailure)}`;
  const each = series === null ? '' : `--each ${series.each} `;
  const start = command('start', `--since ${since} --until ${series?.until ?? until} ${each}`);
  return [
    `bounded run ${boundsText(run)} ${stateText}, ${placeText(run)}${failure}`,
    ...(slices === null ? [] : setAsideDetails(slices)),
    ...(state === 'running' ? [] : [['to resume', start] as const]),
  ];
}

/** A series may have hundreds: the newest one stands for all. */
function completedBounded({ completed, newest }: BoundedRuns, { now }: StatusTableOptions): readonly Detail[] {
  if (newest === null) return [];
  const ago = newest.completedAt === null ? '' : `, ${relativeTime(epochMsOf(newest.completedAt), now)}`;
  return [`${plural(completed, 'bounded run')} completed, the last one ${boundsText(newest)}${ago}`];
}

/** Why slices were not exported to their end. */
const setAsideDetails = ({ setAside }: SlicesStatus): readonly Detail[] =>
  setAside.map(({ slice, error, message }) => `slice ${slice} is set aside: ${errorText(error, message)}`);

function failedStartDetails({ failedStart }: ExportStatus, { now, style }: StatusTableOptions): readonly Detail[] {
  if (failedStart === null) return [];
  const when = relativeTime(epochMsOf(failedStart.at), now);
  return [`${style('red', 'last start failed')} ${when}: ${shortError(failedStart)}`];
}
