/** The values of the charts as a table of at most a dozen rows, for screen readers, copying and printing. */

import { instantOf } from '../../core/timestamps.ts';
import { totals as formatTotals } from '../output/format.ts';
import type { RunReportData } from './data.ts';
import { formatBytes, formatDuration, formatInstantWithoutZone, formatNumber } from './format.ts';
import { empty, type Html, html } from './markup.ts';
import { mergePoints, type PagePoint } from './page-series.ts';
import { type LatencySummary, meanOf, type StatisticSet } from './statistics.ts';

const maxRows = 12;

export function pagesTable({ points, totals, latency }: RunReportData): Html {
  const hasReports = totals.reports !== null;
  return html`<details class="numbers">
<summary>Show as table</summary>
<div class="scroll" role="region" aria-label="Pages as a table" tabindex="0">
<table>
<thead><tr>
<th scope="col">Pages</th><th scope="col">Logged by (UTC)</th>
<th scope="col">Between pages</th><th scope="col">Latency</th><th scope="col">Slowest</th><th scope="col">Transfer</th>
<th scope="col">Size</th>${hasReports ? html`<th scope="col">Reports</th>` : empty}
</tr></thead>
<tbody>
${groupIntoRows(points).map((point) => tableRow(point, hasReports))}
</tbody>
</table>
</div>
<p>Mean values per page. Adopted pages have no times.</p>
</details>
<noscript><table class="totals">
<caption>The charts require JavaScript. Totals:</caption>
<tbody>
<tr><th scope="row">Exported</th><td>${formatTotals(totals)}</td></tr>
${latency === null ? empty : html`<tr><th scope="row">Latency</th><td>${latencyText(latency)}</td></tr>`}
</tbody>
</table></noscript>`;
}

function latencyText({ min, median, p95, max }: LatencySummary): string {
  return p95 === null
    ? `${formatDuration(min)} to ${formatDuration(max)}, median ${formatDuration(median)}`
    : `median ${formatDuration(median)}, p95 ${formatDuration(p95)}, slowest ${formatDuration(max)}`;
}

function groupIntoRows(points: readonly PagePoint[]): PagePoint[] {
  const pointsPerRow = Math.ceil(points.length / maxRows);
  const rows: PagePoint[] = [];
  for (const [index, point] of points.entries()) {
    const last = rows.at(-1);
    if (index % pointsPerRow === 0 || last === undefined) rows.push(point);
    else rows[rows.length - 1] = mergePoints(last, point);
  }
  return rows;
}

function tableRow(point: PagePoint, hasReports: boolean): Html {
  const meanDuration = (statistics: StatisticSet | null) =>
    statistics === null ? '–' : formatDuration(meanOf(statistics));
  const { firstPage, pages, latency, reports } = point;
  const lastPage = firstPage + pages - 1;
  return html`<tr>
<th scope="row">${pages === 1 ? formatNumber(firstPage) : `${formatNumber(firstPage)}–${formatNumber(lastPage)}`}</th>
<td>${formatInstantWithoutZone(instantOf(Math.floor(point.loggedAt)))}</td>
<td>${meanDuration(point.between)}</td><td>${meanDuration(latency)}</td><td>${latency === null ? '–' : formatDuration(latency.max)}</td>
<td>${meanDuration(point.transfer)}</td><td>${formatBytes(meanOf(point.bytes))}</td>
${hasReports ? html`<td>${reports === null ? '–' : formatNumber(meanOf(reports))}</td>` : empty}
</tr>
`;
}
