/** The section about retries and waits: in groups, and one by one in a table. */

import { plural } from '../output/format.ts';
import type { RunReportData } from './data.ts';
import { formatDuration, formatInstantWithoutZone, formatNumber } from './format.ts';
import type { IncidentGroup, IncidentSummary, RepeatedIncident } from './incident-summary.ts';
import { empty, type Html, html } from './markup.ts';

/** A longer table is collapsed. */
const maxVisibleRows = 15;

export function incidentsSection({ incidents }: RunReportData): Html {
  const { groups, oldest, newest } = incidents;
  if (groups.length === 0) {
    return html`<section>
<h2>Retries and waits</h2>
<p>None recorded: no failed attempts, and no waits requested by the service.</p>
</section>`;
  }
  const isCollapsed = oldest.length + newest.length > maxVisibleRows;
  return html`<section>
<h2>Retries and waits</h2>
<ul class="groups">
${groups.map((group) => html`<li>${describeGroup(group)}</li>`)}
</ul>
${isCollapsed ? html`<details><summary>${tableTitle(incidents)}</summary>${table(incidents)}</details>` : table(incidents)}
</section>`;
}

function describeGroup({ kind, error, count, seconds }: IncidentGroup): Html {
  switch (kind) {
    case 'wait':
      return html`<span class="mark wait"></span>${plural(count, 'wait')} requested by the service, ${formatDuration(seconds * 1_000)} in total`;
    case 'failed-attempt':
      return html`<span class="mark attempt"></span>${plural(count, 'failed attempt')}: <strong>${error}</strong>`;
    case 'failed-run':
      return html`<span class="mark failure"></span>${plural(count, 'run failure')}: <strong>${error}</strong>`;
  }
}

const tableTitle = ({ oldest, newest, omitted }: IncidentSummary): string =>
  omitted === 0 ? 'Show all' : `Show the ${oldest.length} oldest and the ${newest.length} newest`;

function table({ oldest, omitted, newest }: IncidentSummary): Html {
  const omittedRow =
    omitted === 0 ? empty : html`<tr class="omitted"><td colspan="2">${formatNumber(omitted)} more not shown</td></tr>`;
  return html`<table class="incidents">
<thead><tr><th scope="col">Time (UTC)</th><th scope="col">Event</th></tr></thead>
<tbody>
${oldest.map(tableRow)}${omittedRow}${newest.map(tableRow)}
</tbody>
</table>`;
}

function tableRow(incident: RepeatedIncident): Html {
  const { at, lastAt, count } = incident;
  const page = incident.page === null ? empty : html` <span class="page">page ${formatNumber(incident.page)}</span>`;
  const until =
    count === 1
      ? empty
      : html`<span class="until">until <time datetime="${lastAt}">${formatInstantWithoutZone(lastAt)}</time></span>`;
  const times = count === 1 ? empty : html` <span class="times">${formatNumber(count)} times</span>`;
  return html`<tr><td><time datetime="${at}">${formatInstantWithoutZone(at)}</time>${page} ${until}</td><td>${describeIncident(incident)}${times}</td></tr>
`;
}

function describeIncident(incident: RepeatedIncident): Html {
  switch (incident.kind) {
    case 'wait':
      return html`<span class="mark wait"></span><strong>Wait of ${formatDuration(incident.seconds * 1_000)}</strong> Requested by the service.`;
    case 'failed-attempt':
      return html`<span class="mark attempt"></span><strong>${incident.error}</strong> ${incident.message}`;
    case 'failed-run':
      return html`<span class="mark failure"></span><strong>${incident.error}</strong> The run failed: ${incident.message}`;
  }
}
