/** The section about the retries and waits of a run: counted in groups, and the newest one by one in a table. */

import type { Instant } from '../../core/model.ts';
import { type Incident, type IncidentGroup, type IncidentRecord, totalOf } from '../../target/incidents.ts';
import { plural } from '../output/format.ts';
import { formatDuration, formatNumber } from './format.ts';
import { empty, type Html, html } from './markup.ts';
import { mark, table, timeWithoutZone } from './page.ts';

/** A longer table is collapsed. */
const maxVisibleRows = 15;

export function incidentsSection({ groups, newest }: IncidentRecord): Html {
  if (groups.length === 0) {
    return html`<section>
<h2>Retries and waits</h2>
<p>None recorded: no failed attempts, and no waits requested by the service.</p>
</section>`;
  }
  const rows = withoutRepetitions(newest);
  const list = table(
    'Retries and waits',
    [
      { title: 'Time (UTC)', kind: 'name' },
      { title: 'Event', kind: 'text' },
    ],
    rows.map((incident) => ({ cells: [whenOf(incident), describeIncident(incident)] })),
  );
  const summary = newest.length < totalOf({ groups }) ? `Show the ${newest.length} newest` : 'Show all';
  return html`<section>
<h2>Retries and waits</h2>
<ul class="groups">
${groups.toSorted((a, b) => b.count - a.count).map((group) => html`<li>${describeGroup(group)}</li>`)}
</ul>
${rows.length > maxVisibleRows ? html`<details><summary>${summary}</summary>${list}</details>` : list}
</section>`;
}

function describeGroup({ kind, error, count, seconds }: IncidentGroup): Html {
  if (kind === 'wait') {
    return html`${mark(kind)}${plural(count, 'wait')} requested by the service, ${formatDuration(seconds * 1_000)} in total`;
  }
  const noun = kind === 'failed-attempt' ? 'failed attempt' : 'run failure';
  return html`${mark(kind)}${plural(count, noun)}: <strong>${error}</strong>`;
}

type RepeatedIncident = Incident & { readonly count: number; readonly lastAt: Instant };

/** Identical incidents of one execution are listed once, at the first of them. */
function withoutRepetitions(incidents: readonly Incident[]): RepeatedIncident[] {
  const rows: RepeatedIncident[] = [];
  let ofExecution = new Map<string, number>();
  for (const incident of incidents) {
    // Each failure of an outage has another number of its retry.
    const key = JSON.stringify({ ...incident, at: null, retry: null });
    const index = ofExecution.get(key) ?? rows.length;
    const { at, count } = rows[index] ?? { ...incident, count: 0 };
    rows[index] = { ...incident, at, count: count + 1, lastAt: incident.at };
    ofExecution.set(key, index);
    // A failure of the run ends its execution.
    if (incident.kind === 'failed-run') ofExecution = new Map();
  }
  return rows;
}

function whenOf({ at, lastAt, page, count }: RepeatedIncident): Html {
  const place = page === null ? empty : html` <span class="quiet">page ${formatNumber(page)}</span>`;
  const until = count === 1 ? empty : html` <span class="quiet until">until ${timeWithoutZone(lastAt)}</span>`;
  return html`${timeWithoutZone(at)}${place}${until}`;
}

function describeIncident(incident: RepeatedIncident): Html {
  const { kind, count } = incident;
  const [title, text] =
    kind === 'wait'
      ? [`Wait of ${formatDuration(incident.seconds * 1_000)}`, 'Requested by the service.']
      : [incident.error, `${kind === 'failed-run' ? 'The run failed: ' : ''}${incident.message}`];
  const times = count === 1 ? empty : html` <span class="quiet">${formatNumber(count)} times</span>`;
  return html`${mark(kind)}<strong>${title}.</strong> ${text}${times}`;
}
