/** The chart placeholders that `draw-charts.js` fills, each with a description that states the same facts as text. */

import type { Instant } from '../../core/model.ts';
import type { Incident } from '../../target/target.ts';
import { epochMsOf, instantOf } from '../../core/timestamps.ts';
import { plural } from '../output/format.ts';
import type { RunReportData } from './data.ts';
import {
  formatBytes,
  formatDuration,
  formatInstant,
  formatInstantWithoutZone,
  formatNumber,
  formatPercent,
  formatTimeOfDay,
} from './format.ts';
import { empty, type Html, html } from './markup.ts';
import type { PagePoint } from './page-series.ts';
import { pagesTable } from './pages-table.ts';
import { meanOf, mergeStatistics, type StatisticSet } from './statistics.ts';

export function chartsSection(data: RunReportData): Html {
  return html`${timelineFigure(data)}
${
  data.latency === null
    ? noTimesSection
    : html`${phasesFigure(data)}
${latencyFigure(data)}`
}
${perPageFigures(data)}
${pagesTable(data)}`;
}

function timelineFigure(data: RunReportData): Html {
  const { run, points, totals, endedAt, longestGap } = data;
  const halfway = points.find(({ firstPage, pages }) => (firstPage + pages - 1) * 2 >= totals.pages);
  const delays = [
    ...countOf(data, 'wait', 'wait'),
    ...countOf(data, 'failed-attempt', 'failed attempt'),
    ...countOf(data, 'failed-run', 'run failure'),
  ];
  const text = sentences(
    `${plural(totals.pages, 'page')} logged ${timeRange(run.startedAt, endedAt)}`,
    halfway &&
      totals.pages > 9 &&
      `half of them were logged by ${formatTimeOfDay(instantOf(Math.floor(halfway.loggedAt)))}`,
    longestGap &&
      totals.pages > 1 &&
      `the longest time without a new page was ${formatDuration(longestGap.ms)}, before page ${formatNumber(longestGap.page)}`,
    delays.length > 0 && `delayed by ${new Intl.ListFormat('en').format(delays)}`,
  );
  return figure({ id: 'timeline', title: 'Pages over time', text, key: timelineKey(data) });
}

function countOf({ incidents }: RunReportData, kind: Incident['kind'], noun: string): string[] {
  const count = incidents.groups.reduce((sum, group) => (group.kind === kind ? sum + group.count : sum), 0);
  return count === 0 ? [] : [plural(count, noun)];
}

function timeRange(from: Instant, to: Instant): string {
  if (formatInstant(from) === formatInstant(to)) return `at ${formatInstant(from)}`;
  const isSameDay = from.slice(0, 10) === to.slice(0, 10);
  return `from ${formatInstantWithoutZone(from)} to ${isSameDay ? `${formatTimeOfDay(to)} UTC` : formatInstant(to)}`;
}

function timelineKey({ incidents: { groups } }: RunReportData): Html {
  const has = (kind: Incident['kind']) => groups.some((group) => group.kind === kind);
  if (groups.length === 0) return empty;
  return html`<ul class="key">
<li><span class="swatch line"></span>pages logged</li>
${has('wait') ? html`<li><span class="mark wait"></span>wait requested by the service</li>` : empty}
${has('failed-attempt') ? html`<li><span class="mark attempt"></span>failed attempt</li>` : empty}
${has('failed-run') ? html`<li><span class="mark failure"></span>run failure</li>` : empty}
</ul>`;
}

const phasesTitle = 'Time per page by phase';

const noTimesSection = html`<section><h2>${phasesTitle}</h2>
<p>Not available: every page was adopted. An earlier attempt stored the pages but could not log them, so their times were
not recorded.</p></section>`;

function phasesFigure({ timeByPhase, adoptedPages, pagesPerPoint }: RunReportData): Html {
  const { between, latency, transfer } = timeByPhase;
  const total = between + latency + transfer;
  const text = sentences(
    `of ${formatDuration(total)}, ${formatPercent(between, total)} passed between pages (state transitions, waits, failed ` +
      `attempts), ${formatPercent(latency, total)} until the response started, and ${formatPercent(transfer, total)} in ` +
      'transfer, storage and logging',
    adoptedPages > 0 && `no times for ${plural(adoptedPages, 'adopted page')}`,
    pagesPerPoint > 1 && `each column is the mean of ${formatNumber(pagesPerPoint)} pages`,
  );
  const key = html`<ul class="key">
<li><span class="swatch between"></span>between pages</li>
<li><span class="swatch latency"></span>until the response started</li>
<li><span class="swatch transfer"></span>transfer, storage, logging</li>
</ul>`;
  return figure({ id: 'phases', title: phasesTitle, text, key });
}

function latencyFigure({ latency, totals, adoptedPages, pagesPerPoint }: RunReportData): Html {
  if (latency === null) return empty;
  const { min, median, p95, max, slowestPage } = latency;
  const isSinglePage = totals.pages - adoptedPages === 1;
  const text = isSinglePage
    ? sentences(`the response started within ${formatDuration(max)}`)
    : p95 === null
      ? sentences(
          `between ${formatDuration(min)} and ${formatDuration(max)}, ${formatDuration(median)} in the middle (median)`,
          `the slowest was page ${formatNumber(slowestPage)}`,
        )
      : sentences(
          `50% of the responses started within ${formatDuration(median)} (median), 95% within ${formatDuration(p95)} (p95)`,
          `the slowest took ${formatDuration(max)}, for page ${formatNumber(slowestPage)}`,
          pagesPerPoint > 1 &&
            `the line is the mean of ${formatNumber(pagesPerPoint)} pages each, the shaded area their range`,
        );
  return figure({ id: 'latency', title: 'Service latency', text, hasChart: !isSinglePage });
}

/** Sizes and reports per page: charts, or only the value if all pages have the same. */
function perPageFigures({ points, totals }: RunReportData): Html {
  const bytes = pageStatistics('bytes', 'Size of each page', points, formatBytes);
  const reports =
    totals.reports === null ? [] : pageStatistics('reports', 'Reports on each page', points, formatNumber);
  const all = [...bytes, ...reports];
  const charts = all.filter(({ min, max }) => min !== max);
  const constants = all.filter(({ min, max }) => min === max);
  return html`${charts.length === 0 ? empty : html`<div class="pair">${charts.map(statisticsFigure)}</div>`}
${constants.length === 0 ? empty : html`<dl class="facts constants">${constants.map(({ title, max, format }) => html`<div><dt>${title}</dt><dd>${format(max)}</dd></div>`)}</dl>`}`;
}

interface PageStatistics extends StatisticSet {
  readonly id: 'bytes' | 'reports';
  readonly title: string;
  readonly format: (value: number) => string;
}

/** Of all pages; empty if no page has the value. */
function pageStatistics(
  id: PageStatistics['id'],
  title: string,
  points: readonly PagePoint[],
  format: PageStatistics['format'],
): PageStatistics[] {
  const all = points.map((point) => point[id]).reduce((a, b) => mergeStatistics(a, b), null);
  return all === null ? [] : [{ ...all, id, title, format }];
}

function statisticsFigure(statistics: PageStatistics): Html {
  const { id, title, min, max, format } = statistics;
  const text = `${format(min)} to ${format(max)}, ${format(meanOf(statistics))} on average`;
  return figure({ id, title, text: sentences(text) });
}

interface Figure {
  readonly id: string;
  readonly title: string;
  readonly text: string;
  readonly key?: Html;
  /** False if the text contains all values. */
  readonly hasChart?: boolean;
}

function figure({ id, title, text, key = empty, hasChart = true }: Figure): Html {
  const chart = html`<div class="chart" id="${id}" role="img" aria-labelledby="${id}-title" aria-describedby="${id}-text"></div>
<p class="readout" id="${id}-readout" aria-hidden="true"></p>`;
  return html`<figure>
<h2 id="${id}-title">${title}</h2>
<figcaption id="${id}-text">${text}</figcaption>
${key}
${hasChart ? chart : empty}
</figure>
`;
}

/** Capitalizes and joins the parts that are present. */
function sentences(...parts: readonly (string | false | null | undefined)[]): string {
  return parts
    .filter((part) => typeof part === 'string')
    .map((part) => `${part.charAt(0).toUpperCase()}${part.slice(1)}.`)
    .join(' ');
}

/**
 * The values that `draw-charts.js` draws, by column: the form that uPlot takes, and half the size of a list of objects.
 * Instants are in seconds since the epoch, durations in milliseconds.
 */
export function chartData({ run, endedAt, points, pagesPerPoint, latency, incidents }: RunReportData) {
  const column = (select: (point: PagePoint) => StatisticSet | null, value = meanOf) =>
    points.map((point) => {
      const statistics = select(point);
      // No chart is more precise than one decimal.
      return statistics === null ? null : Math.round(value(statistics) * 10) / 10;
    });
  const range = (select: (point: PagePoint) => StatisticSet | null) =>
    pagesPerPoint === 1 ? null : [column(select, ({ min }) => min), column(select, ({ max }) => max)];
  const marks = (kind: Incident['kind']) =>
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
    between: column((point) => point.between),
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
