/** The charts that `draw-charts.js` draws: each with a text that states the same facts, and all of them as a table. */

import type { Instant } from '../../core/model.ts';
import { epochMsOf, instantOf } from '../../core/timestamps.ts';
import { plural } from '../output/format.ts';
import { failureOf, type RunReportData } from './data.ts';
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
import { type Column, mark, table } from './page.ts';
import {
  meanOf,
  mergeGroups,
  type PagePoint,
  pagesText,
  type PageValue,
  type Statistics,
  statisticsOfAll,
} from './page-series.ts';

export function chartsSection(data: RunReportData): Html {
  return html`${timelineFigure(data)}
${phasesFigure(data)}
${latencyFigure(data)}
<div class="pair">
${pageFigure('bytes', 'Size of each page', data.points, formatBytes)}
${pageFigure('reports', 'Reports on each page', data.points, formatNumber)}
</div>
${pagesTable(data)}
<noscript><p>The charts require JavaScript.</p></noscript>`;
}

interface Figure {
  readonly id: string;
  readonly title: string;
  readonly text: string;
  /** An item for each color or sign. */
  readonly key?: readonly Html[];
  /** False if the text contains all values. */
  readonly hasChart?: boolean;
}

function figure({ id, title, text, key = [], hasChart = true }: Figure): Html {
  const chart = html`<div class="chart" id="${id}" role="img" aria-labelledby="${id}-title" aria-describedby="${id}-text"></div>
<p class="readout" id="${id}-readout" aria-hidden="true"></p>`;
  return html`<figure>
<h2 id="${id}-title">${title}</h2>
<figcaption id="${id}-text">${text}</figcaption>
${key.length === 0 ? empty : html`<ul class="key">${key.map((item) => html`<li>${item}</li>`)}</ul>`}
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

function timelineFigure({ run, points, totals, endedAt, longestGap }: RunReportData): Html {
  const halfway = points.find(({ firstPage, pages }) => (firstPage + pages - 1) * 2 >= totals.pages);
  const waitedMs = statisticsOfAll(points, 'waited')?.sum;
  const failedAttempts = statisticsOfAll(points, 'attempts')?.sum;
  const delays = [
    ...(waitedMs === undefined
      ? []
      : [{ kind: 'wait', text: `waits of ${formatDuration(waitedMs)}`, name: 'wait requested by the service' }]),
    ...(failedAttempts === undefined
      ? []
      : [{ kind: 'failed-attempt', text: plural(failedAttempts, 'failed attempt'), name: 'failed attempt' }]),
    ...(failureOf(run) === null ? [] : [{ kind: 'failed-run', text: 'a run failure', name: 'run failure' }]),
  ];
  const text = sentences(
    `${plural(totals.pages, 'page')} logged ${timeRange(run.startedAt, endedAt)}`,
    halfway &&
      totals.pages > 9 &&
      `half of them were logged by ${formatTimeOfDay(instantOf(Math.floor(halfway.loggedAt)))}`,
    longestGap &&
      totals.pages > 1 &&
      `the longest time without a new page was ${formatDuration(longestGap.ms)}, before page ${formatNumber(longestGap.page)}`,
    delays.length > 0 && `delayed by ${new Intl.ListFormat('en').format(delays.map((delay) => delay.text))}`,
    hasSlices(points) && 'the pages of all slices are numbered in the order in which they were logged',
  );
  const key = delays.map(({ kind, name }) => html`${mark(kind)}${name}`);
  const lines = key.length === 0 ? [] : [html`${mark('line')}pages logged`];
  return figure({ id: 'timeline', title: 'Pages over time', text, key: [...lines, ...key] });
}

function timeRange(from: Instant, to: Instant): string {
  if (formatInstant(from) === formatInstant(to)) return `at ${formatInstant(from)}`;
  const isSameDay = from.slice(0, 10) === to.slice(0, 10);
  return `from ${formatInstantWithoutZone(from)} to ${isSameDay ? `${formatTimeOfDay(to)} UTC` : formatInstant(to)}`;
}

function phasesFigure({ points, latency: summary, adoptedPages, pagesPerPoint }: RunReportData): Html {
  const [between = 0, latency = 0, transfer = 0] = (['between', 'latency', 'transfer'] as const).map(
    (phase) => statisticsOfAll(points, phase)?.sum,
  );
  const total = between + latency + transfer;
  const text = sentences(
    `of ${formatDuration(total)}, ${formatPercent(between, total)} passed between pages (state transitions, waits, failed ` +
      `attempts), ${formatPercent(latency, total)} until the response started, and ${formatPercent(transfer, total)} in ` +
      'transfer, storage and logging',
    adoptedPages > 0 && `no times for ${plural(adoptedPages, 'adopted page')}`,
    pagesPerPoint > 1 && `each column is the mean of ${formatNumber(pagesPerPoint)} pages`,
  );
  const noTimes =
    'Not available: every page was adopted. An earlier attempt stored the pages but could not log them, so their times were not recorded.';
  const key = [
    html`${mark('between')}between pages`,
    html`${mark('latency')}until the response started`,
    html`${mark('transfer')}transfer, storage, logging`,
  ];
  const title = 'Time per page by phase';
  return summary === null
    ? figure({ id: 'phases', title, text: noTimes, hasChart: false })
    : figure({ id: 'phases', title, text, key });
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

/** Of values that are all equal, the text contains all. */
function pageFigure(
  id: 'bytes' | 'reports',
  title: string,
  points: readonly PagePoint[],
  format: (value: number) => string,
): Html {
  const all = statisticsOfAll(points, id);
  if (all === null) return empty;
  const { min, max } = all;
  const text =
    min === max ? format(max) : sentences(`${format(min)} to ${format(max)}, ${format(meanOf(all))} on average`);
  return figure({ id, title, text, hasChart: min !== max });
}

const hasSlices = (points: readonly PagePoint[]): boolean => points.some(({ slice }) => slice !== null);

/** `3`, or `3–5`. */
const sliceText = (slice: Statistics | null): string =>
  slice === null
    ? '–'
    : slice.min === slice.max
      ? formatNumber(slice.min)
      : `${formatNumber(slice.min)}–${formatNumber(slice.max)}`;

const maxTableRows = 12;

/** For screen readers, copying and printing. */
function pagesTable({ points, totals }: RunReportData): Html {
  const hasReports = totals.reports !== null;
  const titles = ['Between pages', 'Latency', 'Slowest', 'Transfer', 'Size', ...(hasReports ? ['Reports'] : [])];
  const isSliced = hasSlices(points);
  const columns: readonly Column[] = [
    { title: 'Pages', kind: 'value' },
    ...(isSliced ? [{ title: 'Slices', kind: 'value' } as const] : []),
    { title: 'Logged by (UTC)', kind: 'value' },
    ...titles.map((title) => ({ title, kind: 'number' as const })),
  ];
  const mean = (statistics: Statistics | null, format = formatDuration) =>
    statistics === null ? '–' : format(meanOf(statistics));
  const rows = mergeGroups(points, Math.ceil(points.length / maxTableRows)).map((point) => {
    const { slice, loggedAt, between, latency, transfer, bytes, reports } = point;
    return {
      cells: [
        pagesText(point),
        ...(isSliced ? [sliceText(slice)] : []),
        formatInstantWithoutZone(instantOf(Math.floor(loggedAt))),
        mean(between),
        mean(latency),
        latency === null ? '–' : formatDuration(latency.max),
        mean(transfer),
        mean(bytes, formatBytes),
        ...(hasReports ? [mean(reports, formatNumber)] : []),
      ],
    };
  });
  return html`<details>
<summary>Show as table</summary>
${table('Pages', columns, rows)}
<p>Mean values per page. Adopted pages have no times.</p>
</details>`;
}

/**
 * The values that `draw-charts.js` draws, by column: the form that uPlot takes, and half the size of a list of objects.
 * Instants are in seconds since the epoch, durations in milliseconds.
 */
export function chartData({ run, endedAt, points, pagesPerPoint, latency }: RunReportData) {
  const failure = failureOf(run);
  const column = (value: PageValue, select = meanOf) =>
    points.map((point) => {
      const statistics = point[value];
      // No chart is more precise than one decimal.
      return statistics === null ? null : Math.round(select(statistics) * 10) / 10;
    });
  /** With the range of each point that represents several pages. */
  const line = (value: PageValue) => ({
    values: column(value),
    ...(pagesPerPoint > 1 && { min: column(value, ({ min }) => min), max: column(value, ({ max }) => max) }),
  });
  const secondsOf = (instant: Instant) => epochMsOf(instant) / 1_000;
  /** When the delay of the page was over, and its request was sent. */
  const requestedAt = ({ loggedAt, latency: response, transfer }: PagePoint) =>
    (loggedAt - (response === null ? 0 : meanOf(response)) - (transfer === null ? 0 : meanOf(transfer))) / 1_000;
  return {
    start: secondsOf(run.startedAt),
    end: secondsOf(endedAt),
    pagesPerPoint,
    firstPage: points.map((point) => point.firstPage),
    pages: points.map((point) => point.pages),
    ...(hasSlices(points) && { slices: points.map(({ slice }) => sliceText(slice)) }),
    loggedAt: points.map((point) => point.loggedAt / 1_000),
    between: column('between'),
    transfer: column('transfer'),
    latency: line('latency'),
    bytes: line('bytes'),
    reports: line('reports'),
    levels: latency === null ? {} : { median: latency.median, p95: latency.p95 },
    waits: points.flatMap((point) => {
      const seconds = (point.waited?.sum ?? 0) / 1_000;
      return seconds === 0 ? [] : [[requestedAt(point) - seconds, seconds]];
    }),
    attempts: points.filter(({ attempts }) => attempts !== null).map(requestedAt),
    failures: failure === null ? [] : [secondsOf(failure.at)],
  };
}
