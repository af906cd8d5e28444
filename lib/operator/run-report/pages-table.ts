/** The charts' numbers once more, as a table of a dozen rows that a screen reader, a copy or a print-out can hold. */

import { instantOf } from '../../core/timestamps.ts';
import type { PagePoint, RunReportData } from './data.ts';
import { amounts, duration, moment, number, size } from './format.ts';
import { type Html, html, nothing } from './markup.ts';
import { joined } from './page-series.ts';
import { meanOf, type Spread } from './statistics.ts';

const maxRows = 12;

export function pagesTable({ points, totals, latency }: RunReportData): Html {
  const counts = totals.reports !== null;
  return html`<details class="numbers">
<summary>The same as a table</summary>
<div class="scroll" role="region" aria-label="The pages in numbers" tabindex="0">
<table>
<thead><tr>
<th scope="col">Pages</th><th scope="col">Logged until, UTC</th>
<th scope="col">Before</th><th scope="col">Latency</th><th scope="col">Slowest</th><th scope="col">Transfer</th>
<th scope="col">Size</th>${counts ? html`<th scope="col">Reports</th>` : nothing}
</tr></thead>
<tbody>
${inRows(points).map((point) => rowOf(point, counts))}
</tbody>
</table>
</div>
<p>Means of each page; times are of those pages that were timed.</p>
</details>
<noscript><table class="totals">
<caption>The charts need JavaScript. The totals:</caption>
<tbody>
<tr><th scope="row">Exported</th><td>${amounts(totals)}</td></tr>
${latency === null ? nothing : html`<tr><th scope="row">Latency</th><td>median ${duration(latency.median)}, p95 ${duration(latency.p95)}, slowest ${duration(latency.max)}</td></tr>`}
</tbody>
</table></noscript>`;
}

function rowOf(point: PagePoint, counts: boolean): Html {
  const span = (spread: Spread | null) => (spread === null ? '–' : duration(meanOf(spread)));
  const { firstPage, pages, latency, reports } = point;
  return html`<tr>
<th scope="row">${pages === 1 ? number(firstPage) : `${number(firstPage)}–${number(firstPage + pages - 1)}`}</th>
<td>${moment(instantOf(Math.floor(point.loggedAt))).replace(' UTC', '')}</td>
<td>${span(point.before)}</td><td>${span(latency)}</td><td>${latency === null ? '–' : duration(latency.max)}</td>
<td>${span(point.transfer)}</td><td>${size(meanOf(point.bytes))}</td>
${counts ? html`<td>${reports === null ? '–' : number(meanOf(reports))}</td>` : nothing}
</tr>
`;
}

function inRows(points: readonly PagePoint[]): PagePoint[] {
  const perRow = Math.ceil(points.length / maxRows);
  const rows: PagePoint[] = [];
  for (const [index, point] of points.entries()) {
    const former = rows.at(-1);
    if (index % perRow === 0 || former === undefined) rows.push(point);
    else rows[rows.length - 1] = joined(former, point);
  }
  return rows;
}
