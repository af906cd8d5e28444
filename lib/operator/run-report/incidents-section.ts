/** What held the run up: in groups, and one by one as far as a person reads. */

import { plural } from '../output/format.ts';
import type { RunReportData } from './data.ts';
import { duration, moment, number } from './format.ts';
import type { Group, Row } from './incident-digest.ts';
import { type Html, html, nothing } from './markup.ts';

/** More rows than this wait to be unfolded. */
const maxVisible = 15;

export function incidentsSection({ incidents }: RunReportData): Html {
  const { groups, oldest, newest, leftOut } = incidents;
  if (groups.length === 0) {
    return html`<section>
<h2>Incidents</h2>
<p>None that is remembered: no failed attempt, and no wait that the service asked for.</p>
</section>`;
  }
  const rows = oldest.length + newest.length;
  const gap =
    leftOut === 0 ? nothing : html`<tr class="gap"><td colspan="2">${number(leftOut)} more between these</td></tr>`;
  const table = html`<table class="incidents">
<thead><tr><th scope="col">When, UTC</th><th scope="col">What</th></tr></thead>
<tbody>
${oldest.map(rowOf)}${gap}${newest.map(rowOf)}
</tbody>
</table>`;
  return html`<section>
<h2>Incidents</h2>
<ul class="groups">
${groups.map((group) => html`<li>${told(group)}</li>`)}
</ul>
${rows > maxVisible ? html`<details><summary>${leftOut === 0 ? 'One by one' : `The ${oldest.length} oldest and the ${newest.length} newest`}</summary>${table}</details>` : table}
</section>`;
}
function told({ kind, error, count, seconds }: Group): Html {
  switch (kind) {
    case 'wait':
      return html`<span class="mark wait"></span>${plural(count, 'wait')} that the service asked for, ${duration(seconds * 1_000)} in all`;
    case 'failed-attempt':
      return html`<span class="mark attempt"></span>${plural(count, 'failed attempt')}: <strong>${error}</strong>`;
    case 'failed-run':
      return html`<span class="mark failure"></span>${plural(count, 'time')} the run failed: <strong>${error}</strong>`;
  }
}

function rowOf(row: Row): Html {
  const page = row.page === null ? nothing : html` <span class="page">page ${number(row.page)}</span>`;
  return html`<tr><td><time datetime="${row.at}">${moment(row.at).replace(' UTC', '')}</time>${page}</td><td>${what(row)}</td></tr>
`;
}

function what(row: Row): Html {
  switch (row.kind) {
    case 'wait':
      return html`<span class="mark wait"></span><strong>Wait of ${duration(row.seconds * 1_000)}</strong> The service asked for it.`;
    case 'failed-attempt':
      return html`<span class="mark attempt"></span><strong>${row.error}</strong> ${row.message}`;
    case 'failed-run':
      return html`<span class="mark failure"></span><strong>${row.error}</strong> The run failed: ${row.message}`;
  }
}
