/** Reads the recent runs of an export, for the run report and the index of all runs. Its size is bounded by the number of runs. */

import { mapConcurrently } from '../../../core/concurrency.ts';
import type { ExportState, Instant, RunId, RunTotals } from '../../../core/model.ts';
import type { DeployedExport, IncidentCounts } from '../../../target/target.ts';
import { listRuns, type RunState, type RunStatus } from '../../run-status.ts';
import { epochMsOf, instantOf } from '../../../core/timestamps.ts';
import { findGaps, type Gap, hasUnknownDates, reachOf } from './gaps.ts';

export interface RunHistory {
  /** Newest first. */
  readonly runs: readonly HistoryRun[];
  /** Whether these are not the newest runs. */
  readonly hasNewer: boolean;
  /** Whether the page log has older runs. */
  readonly hasOlder: boolean;
  readonly gaps: readonly Gap[];
  /** How many completed runs have unknown dates, so that gaps before or after them are unknown, too. */
  readonly unknownDates: number;
  /** Why older runs could not be listed. */
  readonly error: ReadError | null;
}

export interface HistoryRun extends RunTotals {
  readonly run: RunId;
  readonly state: RunState;
  readonly since: Instant | null;
  /** Up to where it covers the reports' dates; null if it does not, or this is not known. */
  readonly reach: Instant | null;
  readonly startedAt: Instant;
  /** When it was completed, or its last activity; for a running run, the present. */
  readonly endedAt: Instant;
  /** `not-read`: reading them would take too many requests. */
  readonly incidents: IncidentCounts | 'not-recorded' | 'not-read' | ReadError;
}

export interface ReadError {
  readonly name: string;
  readonly message: string;
}

export interface HistoryOptions {
  readonly maxRuns: number;
  readonly createdAt: Instant;
  /**
   * Incidents are read of the newest runs that have at most this many pages together. On a stack, each history that is read
   * takes a request per thousand events, of which a page has up to seven.
   */
  readonly maxPagesOfIncidents: number;
}

/** How many recent runs the report of a run shows. */
export const maxRecentRuns = 20;

/** Step Functions allows about twenty requests per second. */
const incidentConcurrency = 4;

/** An export that cannot be listed completely, and incidents that cannot be read, are results, not exceptions. */
export async function readRunHistory(
  deployed: DeployedExport,
  state: ExportState | undefined,
  { maxRuns, createdAt, maxPagesOfIncidents }: HistoryOptions,
): Promise<RunHistory & { readonly statuses: readonly RunStatus[] }> {
  const { statuses, hasOlder, error } = await readStatuses(deployed, state, maxRuns);
  let pages = 0;
  const budgeted = statuses.map((status) => {
    pages += status.pages;
    return { status, isRead: pages <= maxPagesOfIncidents };
  });
  const runs = await mapConcurrently(budgeted, incidentConcurrency, async ({ status, isRead }) =>
    toHistoryRun(status, createdAt, isRead ? await readIncidents(deployed, status) : 'not-read'),
  );
  return {
    statuses,
    runs,
    hasNewer: false,
    hasOlder,
    error,
    gaps: findGaps(statuses, state, deployed.definition),
    unknownDates: statuses.filter(hasUnknownDates).length,
  };
}

async function readStatuses(deployed: DeployedExport, state: ExportState | undefined, maxRuns: number) {
  const statuses: RunStatus[] = [];
  try {
    for await (const status of listRuns(deployed, state)) {
      if (statuses.length === maxRuns) return { statuses, hasOlder: true, error: null };
      statuses.push(status);
    }
    return { statuses, hasOlder: false, error: null };
  } catch (error) {
    return { statuses, hasOlder: true, error: toReadError(error) };
  }
}

async function readIncidents(deployed: DeployedExport, status: RunStatus): Promise<HistoryRun['incidents']> {
  const { export: name, run, startedAt, endedAt } = status;
  try {
    const span = { export: name, run, startedAt, completedAt: endedAt ?? undefined };
    return (await deployed.countIncidents(span)) ?? 'not-recorded';
  } catch (error) {
    return toReadError(error);
  }
}

function toHistoryRun(status: RunStatus, createdAt: Instant, incidents: HistoryRun['incidents']): HistoryRun {
  const { run, state, since, startedAt, pages, reports, bytes } = status;
  return {
    run,
    state,
    since,
    reach: reachOf(status),
    startedAt,
    endedAt: lastActivity(status, createdAt),
    pages,
    reports,
    bytes,
    incidents,
  };
}

function lastActivity({ state, startedAt, completedAt, lastPageAt, lastIncident }: RunStatus, now: Instant): Instant {
  if (completedAt !== null) return completedAt;
  if (state === 'running') return now;
  const instants = [
    startedAt,
    ...(lastPageAt === null ? [] : [lastPageAt]),
    ...(lastIncident ? [lastIncident.at] : []),
  ];
  return instantOf(Math.max(...instants.map(epochMsOf)));
}

export const durationMs = ({ startedAt, endedAt }: Pick<HistoryRun, 'startedAt' | 'endedAt'>): number =>
  Math.max(0, epochMsOf(endedAt) - epochMsOf(startedAt));

export function toReadError(cause: unknown): ReadError {
  const { name, message } = cause instanceof Error ? cause : new Error(String(cause));
  return { name, message };
}
