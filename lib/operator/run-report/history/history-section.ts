/** The runs of an export as a table, with bars to compare them and a row for each gap. */

import type { Instant, RunId } from '../../../core/model.ts';
import type { IncidentCounts } from '../../../target/target.ts';
import type { RunState } from '../../run-status.ts';
import { epochMsOf } from '../../../core/timestamps.ts';
import { plural } from '../../output/format.ts';
import { formatBytes, formatDuration, formatInstant, formatInstantWithoutZone, formatNumber } from '../format.ts';
import { empty, type Html, html } from '../markup.ts';
import { toneOfState } from '../overview.ts';
import type { Gap } from './gaps.ts';
import { durationMs, type HistoryRun, type ReadError, type RunHistory } from './run-history.ts';

/** The relative address of the page of a run; undefined if no page of it is written. */
export type AddressOf = (run: RunId) => string | undefined;

/** The pages beside the page of a run. */
export interface RunNeighbors {
  /** The address of the index. */
  readonly index: string;
  readonly older: string | null;
  readonly newer: string | null;
  readonly addressOf: AddressOf;
}

export function runNavigation({ index, older, newer }: RunNeighbors): Html {
  return html`<nav aria-label="Runs"><a href="${index}">All runs</a>
${older === null ? empty : html`<a href="${older}" rel="prev">← Older run</a>`}
${newer === null ? empty : html`<a href="${newer}" rel="next">Newer run →</a>`}</nav>`;
}

/** For the report of the run `current`. */
export function historySection(history: RunHistory, current: RunId, addressOf?: AddressOf): Html {
  const isListed = history.runs.some(({ run }) => run === current);
  return html`<section>
<h2>Recent runs</h2>
<p>${describeRuns(history)}${isListed ? '' : ' This run is older.'}</p>
${historyTable(history, { current, addressOf })}
</section>`;
}

export interface TableOptions {
  readonly current?: RunId | undefined;
  readonly addressOf?: AddressOf | undefined;
}

/** Runs, gaps, and what is not known about them. */
export function historyTable(history: RunHistory, options: TableOptions): Html {
  const { runs, gaps } = history;
  if (runs.length === 0) return notes(history);
  const max = { duration: Math.max(...runs.map(durationMs)), pages: Math.max(...runs.map(({ pages }) => pages)) };
  const gapBefore = new Map(gaps.map((gap) => [gap.before, gap]));
  return html`<div class="scroll" role="region" aria-label="Runs as a table" tabindex="0">
<table class="runs">
<thead><tr>
<th scope="col">Started (UTC)</th><th scope="col">State</th><th scope="col">Duration</th><th scope="col">Pages</th>
<th scope="col">Reports</th><th scope="col">Size</th><th scope="col">Retries and waits</th>
</tr></thead>
<tbody>
${runs.map((run) => {
  const gap = gapBefore.get(run.run);
  return html`${runRow(run, max, options)}${gap === undefined ? empty : gapRow(gap)}`;
})}
</tbody>
</table>
</div>
${notes(history)}`;
}

function runRow(run: HistoryRun, max: { duration: number; pages: number }, { current, addressOf }: TableOptions): Html {
  const { startedAt, state, pages, reports, bytes } = run;
  const isCurrent = run.run === current;
  const start = html`<time datetime="${startedAt}">${formatInstantWithoutZone(startedAt)}</time>`;
  const address = isCurrent ? undefined : addressOf?.(run.run);
  const link = address === undefined ? start : html`<a href="${address}">${start}</a>`;
  const duration = durationMs(run);
  return html`<tr${isCurrent ? html` class="current" aria-current="page"` : empty}>
<th scope="row">${link}${isCurrent ? html` <span class="here">this run</span>` : empty}</th>
<td><span class="dot ${toneOfState[state]}">${state}</span></td>
<td>${formatDuration(duration)}${bar(duration, max.duration)}</td>
<td>${formatNumber(pages)}${bar(pages, max.pages)}</td>
<td>${reports === null ? '–' : formatNumber(reports)}</td>
<td>${formatBytes(bytes)}</td>
<td>${describeIncidents(run.incidents)}</td>
</tr>
`;
}

/** Its width is an attribute, because the content security policy forbids inline styles. */
function bar(value: number, max: number): Html {
  const percent = max === 0 ? 0 : Math.round((1_000 * value) / max) / 10;
  return html`<svg class="bar" aria-hidden="true"><rect width="${percent}%" height="100%"></rect></svg>`;
}

function gapRow(gap: Gap): Html {
  return html`<tr class="gap"><td colspan="7"><span>${describeGap(gap)}</span></td></tr>
`;
}

export function describeGap({ from, to, closedBy }: Gap): Html {
  const length = formatDuration(epochMsOf(to) - epochMsOf(from));
  return html`<strong>Gap of ${length}</strong> No completed run covers the reports dated from ${instant(from)} to ${instant(to)}.
${closing[closedBy ?? 'nothing']}`;
}

const instant = (at: Instant): Html => html`<time datetime="${at}">${formatInstant(at)}</time>`;

const sinceOption = html`<code class="option">--since</code>`;

const closing = {
  'unfinished-run': html`The unfinished run covers them once it is completed.`,
  'next-run': html`The next run starts before them, unless it is given another ${sinceOption}.`,
  nothing: html`To export them, start a run with ${sinceOption} at or before the beginning of the gap.`,
} as const;

function describeIncidents(incidents: HistoryRun['incidents']): string {
  if (incidents === 'not-read') return 'not read';
  if (incidents === 'not-recorded') return 'not recorded';
  if ('message' in incidents) return 'not readable';
  return describeCounts(incidents) || '–';
}

function describeCounts({ failedAttempts, waits, waitSeconds, failures }: IncidentCounts): string {
  const retries = failedAttempts === 1 ? '1 retry' : `${formatNumber(failedAttempts)} retries`;
  return [
    ...(failedAttempts === 0 ? [] : [retries]),
    ...(waits === 0 ? [] : [`${plural(waits, 'wait')} (${formatDuration(waitSeconds * 1_000)})`]),
    ...(failures === 0 ? [] : [plural(failures, 'failure')]),
  ].join(', ');
}

const states: readonly RunState[] = ['running', 'completed', 'empty', 'damaged', 'failed', 'stopped', 'abandoned'];

/** How many runs there are, how they ended, and how long a published one usually takes. */
export function describeRuns(history: RunHistory): string {
  const { runs, gaps } = history;
  if (runs.length === 0) return 'No runs are known.';
  const count = countRuns(history);
  const byState = states.flatMap((state) => {
    const ofState = runs.filter((run) => run.state === state).length;
    return ofState === 0 ? [] : [`${formatNumber(ofState)} ${state}`];
  });
  const durations = runs
    .filter(({ state }) => state === 'completed')
    .map(durationMs)
    .sort((a, b) => a - b);
  const median = durations[Math.floor((durations.length - 1) / 2)];
  const sentences = [
    `${count}: ${byState.join(', ')}.`,
    ...(median === undefined || durations.length < 3
      ? []
      : [`Half of the completed runs took ${formatDuration(median)} or less.`]),
    ...(gaps.length === 0
      ? []
      : [`There ${gaps.length === 1 ? 'is 1 gap' : `are ${gaps.length} gaps`} between the dates that they cover.`]),
  ];
  return sentences.join(' ');
}

function countRuns({ runs, hasNewer, hasOlder }: RunHistory): string {
  const { length } = runs;
  if (hasNewer) return `${plural(length, 'run')} around this one`;
  if (hasOlder) return length === 1 ? 'The newest run' : `The ${formatNumber(length)} newest runs`;
  return length === 1 ? 'The only run' : `All ${formatNumber(length)} runs`;
}

/** What could not be read, and why. */
function notes({ runs, unknownDates, error }: RunHistory): Html {
  const count = (incidents: HistoryRun['incidents']) => runs.filter((run) => run.incidents === incidents).length;
  const errors = runs.flatMap(({ incidents }) =>
    typeof incidents === 'object' && 'message' in incidents ? [incidents] : [],
  );
  const [firstError] = errors;
  const notRead = count('not-read');
  const notRecorded = count('not-recorded');
  const texts = [
    ...(error === null ? [] : [`Older runs cannot be listed: ${describeError(error)}`]),
    ...(notRead === 0
      ? []
      : [
          `Retries and waits of ${plural(notRead, 'run')} were not read: with so many pages, this would take too many requests.`,
        ]),
    ...(notRecorded === 0
      ? []
      : [
          `Retries and waits of ${plural(notRecorded, 'run')} are not recorded: Step Functions keeps them for 90 days.`,
        ]),
    ...(firstError === undefined
      ? []
      : [`Retries and waits of ${plural(errors.length, 'run')} cannot be read: ${describeError(firstError)}`]),
    ...(unknownDates === 0
      ? []
      : [
          `The dates that ${plural(unknownDates, 'run')} covered are not known, so there may be gaps that are not shown.`,
        ]),
  ];
  return texts.length === 0 ? empty : html`<ul class="notes">${texts.map((text) => html`<li>${text}</li>`)}</ul>`;
}

const describeError = ({ name, message }: ReadError): string => `${name}: ${message}`;
