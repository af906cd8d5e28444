/** Reads the recent runs of an export, for the run report and the index of all runs. Its size is bounded by the number of runs. */

import type { ExportState, Instant } from '../../core/model.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import type { DeployedExport } from '../../target/target.ts';
import { listRuns, type RunStatus } from '../run-status.ts';
import { lastActivity } from './data.ts';
import { findGaps, type Gap, hasUnknownDates } from './gaps.ts';

export interface RunHistory {
  /** Newest first. */
  readonly runs: readonly HistoryRun[];
  /** Whether the page log has older runs. */
  readonly hasOlder: boolean;
  readonly gaps: readonly Gap[];
  /** How many completed runs have unknown dates, so that gaps before or after them are unknown, too. */
  readonly unknownDates: number;
  /** Why older runs could not be listed. */
  readonly error: ReadError | null;
}

export interface HistoryRun extends Pick<RunStatus, 'run' | 'state' | 'startedAt' | 'pages' | 'reports' | 'bytes'> {
  /** When it was completed, or its last activity; for a running run, the present. */
  readonly endedAt: Instant;
}

export interface ReadError {
  readonly name: string;
  readonly message: string;
}

/** An export that cannot be listed completely is a result, not an exception. */
export async function readRunHistory(
  deployed: DeployedExport,
  state: ExportState | undefined,
  maxRuns: number,
  createdAt: Instant,
): Promise<RunHistory & { readonly statuses: readonly RunStatus[] }> {
  const { statuses, hasOlder, error } = await readStatuses(deployed, state, maxRuns);
  const runs = statuses.map((status) => ({
    ...status,
    endedAt: lastActivity(status, createdAt, [status.lastPageAt, status.lastIncident?.at]),
  }));
  return {
    statuses,
    runs,
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

export const durationMs = ({ startedAt, endedAt }: Pick<HistoryRun, 'startedAt' | 'endedAt'>): number =>
  Math.max(0, epochMsOf(endedAt) - epochMsOf(startedAt));

export function toReadError(cause: unknown): ReadError {
  const { name, message } = cause instanceof Error ? cause : new Error(String(cause));
  return { name, message };
}

export const describeError = ({ name, message }: ReadError): string => `${name}: ${message}`;
