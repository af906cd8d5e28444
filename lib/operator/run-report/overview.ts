/** The sections about the run as a whole: its outcome, its request, its files. */

import type { Instant } from '../../core/model.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import { totals as formatTotals, plural } from '../output/format.ts';
import type { RunFacts, RunReportData } from './data.ts';
import { formatBytes, formatDuration, formatInstant, formatNumber } from './format.ts';
import { empty, type Html, html } from './markup.ts';

/** CSS classes. */
export const toneOfState: Readonly<Record<RunFacts['state'], string>> = {
  completed: 'good',
  empty: 'good',
  running: 'busy',
  failed: 'bad',
  damaged: 'bad',
  stopped: 'idle',
  abandoned: 'idle',
};

export function header(data: RunReportData): Html {
  const { run, deployment, totals, failure } = data;
  return html`<header>
<p class="eyebrow">Report Exporter · ${deployment}</p>
<h1>${run.export} <span class="state ${toneOfState[run.state]}">${run.state}</span></h1>
<p class="run">Run <code>${run.run}</code></p>
<p class="lead">${outcome(data)}</p>
${failure === null ? empty : html`<p class="reason"><strong>${failure.error}</strong> ${failure.message}</p>`}
<dl class="figures">
${definition('Pages', formatNumber(totals.pages))}
${definition('Reports', totals.reports === null ? 'not counted' : formatNumber(totals.reports))}
${definition('Size', formatBytes(totals.bytes))}
${definition(run.state === 'running' ? 'Duration so far' : 'Duration', formatDuration(durationOf(data)))}
${definition('Pages per minute', pagesPerMinute(data))}
</dl>
<dl class="facts">
${definition('Reports dated from', run.since === null ? unknown : time(run.since))}
${run.watermark === null ? empty : definition('Watermark', time(run.watermark))}
${definition('Started', time(run.startedAt))}
${definition(endLabel(run), time(data.endedAt))}
</dl>
</header>`;
}

function outcome({ run, totals }: RunReportData): Html {
  const position = totals.pages === 0 ? 'before its first page' : `after page ${formatNumber(totals.pages)}`;
  switch (run.state) {
    case 'completed':
      return html`Exported every matching report: ${formatTotals(totals)}.${run.watermark === null ? '' : ` ${nextRun(run)}.`}`;
    case 'empty':
      return html`Found no reports. Nothing is published, because publishEmptyRuns is false.${run.watermark === null ? '' : ` ${nextRun(run)}.`}`;
    case 'running':
      return totals.pages === 0
        ? html`The run has started. No page is logged yet.`
        : html`In progress: ${formatTotals(totals)} so far. Nothing is published before the last page.`;
    case 'failed':
      return html`Failed ${position}. Nothing is published. The next start resumes the run.`;
    case 'stopped':
      return html`Stopped ${position}; no execution is running. Nothing is published. The next start resumes the run.`;
    case 'damaged':
      return html`Exported every matching report: ${formatTotals(totals)}. But its manifest is missing or was changed, so do not rely on this run.`;
    case 'abandoned':
      return html`Abandoned ${position}. Nothing is published.`;
  }
}

/** When the next run begins, and where. */
function nextRun({ next, sincePolicy }: RunFacts): string {
  const place = nextSince(sincePolicy, next?.kind === 'scheduled' ? 'its scheduled time' : 'its start');
  switch (next?.kind) {
    case 'scheduled':
      return `The next scheduled run starts ${place}`;
    case 'disabled':
      return `The schedule is disabled: the next run starts ${place}`;
    case 'manual':
      return `There is no schedule: the next run starts ${place}`;
    case undefined:
      return `The next run starts ${place}`;
  }
}

function nextSince(policy: RunFacts['sincePolicy'], start: string): string {
  if (policy.from === 'fixed') return `at ${formatInstant(policy.instant)}`;
  if (policy.from === 'lookback') {
    return `${formatDuration(policy.lookbackMs)} before ${start} (lookbackWindow), or at the watermark if that is earlier`;
  }
  return policy.overlapMs === 0
    ? 'at the watermark'
    : `${formatDuration(policy.overlapMs)} before the watermark (overlap)`;
}

const unknown = 'unknown';

export const definition = (term: string, value: string | Html): Html =>
  html`<div><dt>${term}</dt><dd>${value}</dd></div>`;

export const time = (instant: Instant): Html => html`<time datetime="${instant}">${formatInstant(instant)}</time>`;

function endLabel({ state, completedAt }: RunFacts): string {
  if (completedAt !== null) return 'Completed';
  return state === 'running' ? 'As of' : 'Last activity';
}

const durationOf = ({ run, endedAt }: RunReportData): number =>
  Math.max(0, epochMsOf(endedAt) - epochMsOf(run.startedAt));

/** Not meaningful for a run of one page or less than a second. */
function pagesPerMinute(data: RunReportData): string {
  const ms = durationOf(data);
  return data.totals.pages < 2 || ms < 1_000 ? '–' : formatNumber((data.totals.pages * 60_000) / ms);
}

export function requestSection({ run }: RunReportData): Html {
  const { source, filter, format, container, size } = run;
  const defaultSize = format === null ? unknown : 'default of the service';
  return html`<section>
<h2>Request</h2>
<dl class="facts wide">
${definition('Service', source === null ? unknown : html`<code>${source}</code>`)}
${definition('Filter', html`<code>${filter === null ? unknown : JSON.stringify(filter)}</code>`)}
</dl>
<dl class="facts">
${definition('Format', format ?? unknown)}
${definition('Container', container ?? unknown)}
${definition('Page size', size === null ? defaultSize : plural(size, 'report'))}
</dl>
</section>`;
}

export function filesSection({ run, firstPage, lastPage, deploymentOption }: RunReportData): Html {
  const path = (location: string) => html`<code class="path">${location}</code>`;
  return html`<section>
<h2>Files</h2>
<dl class="facts wide">
${definition('Manifest', run.manifest === null ? 'not written; nothing is published' : path(run.manifest))}
${definition('Folder', path(run.folder))}
${firstPage === null ? empty : definition('First page', path(firstPage))}
${lastPage === null ? empty : definition('Last page', path(lastPage))}
</dl>
${verifyCommand(run, deploymentOption)}
</section>`;
}

/** `verify` accepts published runs and the unfinished run of an export, but no other runs. */
function verifyCommand(facts: RunFacts, deploymentOption: string): Html {
  const { export: name, run, state } = facts;
  if (state === 'abandoned' || state === 'empty') return empty;
  const purpose =
    state === 'completed' || state === 'damaged'
      ? 'To read all pages again and compare their sizes, SHA-256 checksums, numbers and cursors with the manifest and the page log:'
      : 'To compare the pages stored so far with the page log:';
  return html`<p>${purpose}</p>
<pre><code>report-exporter verify ${name} --run ${run} ${deploymentOption}</code></pre>`;
}

export function footer({ createdAt, deployment }: Pick<RunReportData, 'createdAt' | 'deployment'>): Html {
  return html`<footer>
<p>Created from the page log and the history of ${deployment} at ${time(createdAt)}. Times are in UTC, by the clock of the
exporter. This file is self-contained and makes no network requests.</p>
</footer>`;
}
