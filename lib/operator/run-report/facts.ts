/** The report's words on the run as a whole: how it stands, what it asked for, where its files are. */

import type { Instant } from '../../core/model.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import type { ReportedRun, RunReportData } from './data.ts';
import { amounts, duration, moment, number, size } from './format.ts';
import { type Html, html, nothing } from './markup.ts';

const tones: Readonly<Record<ReportedRun['state'], string>> = {
  completed: 'good',
  running: 'busy',
  failed: 'bad',
  stopped: 'idle',
  abandoned: 'idle',
};

export function header(data: RunReportData): Html {
  const { run, place, totals, failure } = data;
  return html`<header>
<p class="eyebrow">Report Exporter · ${place}</p>
<h1>${run.export} <span class="state ${tones[run.state]}">${run.state}</span></h1>
<p class="run">Run <code>${run.run}</code></p>
<p class="lead">${outcome(data)}</p>
${failure === null ? nothing : html`<p class="reason"><strong>${failure.error}</strong> ${failure.message}</p>`}
<dl class="figures">
${figure('Pages', number(totals.pages))}
${figure('Reports', totals.reports === null ? 'not counted' : number(totals.reports))}
${figure('Size', size(totals.bytes))}
${figure(run.state === 'running' ? 'Time so far' : 'Time', duration(elapsed(data)))}
${figure('Pages a minute', pace(data))}
</dl>
<dl class="facts">
${fact('Reports dated from', run.since === null ? html`not remembered` : time(run.since))}
${run.watermark === null ? nothing : fact('New watermark', time(run.watermark))}
${fact('Started', time(run.startedAt))}
${run.completedAt === null ? fact(lastSign(run.state), time(data.endedAt)) : fact('Completed', time(run.completedAt))}
</dl>
</header>`;
}

const figure = (name: string, value: string): Html => html`<div><dt>${name}</dt><dd>${value}</dd></div>`;

const fact = (name: string, value: Html): Html => html`<div><dt>${name}</dt><dd>${value}</dd></div>`;

const time = (instant: Instant): Html => html`<time datetime="${instant}">${moment(instant)}</time>`;

const lastSign = (state: ReportedRun['state']): string => (state === 'running' ? 'As of' : 'Last sign of life');

const elapsed = ({ run, endedAt }: RunReportData): number => Math.max(0, epochMsOf(endedAt) - epochMsOf(run.startedAt));

/** Of a run that was over at once it says nothing. */
function pace(data: RunReportData): string {
  const ms = elapsed(data);
  return data.totals.pages < 2 || ms < 1_000 ? '–' : number((data.totals.pages * 60_000) / ms);
}

function outcome({ run, totals }: RunReportData): Html {
  const gone = totals.pages === 0 ? 'before its first page' : `behind page ${number(totals.pages)}`;
  switch (run.state) {
    case 'completed':
      return run.watermark === null
        ? html`It exported every matching report: ${amounts(totals)}.`
        : html`It exported every matching report: ${amounts(totals)}. The next scheduled run starts at the watermark.`;
    case 'running':
      return totals.pages === 0
        ? html`It has begun; no page is logged yet.`
        : html`It is at work: ${amounts(totals)} so far. Nothing is published before its last page.`;
    case 'failed':
      return html`It failed ${gone}. Nothing of it is published; the next start goes on from there.`;
    case 'stopped':
      return html`It stopped ${gone}, and nobody works on it. Nothing of it is published; the next start goes on from there.`;
    case 'abandoned':
      return html`It was abandoned ${gone}. Nothing of it is published.`;
  }
}

export function requestSection({ run }: RunReportData): Html {
  const unknown = 'not remembered';
  return html`<section>
<h2>What it asked for</h2>
<dl class="facts wide">
${fact('Filter', html`<code>${run.filter === null ? unknown : JSON.stringify(run.filter)}</code>`)}
</dl>
<dl class="facts">
${fact('Format', html`${run.format ?? unknown}`)}
${fact('Container', html`${run.container ?? unknown}`)}
${fact('Reports a page', html`${run.size ?? (run.format === null ? unknown : 'as many as the service sends')}`)}
</dl>
</section>`;
}

export function filesSection({ run, firstPage, lastPage, option }: RunReportData): Html {
  const path = (location: string) => html`<code class="path">${location}</code>`;
  const manifest = run.manifest === null ? html`not written: nothing is published` : path(run.manifest);
  return html`<section>
<h2>Where its files are</h2>
<dl class="facts wide">
${fact('Manifest', manifest)}
${fact('Folder', path(run.folder))}
${firstPage === null ? nothing : fact('First page', path(firstPage))}
${lastPage === null ? nothing : fact('Last page', path(lastPage))}
</dl>
${howToCheck(run, option)}
</section>`;
}

/** Of a run that was abandoned there is nothing to hold its pages against. */
function howToCheck({ export: name, run, state }: ReportedRun, option: string): Html {
  if (state === 'abandoned') return nothing;
  const purpose =
    state === 'completed'
      ? 'To read every page again and compare sizes, SHA-256, numbers and cursors with the manifest and the page log:'
      : 'To compare what is stored so far with the page log:';
  return html`<p>${purpose}</p>
<pre><code>npx report-exporter verify ${name} --run ${run} ${option}</code></pre>`;
}

export function footer({ madeAt, place }: RunReportData): Html {
  return html`<footer>
<p>Made from the page log and the history of ${place} at ${time(madeAt)}. Times are in UTC, by the exporter’s own clock.
This file is complete in itself and asks no network for anything.</p>
</footer>`;
}
