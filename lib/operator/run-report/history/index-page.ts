/** The index pages of a folder of run reports: all runs of an export, all exports of a deployment, and a run that cannot be read. */

import type { Instant, RunId } from '../../../core/model.ts';
import type { NextStart } from '../../../target/target.ts';
import { type Category, categoryOf, type RunState, sortStatuses, type StatusEntry } from '../../run-status.ts';
import { plural } from '../../output/format.ts';
import { summarizeStatuses } from '../../output/status-table.ts';
import type { RunReportOrigin } from '../data.ts';
import { renderDocument } from '../document.ts';
import { formatBytes, formatDuration, formatInstantWithoutZone, formatNumber } from '../format.ts';
import { empty, type Html, html } from '../markup.ts';
import { definition, footer, time, toneOfState } from '../overview.ts';
import {
  type AddressOf,
  describeGap,
  describeRuns,
  historyTable,
  type RunNeighbors,
  runNavigation,
} from './history-section.ts';
import type { HistoryRun, ReadError, RunHistory } from './run-history.ts';

export interface ExportIndex {
  readonly export: string;
  readonly history: RunHistory;
  readonly watermark: Instant | null;
  readonly completedAt: Instant | null;
  readonly next: NextStart | null;
  /** Runs whose pages show only why they cannot be read. */
  readonly unreadable: ReadonlyMap<RunId, ReadError>;
}

/** The newest ones; all of them are in the table. */
const maxGapsInHeader = 3;

/** All runs of an export. `overview` is the address of the page with all exports, if there is one. */
export function renderExportIndex(
  index: ExportIndex,
  { addressOf, overview }: { readonly addressOf: AddressOf; readonly overview: string | null },
  origin: RunReportOrigin,
): string {
  const { export: name, history, watermark, completedAt, next, unreadable } = index;
  const { runs, gaps } = history;
  const [newest] = runs;
  const newestGaps = gaps.slice(-maxGapsInHeader).toReversed();
  const moreGaps = gaps.length - newestGaps.length;
  return renderDocument({
    title: `${name} · runs`,
    main: html`${overview === null ? empty : html`<nav aria-label="Exports"><a href="${overview}">All exports</a></nav>`}
<header>
<p class="eyebrow">Report Exporter · ${origin.deployment}</p>
<h1>${name}${newest === undefined ? empty : html` <span class="state ${toneOfState[newest.state]}">${newest.state}</span>`}</h1>
<p class="lead">${describeRuns(history)}</p>
${newestGaps.map((gap) => html`<p class="reason">${describeGap(gap)}</p>`)}
${moreGaps === 0 ? empty : html`<p class="more">And ${plural(moreGaps, 'more gap')}, in the table below.</p>`}
${[...unreadable].map(([run, error]) => html`<p class="reason"><strong>Run ${run} cannot be read</strong> ${error.name}: ${error.message}</p>`)}
<dl class="figures">
${figures(runs)}
</dl>
<dl class="facts">
${definition('Watermark', watermark === null ? 'none' : time(watermark))}
${definition('Last completed', completedAt === null ? 'never' : time(completedAt))}
${definition('Next start', describeNext(next))}
</dl>
</header>
<section>
<h2>Runs</h2>
${historyTable(history, { addressOf })}
</section>`,
    footer: footer(origin),
  });
}

function figures(runs: readonly HistoryRun[]): Html {
  const sum = (valueOf: (run: HistoryRun) => number) => runs.reduce((total, run) => total + valueOf(run), 0);
  const count = (state: RunState) => runs.filter((run) => run.state === state).length;
  const isCounted = runs.every(({ reports }) => reports !== null);
  return html`${definition('Runs', formatNumber(runs.length))}
${definition('Completed', formatNumber(count('completed')))}
${count('empty') === 0 ? empty : definition('Empty', formatNumber(count('empty')))}
${definition('Pages', formatNumber(sum(({ pages }) => pages)))}
${definition('Reports', isCounted ? formatNumber(sum(({ reports }) => reports ?? 0)) : 'not counted')}
${definition('Size', formatBytes(sum(({ bytes }) => bytes)))}`;
}

function describeNext(next: NextStart | null): Html | string {
  switch (next?.kind) {
    case 'scheduled':
      return html`${next.approximate ? 'about ' : ''}${time(next.at)}`;
    case 'disabled':
      return 'schedule disabled';
    case 'manual':
      return 'no schedule';
    case undefined:
      return 'unknown';
  }
}

/** A page for a run that cannot be read, so that links to it are not broken. */
export function renderUnreadableRun(
  { export: name, run, error }: { readonly export: string; readonly run: RunId; readonly error: ReadError },
  neighbors: RunNeighbors,
  origin: RunReportOrigin,
): string {
  return renderDocument({
    title: `${name} · run ${run} · cannot be read`,
    main: html`${runNavigation(neighbors)}
<header>
<p class="eyebrow">Report Exporter · ${origin.deployment}</p>
<h1>${name} <span class="state bad">unreadable</span></h1>
<p class="run">Run <code>${run}</code></p>
<p class="lead">This run cannot be read.</p>
<p class="reason"><strong>${error.name}</strong> ${error.message}</p>
</header>`,
    footer: footer(origin),
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

const toneOfCategory: Readonly<Record<Category, string>> = {
  unreadable: 'bad',
  damaged: 'bad',
  failed: 'bad',
  stopped: 'idle',
  stale: 'bad',
  running: 'busy',
  completed: 'good',
  never: 'idle',
};

/** All exports of a deployment; what needs attention comes first. */
export function renderOverview(rows: readonly OverviewRow[], origin: RunReportOrigin): string {
  const entries = rows.map(({ entry }) => entry);
  const rowOf = new Map(rows.map((row) => [row.entry.export, row]));
  return renderDocument({
    title: `Exports · ${origin.deployment}`,
    main: html`<header>
<p class="eyebrow">Report Exporter</p>
<h1>${origin.deployment}</h1>
<p class="lead">${summarizeStatuses(entries)}.</p>
</header>
<section>
<h2>Exports</h2>
<div class="scroll" role="region" aria-label="Exports as a table" tabindex="0">
<table class="runs exports">
<thead><tr>
<th scope="col">Export</th><th scope="col">State</th><th scope="col">Last completed (UTC)</th><th scope="col">Reports</th>
<th scope="col">Size</th><th scope="col">Runs</th><th scope="col">Note</th>
</tr></thead>
<tbody>
${sortStatuses(entries).map(({ export: name }) => {
  const row = rowOf.get(name);
  return row === undefined ? empty : overviewRow(row);
})}
</tbody>
</table>
</div>
<p>State, reports and size are those of the newest run.</p>
</section>`,
    footer: footer(origin),
  });
}

function overviewRow({ entry, index }: OverviewRow): Html {
  const category = categoryOf(entry);
  const state = category === 'never' ? 'never completed' : category;
  const isReadable = !('error' in entry);
  const completedAt = isReadable ? entry.completedAt : null;
  return html`<tr>
<th scope="row">${index === null ? entry.export : html`<a href="${index.address}">${entry.export}</a>`}</th>
<td><span class="dot ${toneOfCategory[category]}">${state}</span></td>
<td data-label="Last completed">${completedAt === null ? '–' : html`<time datetime="${completedAt}">${formatInstantWithoutZone(completedAt)}</time>`}</td>
<td data-label="Reports">${isReadable && entry.reports !== null ? formatNumber(entry.reports) : '–'}</td>
<td data-label="Size">${isReadable ? formatBytes(entry.bytes) : '–'}</td>
<td data-label="Runs">${index === null ? '–' : formatNumber(index.runs)}</td>
<td>${overviewNotes(entry, index).join('. ')}</td>
</tr>
`;
}

function overviewNotes(entry: StatusEntry, index: OverviewRow['index']): string[] {
  if ('error' in entry) return [`${entry.error.name}: ${entry.error.message}`];
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
