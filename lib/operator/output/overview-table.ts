/**
 * The overview of many exports: as a table for a person, one line per export, and as tab-separated values for a shell. What
 * needs attention comes first.
 */

import type { ExportOverview, NextStart, OverviewEntry } from '../../target/target.ts';
import { toPrintable } from '../../core/sanitize.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import { bytes, coarseDuration, plural, relativeTime } from './format.ts';
import { type Cell, columnGap, columnWidths, ellipsize, type TextStyle, tableLines } from './terminal.ts';

/** What an export counts as in the summary: the first of these that applies. Also their order in the table. */
const categories = ['unreadable', 'failed', 'stopped', 'stale', 'running', 'completed', 'never'] as const;
export type Category = (typeof categories)[number];

export function categoryOf(entry: OverviewEntry): Category {
  if ('error' in entry) return 'unreadable';
  const { state, stale, reportsOverdue } = entry;
  return (stale || reportsOverdue) && state !== 'failed' && state !== 'stopped' ? 'stale' : state;
}

/** Whether someone should look at the export. */
export function needsAttention(entry: OverviewEntry): boolean {
  return ['unreadable', 'failed', 'stopped', 'stale'].includes(categoryOf(entry));
}

/** What needs attention first, then running exports, then the others; each by name. */
export function sortOverview(entries: readonly OverviewEntry[]): OverviewEntry[] {
  // Completed exports and those that have never run are equally fine.
  const rankOf = (entry: OverviewEntry) => Math.min(categories.indexOf(categoryOf(entry)), restRank);
  return entries.toSorted((one, other) => rankOf(one) - rankOf(other) || (one.export < other.export ? -1 : 1));
}

const restRank = categories.indexOf('completed');

/** `100 exports: 2 failed, 1 stale, 5 running, 92 completed`. Each export counts once. */
export function summarizeOverview(entries: readonly OverviewEntry[]): string {
  const counts = categories.flatMap((category) => {
    const count = entries.filter((entry) => categoryOf(entry) === category).length;
    return count === 0 ? [] : [`${count.toLocaleString('en')} ${category === 'never' ? 'never completed' : category}`];
  });
  return `${plural(entries.length, 'export')}${counts.length === 0 ? '' : `: ${counts.join(', ')}`}`;
}

export interface OverviewOptions {
  readonly now: number;
  readonly style: TextStyle;
  /** `npx report-exporter` and `--stack ReportExporter`: for the command that the table suggests. */
  readonly program: string;
  readonly option: string;
  /** The width of the terminal. */
  readonly columns: number;
  /** How many lines fit on the screen. Exports that need no attention are left out first. Absent: all. */
  readonly rows?: number | undefined;
  /** Only the exports that need attention. */
  readonly failedOnly: boolean;
}

/** For a terminal: a line per export, and a summary. */
export function overviewLines(entries: readonly OverviewEntry[], options: OverviewOptions): string[] {
  const { style, program, option, columns, rows = Number.POSITIVE_INFINITY, failedOnly } = options;
  const summary = ellipsize(summarizeOverview(entries), columns);
  const listed = sortOverview(entries).filter((entry) => !failedOnly || needsAttention(entry));
  if (listed.length === 0) return [failedOnly ? nothingFailed(entries) : summary];
  const hint = listed.some(needsAttention) ? hintLines(`${program} status <export> ${option}`, columns) : [];
  const hintRows = hint.reduce((sum, line) => sum + Math.ceil(line.length / columns), 0);
  // The heading, an empty line, the summary and the line on which the cursor stays.
  const maxLines = Math.max(1, rows - 4 - hintRows);
  const shown = listed.length > maxLines ? listed.slice(0, Math.max(1, maxLines - 1)) : listed;
  const more = listed.length - shown.length;
  return [
    ...overviewTable(shown, options),
    ...(more === 0 ? [] : [style('dim', `… and ${plural(more, 'more export')}`)]),
    '',
    summary,
    ...hint.map((line) => style('dim', line)),
  ];
}

/** A command is never cut, so that it can be copied. On a narrow terminal it has its own line, which the terminal wraps. */
function hintLines(command: string, columns: number): string[] {
  const line = `→ for details: ${command}`;
  return line.length <= columns ? [line] : [ellipsize('→ for details:', columns), command];
}

/** What `--failed` says if there is nothing to show. */
export const nothingFailed = (entries: readonly OverviewEntry[]): string =>
  `No export has failed, stopped, or is stale or unreadable (${summarizeOverview(entries)})`;

interface Column {
  readonly heading: string;
  readonly alignRight?: boolean;
  readonly cell: (entry: OverviewEntry, now: number) => Omit<Cell, 'alignRight'>;
}

const readable =
  (text: (entry: ExportOverview, now: number) => string): Column['cell'] =>
  (entry, now) => ({ text: 'error' in entry ? '' : text(entry, now) });

const nameColumn: Column = { heading: 'EXPORT', cell: (entry) => ({ text: entry.export, style: 'bold' }) };
const stateColumn: Column = {
  heading: 'STATE',
  cell: (entry) => {
    const category = categoryOf(entry);
    return { text: category, style: categoryStyles[category] };
  },
};
const completedColumn: Column = {
  heading: 'COMPLETED',
  cell: readable(({ completedAt }, now) =>
    completedAt === null ? 'never' : relativeTime(epochMsOf(completedAt), now),
  ),
};
const noteColumn: Column = { heading: 'NOTE', cell: (entry, now) => ({ text: noteOf(entry, now) }) };

/** Shown if there is space for them, the first ones first. */
const optionalColumns: readonly Column[] = [
  { heading: 'NEXT', cell: readable(({ next }, now) => nextText(next, now)) },
  { heading: 'REPORTS', alignRight: true, cell: readable(({ reports }) => reports?.toLocaleString('en') ?? '–') },
  { heading: 'BYTES', alignRight: true, cell: readable((entry) => bytes(entry.bytes)) },
  { heading: 'PAGES', alignRight: true, cell: readable(({ pages }) => pages.toLocaleString('en')) },
];
const serviceColumn: Column = { heading: 'SERVICE', cell: (entry) => ({ text: entry.service ?? '' }) };

const categoryStyles: Readonly<Record<Category, Cell['style']>> = {
  unreadable: 'red',
  failed: 'red',
  stopped: 'yellow',
  stale: 'yellow',
  running: 'cyan',
  completed: 'green',
  never: 'dim',
};

/** The width that is kept for notes, unless they are shorter. */
const usualNoteWidth = 40;

function overviewTable(entries: readonly OverviewEntry[], { now, style, columns: width }: OverviewOptions): string[] {
  const widthOf = (column: Column) => columnWidths(rowsOf(entries, [column], now))[0] ?? 0;
  const hasNotes = entries.some((entry) => noteOf(entry, now) !== '');
  const hasServices = new Set(entries.map(({ service }) => service)).size > 1;
  const base = [nameColumn, stateColumn, completedColumn];
  const noteWidth = hasNotes ? Math.min(widthOf(noteColumn), usualNoteWidth) + columnGap : 0;
  let free = width - noteWidth - base.reduce((sum, column) => sum + widthOf(column) + columnGap, -columnGap);
  const extra: Column[] = [];
  for (const column of [...(hasServices ? [serviceColumn] : []), ...optionalColumns]) {
    const needed = widthOf(column) + columnGap;
    if (needed > free) break;
    free -= needed;
    extra.push(column);
  }
  const columns = [...base, ...extra, ...(hasNotes ? [noteColumn] : [])];
  return tableLines(rowsOf(entries, columns, now), style, width);
}

function rowsOf(entries: readonly OverviewEntry[], columns: readonly Column[], now: number): Cell[][] {
  return [
    columns.map(({ heading, alignRight }) => ({ text: heading, style: 'dim', alignRight })),
    ...entries.map((entry) => columns.map(({ cell, alignRight }) => ({ ...cell(entry, now), alignRight }))),
  ];
}

function nextText(next: NextStart, now: number): string {
  switch (next.kind) {
    case 'scheduled':
      return relativeTime(epochMsOf(next.at), now);
    case 'disabled':
      return 'disabled';
    case 'manual':
      return '–';
  }
}

/** Why the export needs attention, or how far its run has come. */
function noteOf(entry: OverviewEntry, now: number): string {
  if ('error' in entry) return errorText(entry.error.name, entry.error.message);
  const { state, stale, freshnessSeconds, reportsOverdue, reportsEverySeconds, pages, startedAt, lastFailure } = entry;
  const place = `${plural(pages, 'page')}${startedAt === null ? '' : `, started ${relativeTime(epochMsOf(startedAt), now)}`}`;
  if (state === 'failed' && lastFailure !== null) return errorText(lastFailure.error, lastFailure.message);
  if (state === 'stopped') return `no execution is working on it: ${place}`;
  const overdue = stale ? `not completed for ${coarseDuration((freshnessSeconds ?? 0) * 1_000)}` : '';
  const withoutReports = reportsOverdue ? `no reports for ${coarseDuration((reportsEverySeconds ?? 0) * 1_000)}` : '';
  return [overdue, withoutReports, state === 'running' ? `running: ${place}` : ''].filter(Boolean).join('; ');
}

/** On one line, whatever the service returned. */
const errorText = (name: string, message: string): string => toPrintable(`${name}: ${message}`);

const valueColumns = [
  'export',
  'service',
  'state',
  'stale',
  'reports_overdue',
  'run',
  'pages',
  'reports',
  'bytes',
  'since',
  'watermark',
  'started',
  'completed',
  'completed_age_s',
  'next',
  'last_error',
] as const;

/** For a shell: a heading, then a line for each export, in the given order. An unknown value is empty. */
export function overviewValues(entries: readonly OverviewEntry[], now: number): string[] {
  return [valueColumns.join('\t'), ...entries.map((entry) => valueLine(valuesOf(entry, now)))];
}

type Values = Partial<Record<(typeof valueColumns)[number], string | number | boolean | null>>;

function valuesOf(entry: OverviewEntry, now: number): Values {
  if ('error' in entry) {
    const { export: name, service, error } = entry;
    return { export: name, service, state: 'unreadable', last_error: `${error.name}: ${error.message}` };
  }
  const { export: name, service, state, stale, run, pages, reports, bytes: size, since, watermark } = entry;
  const { reportsOverdue, startedAt, completedAt, next, lastFailure } = entry;
  return {
    export: name,
    service,
    state,
    stale,
    reports_overdue: reportsOverdue,
    run,
    pages,
    reports,
    bytes: size,
    since,
    watermark,
    started: startedAt,
    completed: completedAt,
    completed_age_s: completedAt === null ? null : Math.floor((now - epochMsOf(completedAt)) / 1_000),
    next: next.kind === 'scheduled' ? next.at : next.kind,
    last_error: lastFailure === null ? null : `${lastFailure.error}: ${lastFailure.message}`,
  };
}

function valueLine(values: Values): string {
  return valueColumns.map((column) => String(values[column] ?? '').replaceAll(/\s+/g, ' ')).join('\t');
}
