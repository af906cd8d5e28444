/** Renders the run report: charts and numbers about one run, and the recent runs of its export. */

import type { Incident } from '../../target/target.ts';
import { chartData, chartsSection } from './charts.ts';
import type { RunReportData } from './data.ts';
import { renderDocument } from './document.ts';
import { historySection, type RunNeighbors, runNavigation } from './history/history-section.ts';
import type { HistoryRun, RunHistory } from './history/run-history.ts';
import type { IncidentGroup } from './incident-summary.ts';
import { incidentsSection } from './incidents-section.ts';
import { empty, html } from './markup.ts';
import { filesSection, footer, header, requestSection } from './overview.ts';

/** The other runs of the export. */
export interface RunContext {
  readonly history: RunHistory | null;
  /** Absent: this is the only page that is written, so it has no links. */
  readonly neighbors?: RunNeighbors;
}

/** The run in the history agrees with the rest of the page, which knows all of its incidents. */
function withCurrentRun(history: RunHistory, data: RunReportData): RunHistory {
  const runs = history.runs.map((run) => (run.run === data.run.run ? withReportData(run, data) : run));
  return { ...history, runs };
}

export function withReportData(run: HistoryRun, { endedAt, totals, incidents: { groups } }: RunReportData): HistoryRun {
  const sum = (kind: Incident['kind'], valueOf: (group: IncidentGroup) => number) =>
    groups.reduce((total, group) => (group.kind === kind ? total + valueOf(group) : total), 0);
  const count = ({ count }: IncidentGroup) => count;
  const incidents = {
    failedAttempts: sum('failed-attempt', count),
    waits: sum('wait', count),
    waitSeconds: sum('wait', ({ seconds }) => seconds),
    failures: sum('failed-run', count),
  };
  // Of a run whose history is gone, no incidents are read either.
  const isKnown = groups.length > 0 || run.incidents === 'not-read';
  return { ...run, ...totals, endedAt, incidents: isKnown ? incidents : run.incidents };
}

export function renderRunReport(data: RunReportData, { history, neighbors }: RunContext = { history: null }): string {
  const { run, points } = data;
  const hasCharts = points.length > 0;
  return renderDocument({
    title: `${run.export} · run ${run.run} · ${run.state}`,
    main: html`${neighbors === undefined ? empty : runNavigation(neighbors)}
${header(data)}
${hasCharts ? chartsSection(data) : empty}
${incidentsSection(data)}
${history === null ? empty : historySection(withCurrentRun(history, data), run.run, neighbors?.addressOf)}
${requestSection(data)}
${filesSection(data)}`,
    footer: footer(data),
    ...(hasCharts ? { charts: chartData(data) } : {}),
  });
}
