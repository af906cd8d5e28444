/**
 * The data of a run report, collected from the page log and the history of the run. Its size is bounded, however many
 * pages the run has. It contains no secrets, because its sources contain none.
 */

import type { ExportDefinition, Instant, JsonObject, PageEntry, RunId } from '../../core/model.ts';
import type { DeployedExport, NextStart } from '../../target/target.ts';
import type { RunState } from '../run-status.ts';
import { epochMsOf, instantOf } from '../../core/timestamps.ts';
import { createIncidentSummary, type IncidentSummary } from './incident-summary.ts';
import { createPageSeries, type PageSeries } from './page-series.ts';

export interface RunReportData extends RunReportOrigin, PageSeries {
  readonly run: RunFacts;
  readonly totals: RunTotals;
  /** The last activity; for a running run, the time at which the run report was created. */
  readonly endedAt: Instant;
  readonly failure: RunFailure | null;
  readonly firstPage: string | null;
  readonly lastPage: string | null;
  readonly incidents: IncidentSummary;
}

/** What is known about the run as a whole. Values that are no longer stored are null. */
export interface RunFacts {
  readonly export: string;
  readonly run: RunId;
  readonly state: RunState;
  readonly since: Instant | null;
  /** The export's watermark after this run, if it is the newest completed one; otherwise null. */
  readonly watermark: Instant | null;
  readonly startedAt: Instant;
  readonly completedAt: Instant | null;
  /** When the run was abandoned, if it was. */
  readonly abandonedAt?: Instant | null | undefined;
  /** Paths or `s3://` addresses of the manifest and of the page folder. */
  readonly manifest: string | null;
  readonly folder: string;
  /** The service: its base URL, or `simulator`. */
  readonly source: string | null;
  /** The filter of the requests, including the lower bound of the date. */
  readonly filter: JsonObject | null;
  readonly format: string | null;
  readonly container: string | null;
  /** Reports per page; null for the default of the service. */
  readonly size: number | null;
  /** When the export starts next. */
  readonly next: NextStart | null;
  /** How the next run's `since` is chosen. */
  readonly sincePolicy: ExportDefinition['since'];
  /** Used if the page log no longer contains the run. */
  readonly totals: RunTotals;
  /** Why the run failed. If absent, the newest failure in the history is used. */
  readonly failure?: RunFailure | null | undefined;
}

interface RunTotals {
  readonly pages: number;
  readonly reports: number | null;
  readonly bytes: number;
}

interface RunFailure {
  readonly error: string;
  readonly message: string;
  readonly at: Instant;
}

/** Where and when the run report is created. */
export interface RunReportOrigin {
  /** `Deployment.name` and `Deployment.option`. */
  readonly deployment: string;
  readonly deploymentOption: string;
  readonly createdAt: Instant;
}

/**
 * Reads page log and history once each, in constant memory.
 * @throws ExportError if the log cannot be read or an entry is corrupt
 */
export async function collectRunReportData(
  { log, store, incidents }: Pick<DeployedExport, 'log' | 'incidents' | 'store'>,
  run: RunFacts,
  origin: RunReportOrigin,
): Promise<RunReportData> {
  const pageSeries = createPageSeries(run.startedAt);
  let first: PageEntry | undefined;
  let last: PageEntry | undefined;
  for await (const entry of log.entries(run)) {
    first ??= entry;
    last = entry;
    pageSeries.add(entry);
  }
  const incidentSummary = createIncidentSummary();
  const { export: name, startedAt, completedAt, abandonedAt } = run;
  const span = { export: name, run: run.run, startedAt, completedAt: completedAt ?? abandonedAt ?? undefined };
  for await (const incident of incidents(span)) incidentSummary.add(incident);
  const summary = incidentSummary.summary();
  return {
    ...origin,
    run,
    ...pageSeries.series(),
    totals: last === undefined ? run.totals : { pages: last.page, ...last.totals },
    endedAt: endOf(run, last, summary, origin.createdAt),
    failure: run.state === 'failed' ? (run.failure ?? newestFailure(summary)) : null,
    firstPage: first === undefined ? null : store.locate(first.key),
    lastPage: last === undefined ? null : store.locate(last.key),
    incidents: summary,
  };
}

/** When the run completed, or its last activity. */
function endOf(run: RunFacts, last: PageEntry | undefined, { marks }: IncidentSummary, createdAt: Instant): Instant {
  if (run.completedAt !== null) return run.completedAt;
  if (run.state === 'running') return createdAt;
  const instants = [run.startedAt, ...(last ? [last.loggedAt] : []), ...(run.failure ? [run.failure.at] : [])];
  const latest = marks.reduce((latest, { at }) => Math.max(latest, at), Math.max(...instants.map(epochMsOf)));
  return instantOf(latest);
}

const newestFailure = ({ oldest, newest }: IncidentSummary) =>
  [...oldest, ...newest].findLast((incident) => incident.kind === 'failed-run') ?? null;
