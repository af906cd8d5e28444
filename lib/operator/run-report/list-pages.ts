/** The pages that list runs and exports: all runs of an export, and all exports of a deployment; and the page of a run that cannot be read. */

import type { Instant, RunId } from '../../core/model.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import type { ScheduleState } from '../../target/target.ts';
import { plural } from '../output/format.ts';
import { scheduleText, summarizeStatuses } from '../output/status-table.ts';
import { categoryOf, type RunState, sortStatuses, type StatusEntry } from '../run-status.ts';
import { formatBytes, formatDuration, formatNumber } from './format.ts';
import type { Gap } from './gaps.ts';
import { empty, type Html, html } from './markup.ts';
import { type Column, type Origin, type Page, renderPage, stateLabel, table, time, timeWithoutZone } from './page.ts';
import { describeError, durationMs, type HistoryRun, type ReadError, type RunHistory } from './run-history.ts';

/** A list of runs. In a report of one run, that is the current one, and the others have no address. */
interface ListOptions {
  readonly current?: RunId;
  readonly addressOf?: (run: RunId) => string;
}

const runColumns: readonly Column[] = [
  { title: 'Started (UTC)', kind: 'name' },
  { title: 'State', kind: 'name' },
  { title: 'Duration', kind: 'number' },
  { title: 'Pages', kind: 'number' },
  { title: 'Reports', kind: 'number' },
  { title: 'Size', kind: 'number' },
];

/** Runs with bars to compare them, a remark for each gap, and what is not known about them. */
export function runsTable(history: RunHistory, { current, addressOf }: ListOptions): Html {
  const { runs, gaps } = history;
  const maxDuration = Math.max(...runs.map(durationMs));
  const maxPages = Math.max(...runs.map(({ pages }) => pages));
  const rows = runs.map((run) => {
    const isCurrent = run.run === current;
    const start = timeWithoutZone(run.startedAt);
    const gap = gaps.find(({ before }) => before === run.run);
    return {
      id: run.run,
      isCurrent,
      cells: [
        addressOf === undefined
          ? html`${start}${isCurrent ? html` <span class="quiet">this run</span>` : empty}`
          : html`<a href="${addressOf(run.run)}">${start}</a>`,
        stateLabel(run.state),
        html`${formatDuration(durationMs(run))}${bar(durationMs(run), maxDuration)}`,
        html`${formatNumber(run.pages)}${bar(run.pages, maxPages)}`,
        run.reports === null ? '–' : formatNumber(run.reports),
        formatBytes(run.bytes),
      ],
      remark: gap && describeGap(gap),
    };
  });
  const texts = notesOn(history);
  return html`${rows.length === 0 ? empty : table('Runs', runColumns, rows)}
${texts.length === 0 ? empty : html`<ul class="notes">${texts.map((text) => html`<li>${text}.</li>`)}</ul>`}`;
}

/** Its width is an attribute, because the content security policy forbids inline styles. */
function bar(value: number, max: number): Html {
  const percent = max === 0 ? 0 : Math.round((1_000 * value) / max) / 10;
  return html`<svg class="bar" aria-hidden="true"><rect width="${percent}%" height="100%"></rect></svg>`;
}

function describeGap({ from, to, closedBy }: Gap): Html {
  const sinceOption = html`<code class="option">--since</code>`;
  const closing = {
    'unfinished-run': html`The unfinished run covers them once it is completed.`,
    'next-run': html`The next run starts before them, unless it is given another ${sinceOption}.`,
    nothing: html`To export them, start a run with ${sinceOption} at or before the beginning of the gap.`,
  };
  return html`<strong>Gap of ${formatDuration(epochMsOf(to) - epochMsOf(from))}.</strong> No completed run covers the reports
dated from ${time(from)} to ${time(to)}. ${closing[closedBy ?? 'nothing']}`;
}

/** What could not be read, and why. */
function notesOn({ unknownDates, error }: RunHistory): string[] {
  const dates = `The dates that ${plural(unknownDates, 'run')} covered are not known, so there may be gaps that are not shown`;
  return [
    ...(error === null ? [] : [`Older runs cannot be listed: ${describeError(error)}`]),
    ...(unknownDates === 0 ? [] : [dates]),
  ];
}

const states: readonly RunState[] = ['running', 'completed', 'empty', 'damaged', 'failed', 'interrupted', 'abandoned'];

/** How many runs there are, how they ended, and how long a completed one usually takes. */
export function describeRuns({ runs, gaps, hasOlder }: RunHistory): string {
  const { length } = runs;
  if (length === 0) return 'No runs are known.';
  const [one, several] = hasOlder ? ['The newest run', 'newest runs'] : ['The only run', 'runs'];
  const count = length === 1 ? one : `${hasOlder ? 'The' : 'All'} ${formatNumber(length)} ${several}`;
  const byState = states
    .map((state) => ({ state, count: countOf(runs, state) }))
    .filter(({ count }) => count > 0)
    .map(({ state, count }) => `${formatNumber(count)} ${state}`);
  const durations = runs
    .filter(({ state }) => state === 'completed')
    .map(durationMs)
    .sort((a, b) => a - b);
  const median = durations[Math.floor((durations.length - 1) / 2)];
  const areThere = gaps.length === 1 ? 'There is 1 gap' : `There are ${gaps.length} gaps`;
  return [
    `${count}: ${byState.join(', ')}.`,
    ...(median === undefined || durations.length < 3
      ? []
      : [`Half of the completed runs took ${formatDuration(median)} or less.`]),
    ...(gaps.length === 0 ? [] : [`${areThere} between the dates that they cover.`]),
  ].join(' ');
}

const countOf = (runs: readonly HistoryRun[], state: RunState): number =>
  runs.filter((run) => run.state === state).length;

export interface ExportIndex {
  readonly export: string;
  readonly history: RunHistory;
  readonly watermark: Instant | null;
  readonly completedAt: Instant | null;
  readonly schedule: ScheduleState | null;
  /** Runs whose pages show only why they cannot be read. */
  readonly unreadable: ReadonlyMap<RunId, ReadError>;
}

interface IndexOptions extends Pick<Page, 'links' | 'origin'> {
  readonly addressOf: (run: RunId) => string;
}

/** All runs of an export. */
export function renderExportIndex(index: ExportIndex, { addressOf, ...options }: IndexOptions): string {
  const { export: name, history, watermark, completedAt, schedule, unreadable } = index;
  const { runs, gaps } = history;
  const sum = (valueOf: (run: HistoryRun) => number) => runs.reduce((total, run) => total + valueOf(run), 0);
  const isCounted = runs.every(({ reports }) => reports !== null);
  const emptyRuns = countOf(runs, 'empty');
  return renderPage({
    title: `${name} · runs`,
    eyebrow: `Report Exporter · ${options.origin.deployment}`,
    heading: name,
    state: runs[0]?.state,
    lead: describeRuns(history),
    problems: [
      // The newest one; all of them are in the table.
      ...gaps.slice(-1).map(describeGap),
      ...[...unreadable].map(
        ([run, error]) => html`<strong>Run ${run} cannot be read.</strong> ${describeError(error)}`,
      ),
    ],
    figures: [
      ['Runs', formatNumber(runs.length)],
      ['Completed', formatNumber(countOf(runs, 'completed'))],
      ...(emptyRuns === 0 ? [] : [['Empty', formatNumber(emptyRuns)] as const]),
      ['Pages', formatNumber(sum(({ pages }) => pages))],
      ['Reports', isCounted ? formatNumber(sum(({ reports }) => reports ?? 0)) : 'not counted'],
      ['Size', formatBytes(sum(({ bytes }) => bytes))],
    ],
    facts: [
      ['Watermark', watermark === null ? 'none' : time(watermark)],
      ['Last completed', completedAt === null ? 'never' : time(completedAt)],
      ['Schedule', schedule === null ? 'unknown' : scheduleText(schedule)],
    ],
    sections: [
      html`<section>
<h2>Runs</h2>
${runsTable(history, { addressOf })}
</section>`,
    ],
    ...options,
  });
}

/** A page for a run that cannot be read, so that links to it are not broken. */
export function renderUnreadableRun(
  { export: name, run, error }: { readonly export: string; readonly run: RunId; readonly error: ReadError },
  options: Pick<Page, 'links' | 'origin'>,
): string {
  return renderPage({
    title: `${name} · run ${run} · cannot be read`,
    eyebrow: `Report Exporter · ${options.origin.deployment}`,
    heading: name,
    state: 'unreadable',
    run,
    lead: 'This run cannot be read.',
    problems: [html`<strong>${error.name}.</strong> ${error.message}`],
    ...options,
  });
}

/** An export in the overview of all. */
export interface OverviewRow {
  readonly entry: StatusEntry;
  /** null if its runs cannot be read. */
  readonly index: {
    readonly address: string;
    readonly runs: number;
    readonly gaps: number;
    readonly unreadable: number;
  } | null;
}

const exportColumns: readonly Column[] = [
  { title: 'Export', kind: 'text' },
  { title: 'State', kind: 'name' },
  { title: 'Last completed (UTC)', kind: 'value' },
  { title: 'Reports', kind: 'number' },
  { title: 'Size', kind: 'number' },
  { title: 'Runs', kind: 'number' },
  { title: 'Note', kind: 'text' },
];

/** All exports of a deployment; what needs attention comes first. */
export function renderOverview(rows: readonly OverviewRow[], origin: Origin): string {
  const entries = rows.map(({ entry }) => entry);
  const rowOf = new Map(rows.map(({ entry, index }) => [entry.export, index]));
  return renderPage({
    title: `Exports · ${origin.deployment}`,
    eyebrow: 'Report Exporter',
    heading: origin.deployment,
    lead: `${summarizeStatuses(entries)}.`,
    sections: [
      html`<section>
<h2>Exports</h2>
${table(
  'Exports',
  exportColumns,
  sortStatuses(entries).map((entry) => ({ cells: exportCells(entry, rowOf.get(entry.export) ?? null) })),
)}
<p>State, reports and size are those of the newest run.</p>
</section>`,
    ],
    origin,
  });
}

function exportCells(entry: StatusEntry, index: OverviewRow['index']): (string | Html)[] {
  const name = index === null ? entry.export : html`<a href="${index.address}">${entry.export}</a>`;
  if ('error' in entry) return [name, stateLabel('unreadable'), '–', '–', '–', '–', describeError(entry.error)];
  const { completedAt, reports, bytes } = entry;
  return [
    name,
    stateLabel(categoryOf(entry)),
    completedAt === null ? '–' : timeWithoutZone(completedAt),
    reports === null ? '–' : formatNumber(reports),
    formatBytes(bytes),
    index === null ? '–' : formatNumber(index.runs),
    exportNotes(entry, index).join('. '),
  ];
}

function exportNotes(entry: Exclude<StatusEntry, { readonly error: unknown }>, index: OverviewRow['index']): string[] {
  const { stale, freshnessSeconds, reportsOverdue, reportsEverySeconds, lastFailure } = entry;
  const { gaps = 0, unreadable = 0 } = index ?? {};
  return [
    ...(lastFailure === null ? [] : [`${lastFailure.error}: ${lastFailure.message}`]),
    ...(stale ? [`Not completed for ${formatDuration((freshnessSeconds ?? 0) * 1_000)}`] : []),
    ...(reportsOverdue ? [`No reports for ${formatDuration((reportsEverySeconds ?? 0) * 1_000)}`] : []),
    ...(gaps === 0 ? [] : [plural(gaps, 'gap')]),
    ...(unreadable === 0 ? [] : [plural(unreadable, 'unreadable run')]),
  ];
}
