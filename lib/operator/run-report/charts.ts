/** The places of the charts, and beside each the same facts in words, for whoever cannot see it. */

import type { Instant } from '../../core/model.ts';
import { epochMsOf, instantOf } from '../../core/timestamps.ts';
import { plural } from '../output/format.ts';
import type { PagePoint, RunReportData } from './data.ts';
import { clockTime, duration, moment, number, percent, size } from './format.ts';
import type { Group } from './incident-digest.ts';
import { type Html, html, nothing } from './markup.ts';
import { pagesTable } from './pages-table.ts';
import { meanOf, type Spread, together } from './statistics.ts';

export function chartsSection(data: RunReportData): Html {
  const { latency, totals } = data;
  return html`${figure({
    id: 'timeline',
    title: 'Pages over time',
    text: timelineText(data),
    key: timelineKey(data),
  })}
${
  latency === null
    ? html`<section><h2>Where the time of each page went</h2>
<p>Nobody knows: every page was found in the store by whoever logged it, left there by an attempt that could not log it.</p></section>`
    : html`${figure({ id: 'time', title: 'Where the time of each page went', text: timeText(data), key: timeKey })}
${figure({ id: 'latency', title: 'Service latency', text: latencyText(data), key: nothing, hasChart: totals.pages - data.adopted > 1 })}`
}
<div class="pair">
${spreadFigure('bytes', 'Size of the pages', data.points, size)}
${totals.reports === null ? nothing : spreadFigure('reports', 'Reports in the pages', data.points, number)}
</div>
${pagesTable(data)}`;
}

interface Figure {
  readonly id: string;
  readonly title: string;
  readonly text: string;
  readonly key: Html;
  /** Not where words have said all that there is. */
  readonly hasChart?: boolean;
}

const figure = ({ id, title, text, key, hasChart = true }: Figure): Html => html`<figure>
<h2 id="${id}-title">${title}</h2>
<figcaption id="${id}-text">${text}</figcaption>
${key}
${hasChart ? place(id) : nothing}
</figure>
`;

const place = (
  id: string,
): Html => html`<div class="chart" id="${id}" role="img" aria-labelledby="${id}-title" aria-describedby="${id}-text"></div>
<p class="readout" id="${id}-readout" aria-hidden="true"></p>`;

const timeKey = html`<ul class="key">
<li><span class="swatch before"></span>before it was asked for</li>
<li><span class="swatch latency"></span>until the service answered</li>
<li><span class="swatch transfer"></span>transfer, storing, logging</li>
</ul>`;

function timelineKey({ incidents: { groups } }: RunReportData): Html {
  const has = (kind: string) => groups.some((group) => group.kind === kind);
  if (groups.length === 0) return nothing;
  return html`<ul class="key">
<li><span class="swatch line"></span>pages logged</li>
${has('wait') ? html`<li><span class="mark wait"></span>wait that the service asked for</li>` : nothing}
${has('failed-attempt') ? html`<li><span class="mark attempt"></span>failed attempt</li>` : nothing}
${has('failed-run') ? html`<li><span class="mark failure"></span>the run failed</li>` : nothing}
</ul>`;
}

function timelineText({ run, points, totals, endedAt, time: { maxGap }, incidents }: RunReportData): string {
  const half = points.find(({ firstPage, pages }) => (firstPage + pages - 1) * 2 >= totals.pages);
  const held = (kind: Group['kind'], noun: string) => {
    const count = incidents.groups.filter((group) => group.kind === kind).reduce((sum, group) => sum + group.count, 0);
    return count === 0 ? [] : [plural(count, noun)];
  };
  const incident = [
    ...held('wait', 'wait'),
    ...held('failed-attempt', 'failed attempt'),
    ...held('failed-run', 'failure'),
  ];
  return sentences(
    `${plural(totals.pages, 'page')} logged, ${timeSpan(run.startedAt, endedAt)}`,
    half && totals.pages > 9 && `half of them were there at ${clockTime(instantOf(Math.floor(half.loggedAt)))}`,
    maxGap &&
      totals.pages > 1 &&
      `the longest time without a new page was ${duration(maxGap.ms)}, before page ${number(maxGap.page)}`,
    incident.length > 0 && `held up by ${incident.join(', ')}`,
  );
}

function timeSpan(from: Instant, to: Instant): string {
  const sameDay = from.slice(0, 10) === to.slice(0, 10);
  if (moment(from) === moment(to)) return moment(from);
  return `${moment(from).replace(' UTC', '')} to ${sameDay ? `${clockTime(to)} UTC` : moment(to)}`;
}

function timeText({ time: { before, latency, transfer }, adopted, pagesPerPoint }: RunReportData): string {
  const all = before + latency + transfer;
  return sentences(
    `of ${duration(all)}, ${percent(before, all)} passed before a page was asked for (the step between two pages, waits, ` +
      `failed attempts), ${percent(latency, all)} until the service began to answer, and ${percent(transfer, all)} for ` +
      'transfer, storing and logging',
    adopted > 0 && `${plural(adopted, 'page')} found in the store, and not timed`,
    pagesPerPoint > 1 && `each column is the mean of ${number(pagesPerPoint)} pages`,
  );
}

function latencyText({ latency, totals, adopted, pagesPerPoint }: RunReportData): string {
  if (latency === null) return '';
  if (totals.pages - adopted === 1) return sentences(`the service began to answer within ${duration(latency.max)}`);
  const { median, p95, max, slowestPage } = latency;
  return sentences(
    `half of the answers began within ${duration(median)} (median), 95 of 100 within ${duration(p95)} (p95)`,
    `the slowest took ${duration(max)}, for page ${number(slowestPage)}`,
    pagesPerPoint > 1 && `the line is the mean of ${number(pagesPerPoint)} pages each, the shade their range`,
  );
}

/** Where all are the same there is nothing to draw. */
function spreadFigure(
  id: 'bytes' | 'reports',
  title: string,
  points: readonly PagePoint[],
  word: (value: number) => string,
): Html {
  const all = points.map((point) => point[id]).reduce((a, b) => together(a, b), null);
  if (all === null) return nothing;
  const text =
    all.min === all.max
      ? `${word(all.max)}${all.count === 1 ? '' : ' each'}`
      : `${word(all.min)} to ${word(all.max)}, ${word(meanOf(all))} on average`;
  return figure({ id, title, text: sentences(text), key: nothing, hasChart: all.min !== all.max });
}

function sentences(...parts: readonly (string | false | null | undefined)[]): string {
  const said = parts.filter((part) => typeof part === 'string' && part !== '');
  return said.map((part) => `${String(part).charAt(0).toUpperCase()}${String(part).slice(1)}.`).join(' ');
}

// MERGED chart-data.ts: What the charts draw, by columns: the form the charting library takes, and half the size of a list of objects.

/** Read by `charts.js`. Moments are in seconds since the epoch, times in milliseconds. */
export function chartData({ run, endedAt, points, pagesPerPoint, latency, incidents }: RunReportData) {
  const column = (of: (point: PagePoint) => Spread | null) => points.map((point) => shown(of(point), meanOf));
  const range = (of: (point: PagePoint) => Spread | null) =>
    pagesPerPoint === 1
      ? null
      : [
          points.map((point) => shown(of(point), (it) => it.min)),
          points.map((point) => shown(of(point), (it) => it.max)),
        ];
  const marks = (kind: 'wait' | 'failed-attempt' | 'failed-run') =>
    incidents.marks
      .filter((mark) => mark.kind === kind)
      .map(({ at, seconds, count }) => [at / 1_000, kind === 'wait' ? seconds : count]);
  return {
    start: epochMsOf(run.startedAt) / 1_000,
    end: epochMsOf(endedAt) / 1_000,
    pagesPerPoint,
    firstPage: points.map((point) => point.firstPage),
    pages: points.map((point) => point.pages),
    loggedAt: points.map((point) => point.loggedAt / 1_000),
    before: column((point) => point.before),
    latency: column((point) => point.latency),
    latencyRange: range((point) => point.latency),
    transfer: column((point) => point.transfer),
    bytes: column((point) => point.bytes),
    bytesRange: range((point) => point.bytes),
    reports: column((point) => point.reports),
    reportsRange: range((point) => point.reports),
    median: latency?.median ?? null,
    p95: latency?.p95 ?? null,
    waits: marks('wait'),
    attempts: marks('failed-attempt'),
    failures: marks('failed-run'),
  };
}

/** Tenths are finer than any chart. */
const shown = (spread: Spread | null, of: (spread: Spread) => number): number | null =>
  spread === null ? null : Math.round(of(spread) * 10) / 10;
