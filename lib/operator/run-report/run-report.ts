/** The page of a run: its outcome, charts, retries and waits, request and files, and perhaps the recent runs of its export. */

import type { RunId } from '../../core/model.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import { totals as formatTotals, plural } from '../output/format.ts';
import { chartData, chartsSection } from './charts.ts';
import { failureOf, type RunFacts, type RunReportData } from './data.ts';
import { delaysSection } from './delays.ts';
import { formatBytes, formatDuration, formatNumber } from './format.ts';
import { empty, type Html, html } from './markup.ts';
import { type Fact, factList, renderPage, time, unknown } from './page.ts';
import { describeRuns, runsTable } from './list-pages.ts';
import type { RunHistory } from './run-history.ts';

export interface RunContext {
  /** The recent runs of the export. */
  readonly history?: RunHistory;
  /** Links to other pages. */
  readonly links?: readonly Html[];
}

export function renderRunReport(data: RunReportData, { history, links }: RunContext = {}): string {
  const { run, totals, points, endedAt, origin } = data;
  const failure = failureOf(run);
  const durationMs = Math.max(0, epochMsOf(endedAt) - epochMsOf(run.startedAt));
  // Not meaningful for a run of one page or less than a second.
  const isRateKnown = totals.pages > 1 && durationMs >= 1_000;
  const endLabel = run.completedAt !== null ? 'Completed' : run.state === 'running' ? 'As of' : 'Last activity';
  return renderPage({
    title: `${run.export} · run ${run.run} · ${run.state}`,
    eyebrow: `Report Exporter · ${origin.deployment}`,
    heading: run.export,
    state: run.state,
    run: run.run,
    lead: describeOutcome(data),
    problems: [
      ...(failure === null ? [] : [html`<strong>${failure.error}.</strong> ${failure.message}`]),
      ...(run.slices?.setAside ?? []).map(
        ({ slice, error, message }) => html`<strong>Slice ${slice} is set aside: ${error}.</strong> ${message}`,
      ),
    ],
    figures: [
      ['Pages', formatNumber(totals.pages)],
      ['Reports', totals.reports === null ? 'not counted' : formatNumber(totals.reports)],
      ['Size', formatBytes(totals.bytes)],
      [run.state === 'running' ? 'Duration so far' : 'Duration', formatDuration(durationMs)],
      ['Pages per minute', isRateKnown ? formatNumber((totals.pages * 60_000) / durationMs) : '–'],
    ],
    facts: [
      ['Reports dated from', run.since === null ? unknown : time(run.since)],
      ...(run.until === undefined
        ? []
        : [[run.bounded ? 'and before (bounded run)' : 'and before', time(run.until)] as const]),
      ...(run.slices === undefined ? [] : [['Slices', slicesText(run.slices)] as const]),
      ...(run.watermark === null ? [] : [['Watermark', time(run.watermark)] as const]),
      ['Started', time(run.startedAt)],
      [endLabel, time(endedAt)],
    ],
    sections: [
      ...(points.length === 0 ? [] : [chartsSection(data)]),
      delaysSection(data),
      ...(history === undefined ? [] : [recentRuns(history, run.run)]),
      requestSection(run),
      filesSection(data),
    ],
    origin,
    ...(links && { links }),
    ...(points.length > 0 && { charts: chartData(data) }),
  });
}

const slicesText = ({ done, count }: NonNullable<RunFacts['slices']>): string =>
  done === count ? formatNumber(count) : `${formatNumber(done)} of ${formatNumber(count)} done`;

function describeOutcome({ run, totals }: RunReportData): string {
  const place = totals.pages === 0 ? 'before its first page' : `after page ${formatNumber(totals.pages)}`;
  const next = run.watermark === null ? '' : ` ${describeNextRun(run)}.`;
  switch (run.state) {
    case 'completed':
      return `Exported every matching report: ${formatTotals(totals)}.${next}`;
    case 'empty':
      return `Found no reports. Nothing is published, because publishEmptyRuns is false.${next}`;
    case 'running':
      return totals.pages === 0
        ? 'The run has started. No page is logged yet.'
        : `In progress: ${formatTotals(totals)} so far. Nothing is published before the last page.`;
    case 'failed':
      return `Failed ${place}. Nothing is published. The next start resumes the run.`;
    case 'interrupted':
      return `Interrupted ${place}; no execution is running. Nothing is published. The next start resumes the run.`;
    case 'damaged':
      return `Exported every matching report: ${formatTotals(totals)}. But its manifest is missing or was changed, so do not rely on this run.`;
    case 'abandoned':
      return `Abandoned ${place}. Nothing is published.`;
  }
}

/** When the next run begins, and where. */
function describeNextRun({ schedule, sincePolicy }: RunFacts): string {
  const isOnAwsOnly = schedule?.kind === 'manual' && schedule.awsSchedule !== undefined;
  const subject = {
    scheduled: 'The next scheduled run',
    disabled: 'The schedule is disabled: the next run',
    manual: isOnAwsOnly ? 'The schedule applies on AWS only: the next run' : 'There is no schedule: the next run',
    unknown: 'The next run',
  }[schedule?.kind ?? 'unknown'];
  if (sincePolicy.from === 'lookback') {
    const start = schedule?.kind === 'scheduled' ? 'its scheduled time' : 'its start';
    return `${subject} starts ${formatDuration(sincePolicy.lookbackMs)} before ${start} (lookbackWindow), or at the watermark if that is earlier`;
  }
  return sincePolicy.overlapMs === 0
    ? `${subject} starts at the watermark`
    : `${subject} starts ${formatDuration(sincePolicy.overlapMs)} before the watermark (overlap)`;
}

function recentRuns(history: RunHistory, run: RunId): Html {
  const isListed = history.runs.some((listed) => listed.run === run);
  return html`<section>
<h2>Recent runs</h2>
<p>${describeRuns(history)}${isListed ? '' : ' This run is older.'}</p>
${runsTable(history, { current: run })}
</section>`;
}

function requestSection({ request }: RunFacts): Html {
  const size = request?.size ?? null;
  return html`<section>
<h2>Request</h2>
${factList('facts wide', [
  ['Service', request === null ? unknown : html`<code>${request.source}</code>`],
  ['Filter', request === null ? unknown : html`<code>${JSON.stringify(request.filter)}</code>`],
])}
${factList('facts', [
  ['Format', request?.format ?? unknown],
  ['Container', request?.container ?? unknown],
  ['Page size', size !== null ? plural(size, 'report') : request === null ? unknown : 'default of the service'],
])}
</section>`;
}

function filesSection({ run, firstPage, lastPage, origin }: RunReportData): Html {
  const path = (term: string, location: string | null): Fact[] =>
    location === null ? [] : [[term, html`<code>${location}</code>`]];
  return html`<section>
<h2>Files</h2>
${factList('facts wide', [
  ...(run.manifest === null
    ? [['Manifest', 'not written; nothing is published'] as const]
    : path('Manifest', run.manifest)),
  ...path('Folder', run.folder),
  ...path('First page', firstPage),
  ...path('Last page', lastPage),
])}
${verifyCommand(run, origin.deploymentOption)}
</section>`;
}

/** `verify` accepts published runs and the unfinished run of an export, but no other runs. */
function verifyCommand({ export: name, run, state }: RunFacts, deploymentOption: string): Html {
  if (state === 'abandoned' || state === 'empty') return empty;
  const purpose =
    state === 'completed' || state === 'damaged'
      ? 'To read all pages again and compare their sizes, SHA-256 checksums, numbers and cursors with the manifest and the page log:'
      : 'To compare the pages stored so far with the page log:';
  return html`<p>${purpose}</p>
<pre><code>report-exporter verify ${name} --run ${run} ${deploymentOption}</code></pre>`;
}
