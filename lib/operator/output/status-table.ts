/** The status of exports: a line for each, or the details of one with its newest runs. */

import type { Instant, RunFailure } from '../../core/model.ts';
import type { Incident, ScheduleState } from '../../target/target.ts';
import { toPrintable, truncate } from '../../core/sanitize.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import {
  type Category,
  categories,
  categoryOf,
  type ExportView,
  needsAttention,
  type RunState,
  type RunView,
  type ViewedExport,
} from '../run-view.ts';
import { type Column, countKinds, type ExportColumns, exportTable, type TableOptions } from './export-table.ts';
import { bytes, coarseDuration, plural, relativeTime, sliceCounts } from './format.ts';
import { type Cell, ellipsize, wrapText } from './terminal.ts';

export interface StatusTableOptions extends TableOptions {
  /** `npx report-exporter` and `--stack ReportExporter`: for the commands that the table suggests. */
  readonly program: string;
  readonly option: string;
  /** How many lines fit on the screen. The last exports are left out. Absent: all. */
  readonly rows?: number | undefined;
  /** Of all exports, below the table. */
  readonly summary: string;
}

/** A line per export and a summary; or the details of one whose runs were read, or that cannot be read. */
export function statusLines(entries: readonly ViewedExport[], options: StatusTableOptions): string[] {
  const [only, ...others] = entries;
  if (only === undefined) return ['No exports yet.'];
  const isOverview = others.length > 0 || (!('error' in only) && only.runs === undefined);
  return isOverview ? overviewLines(entries, options) : detailLines(only, options);
}

function overviewLines(entries: readonly ViewedExport[], options: StatusTableOptions): string[] {
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
function hintLines(purpose: string, command: string, columns: number): string[] {
  const line = `→ ${purpose}: ${command}`;
  return line.length <= columns ? [line] : [ellipsize(`→ ${purpose}:`, columns), command];
}

/** `100 exports: 2 failed, 1 stale, 5 running, 92 completed`. Each export counts once. */
export function summarizeStatuses(entries: readonly ViewedExport[]): string {
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

const stateCell = (state: Category | RunState): Cell => ({ text: state, style: stateStyles[state] });
const ago = (instant: Instant, now: number): string => relativeTime(epochMsOf(instant), now);
const number = (count: number | null): string => count?.toLocaleString('en') ?? '–';

const runColumns: ExportColumns<RunView> = {
  required: [
    { heading: 'RUN', cell: ({ run }) => ({ text: run }) },
    { heading: 'STATE', cell: ({ state }) => stateCell(state) },
    { heading: 'PAGES', alignRight: true, cell: ({ pages }) => ({ text: number(pages) }) },
    { heading: 'REPORTS', alignRight: true, cell: ({ reports }) => ({ text: number(reports) }) },
  ],
  optional: [
    { heading: 'BYTES', alignRight: true, cell: (run) => ({ text: bytes(run.bytes) }) },
    { heading: 'STARTED', cell: ({ startedAt }, now) => ({ text: ago(startedAt, now) }) },
    { heading: 'TOOK', cell: (run, now) => ({ text: tookText(run, now) }) },
    { heading: 'SINCE', cell: ({ since }) => ({ text: since ?? '–' }) },
  ],
  noteOf: () => '',
};

function tookText({ state, startedAt, completedAt }: RunView, now: number): string {
  const endedMs = completedAt === null ? (state === 'running' ? now : undefined) : epochMsOf(completedAt);
  return endedMs === undefined ? '–' : coarseDuration(endedMs - epochMsOf(startedAt));
}

const completedText = ({ completedAt }: ExportView, now: number): string =>
  completedAt === null ? 'never' : ago(completedAt, now);

function columnsOf(entries: readonly ViewedExport[]): ExportColumns<ViewedExport> {
  const readable =
    (text: (view: ExportView, now: number) => string): Column<ViewedExport>['cell'] =>
    (entry, now) => ({ text: 'error' in entry ? '' : text(entry, now) });
  const service: Column<ViewedExport> = { heading: 'SERVICE', cell: (entry) => ({ text: entry.service ?? '' }) };
  const hasServices = new Set(entries.map((entry) => entry.service)).size > 1;
  return {
    required: [
      { heading: 'EXPORT', cell: (entry) => ({ text: entry.export, style: 'bold' }) },
      { heading: 'STATE', cell: (entry) => stateCell(categoryOf(entry)) },
      { heading: 'COMPLETED', cell: readable(completedText) },
    ],
    optional: [
      ...(hasServices ? [service] : []),
      { heading: 'REPORTS', alignRight: true, cell: readable(({ reports }) => number(reports)) },
      { heading: 'BYTES', alignRight: true, cell: readable((view) => bytes(view.bytes)) },
      { heading: 'PAGES', alignRight: true, cell: readable(({ pages }) => number(pages)) },
      { heading: 'SCHEDULE', cell: readable(({ schedule }) => scheduleText(schedule)) },
    ],
    noteOf,
  };
}

/** Shows `cron(0 2 * * ? *) Europe/Berlin`. A rate has no time zone. */
export function scheduleText(schedule: ScheduleState): string {
  if (schedule.kind === 'manual')
    return schedule.awsSchedule === undefined ? '–' : `${schedule.awsSchedule} on AWS only`;
  const { kind, expression, timeZone } = schedule;
  const text = expression.startsWith('rate') ? expression : `${expression} ${timeZone}`;
  return kind === 'disabled' ? `${text} (disabled)` : text;
}

/** Why the export needs attention, or how far its run has come; and which of its bounded runs are unfinished. */
export function noteOf(entry: ViewedExport, now: number): string {
  if ('error' in entry) return errorText(entry.error.name, entry.error.message);
  const { state, stale, freshnessSeconds, reportsOverdue, reportsEverySeconds, startedAt, lastFailure } = entry;
  const place = `${placeText(entry)}${startedAt === null ? '' : `, started ${ago(startedAt, now)}`}`;
  const hasFailed = state === 'failed' || state === 'interrupted';
  const bounded = Map.groupBy(entry.bounded.unfinished, (run) => run.state);
  return [
    state === 'failed' && lastFailure !== null ? errorText(lastFailure.error, lastFailure.message) : '',
    state === 'interrupted' ? `no execution is working on it: ${place}` : '',
    stale && !hasFailed ? `not completed for ${coarseDuration((freshnessSeconds ?? 0) * 1_000)}` : '',
    reportsOverdue && !hasFailed ? `no reports for ${coarseDuration((reportsEverySeconds ?? 0) * 1_000)}` : '',
    state === 'running' ? `running: ${place}` : '',
    ...[...bounded].map(([each, runs]) => `${plural(runs.length, 'bounded run')} ${each}`),
  ]
    .filter(Boolean)
    .join('; ');
}

/** How far a run has come. */
const placeText = ({ pages, slices }: Pick<RunView, 'pages' | 'slices'>): string =>
  slices === null ? plural(pages, 'page') : `${sliceCounts(slices)}, ${plural(pages, 'page')}`;

/** On one line, whatever the service returned. */
export const errorText = (name: string, message: string): string => toPrintable(`${name}: ${message}`);

const maxErrorLength = 300;
const shortError = ({ error, message }: Pick<RunFailure, 'error' | 'message'>): string =>
  truncate(errorText(error, message), maxErrorLength);

/** A text, which is wrapped between words; or a command, which is not, so that it can be copied. */
interface Detail {
  readonly label: string;
  readonly text: string;
  readonly color?: Cell['style'];
  readonly isCommand?: boolean;
}

const labelWidth = 13;

/** What to know and do about the export, its unfinished and damaged runs and its bounded runs; and a table of its runs. */
function detailLines(entry: ViewedExport, options: StatusTableOptions): string[] {
  const { style, columns } = options;
  const details = 'error' in entry ? [{ label: 'error', text: noteOf(entry, 0) }] : detailsOf(entry, options);
  const stated: readonly Detail[] = [{ label: 'state', ...colored(categoryOf(entry)) }, ...details];
  const runs = 'error' in entry ? [] : (entry.runs ?? []);
  return [
    style('bold', entry.export),
    ...stated.flatMap(({ label, text, color, isCommand = false }) => {
      const styled = color === undefined ? text : style(color, text);
      const indent = ' '.repeat(labelWidth + 3);
      const line = `  ${label.padEnd(labelWidth)} ${styled}`;
      return isCommand ? [line] : wrapText(line, columns, indent);
    }),
    ...(runs.length === 0 ? [] : ['', ...exportTable(runs, runColumns, options)]),
  ];
}

const colored = (state: Category | RunState) => ({ text: state, color: stateStyles[state] });

function detailsOf(view: ExportView, { now, program, option }: StatusTableOptions): readonly Detail[] {
  const { export: name, watermark, schedule, reportsOverdue, lastReportsAt, reportsEverySeconds, failedStart } = view;
  const { runs = [], bounded } = view;
  const command = (label: string, verb: string, more = ''): Detail => {
    return { label: `→ ${label}`, text: `${program} ${verb} ${name} ${more}${option}`, isCommand: true };
  };
  const every = coarseDuration((reportsEverySeconds ?? 0) * 1_000);
  const without = coarseDuration(lastReportsAt === null ? 0 : now - epochMsOf(lastReportsAt));
  const overdue = `no completed run has had any for ${without}; expected within ${every} (expect.reportsEvery)`;
  return [
    { label: 'completed', text: completedText(view, now) },
    { label: 'watermark', text: watermark ?? 'none' },
    { label: 'schedule', text: scheduleText(schedule) === '–' ? 'none' : scheduleText(schedule) },
    ...(reportsOverdue ? [{ label: 'reports', text: overdue, color: 'yellow' } as const] : []),
    ...(failedStart === null ? [] : [failedStartDetail(failedStart, now)]),
    ...(runs.length === 0 ? [command('first run', 'start')] : []),
    ...runs.flatMap((run): readonly Detail[] => {
      if (run.state === 'completed' || run.state === 'empty') return [];
      if (run.state === 'damaged') {
        const text = `run ${run.run} was published, but its manifest is missing or was changed`;
        return [{ label: 'damaged', text, color: 'red' }, command('to see what', 'verify', `--run ${run.run} `)];
      }
      const isUnfinished = run.state === 'failed' || run.state === 'interrupted';
      return [...runDetails(run, now), ...(isUnfinished ? [command('to resume', 'start')] : [])];
    }),
    ...bounded.unfinished.flatMap((run) => {
      const { since, until, series, state } = run;
      const bounds = `--since ${since} --until ${series?.until ?? until} ${series === null ? '' : `--each ${series.each} `}`;
      const text = `${since} to ${until}: ${state}, ${placeText(run)}`;
      return [
        { label: 'bounded run', text, color: stateStyles[state] },
        ...runDetails(run, now),
        ...(state === 'running' ? [] : [command('to resume', 'start', bounds)]),
      ];
    }),
    ...completedBounded(bounded, now),
  ];
}

const failedStartDetail = (failure: RunFailure, now: number): Detail => {
  return { label: 'last start', text: `failed ${ago(failure.at, now)}: ${shortError(failure)}`, color: 'red' };
};

/** How far an unfinished run has come, what delayed or stopped it last, and why slices are set aside. */
function runDetails({ state, bounded, lastPageAt, slices, lastIncident }: RunView, now: number): readonly Detail[] {
  return [
    ...(slices === null || bounded ? [] : [{ label: 'slices', text: `${sliceCounts(slices)} done` }]),
    ...(state !== 'running' || lastPageAt === null ? [] : [{ label: 'last page', text: ago(lastPageAt, now) }]),
    ...(lastIncident === null ? [] : [incidentDetail(lastIncident, now)]),
    ...(slices?.setAside ?? []).map(({ slice, error, message }) => {
      return { label: `slice ${slice}`, text: `is set aside: ${errorText(error, message)}` };
    }),
  ];
}

function incidentDetail(incident: Incident, now: number): Detail {
  const isWait = incident.kind === 'wait';
  const what = isWait ? `the service sent Retry-After: ${incident.seconds} s` : shortError(incident);
  return { label: isWait ? 'last wait' : 'last error', text: `${ago(incident.at, now)}: ${what}`, color: 'yellow' };
}

/** A series may have hundreds: the newest one stands for all. */
function completedBounded({ completed, newest }: ExportView['bounded'], now: number): readonly Detail[] {
  if (newest === null) return [];
  const at = newest.completedAt === null ? '' : `, ${ago(newest.completedAt, now)}`;
  const text = `${number(completed)} completed, the last one ${newest.since} to ${newest.until}${at}`;
  return [{ label: 'bounded runs', text }];
}
