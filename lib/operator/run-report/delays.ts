/** The section about the retries and waits of a run: their totals, and the pages that they delayed in a table. */

import { instantOf } from '../../core/timestamps.ts';
import { plural } from '../output/format.ts';
import type { RunReportData } from './data.ts';
import { formatDuration, formatInstantWithoutZone, formatNumber } from './format.ts';
import { empty, type Html, html } from './markup.ts';
import { mark, table, timeWithoutZone } from './page.ts';
import { type PagePoint, pagesText, statisticsOfAll } from './page-series.ts';

/** A longer table is collapsed. */
const maxVisibleRows = 15;
const maxRows = 100;

export function delaysSection({ run, points }: RunReportData): Html {
  const attempts = statisticsOfAll(points, 'attempts');
  const waited = statisticsOfAll(points, 'waited');
  const groups = [
    ...(attempts === null
      ? []
      : [
          html`${mark('failed-attempt')}${plural(attempts.sum, 'failed attempt')} before ${plural(attempts.count, 'page')}`,
        ]),
    ...(waited === null
      ? []
      : [
          html`${mark('wait')}${formatDuration(waited.sum)} of waits requested by the service, before ${plural(waited.count, 'page')}`,
        ]),
  ];
  const none = html`<p>None recorded: no failed attempts, and no waits requested by the service.</p>`;
  return html`<section>
<h2>Retries and waits</h2>
${groups.length === 0 ? none : html`<ul class="groups">${groups.map((group) => html`<li>${group}</li>`)}</ul>`}
${lastIncident(run)}
${delayedPages(points.filter((point) => point.attempts !== null || point.waited !== null))}
</section>`;
}

/** Of a run that has not ended. Why attempts failed before is in the logs. */
function lastIncident({ lastIncident: last }: RunReportData['run']): Html {
  if (last === null || last.kind === 'failed-run') return empty;
  const text =
    last.kind === 'wait'
      ? html`a wait of ${formatDuration(last.seconds * 1_000)}, requested by the service`
      : html`<strong>${last.error}.</strong> ${last.message}`;
  return html`<p>Last at ${timeWithoutZone(last.at)}: ${text}</p>`;
}

function delayedPages(delayed: readonly PagePoint[]): Html {
  if (delayed.length === 0) return empty;
  const rows = delayed.slice(-maxRows);
  const list = table(
    'Retries and waits',
    [
      { title: 'Pages', kind: 'value' },
      { title: 'Logged by (UTC)', kind: 'value' },
      { title: 'Failed attempts', kind: 'number' },
      { title: 'Waited', kind: 'number' },
    ],
    rows.map((point) => ({
      cells: [
        pagesText(point),
        formatInstantWithoutZone(instantOf(Math.floor(point.loggedAt))),
        point.attempts === null ? '–' : formatNumber(point.attempts.sum),
        point.waited === null ? '–' : formatDuration(point.waited.sum),
      ],
    })),
  );
  if (rows.length <= maxVisibleRows) return list;
  const summary = rows.length < delayed.length ? `Show the ${rows.length} newest` : 'Show all';
  return html`<details><summary>${summary}</summary>${list}</details>`;
}
