/** Summarizes an export for the overview of a deployment, from its state and the last page of its unfinished run. */

import { reportsStatus } from '../core/expected-reports.ts';
import {
  type ExportDefinition,
  type ExportState,
  emptyState,
  type PageEntry,
  totalsOf,
  zeroTotals,
} from '../core/model.ts';
import { startOf } from '../core/storage/keys.ts';
import { epochMsOf } from '../core/timestamps.ts';
import type { ExportOverview, NextStart, UnreadableExport } from './target.ts';

export interface ExportFacts {
  readonly export: string;
  readonly service: string;
  /** undefined if it has never run. */
  readonly state: ExportState | undefined;
  /** The progress of the unfinished run; undefined if there is none. */
  readonly active?: { readonly isRunning: boolean; readonly last: PageEntry | undefined } | undefined;
  readonly next: NextStart;
  readonly freshnessSeconds: number | null;
  readonly definition: Pick<ExportDefinition, 'expect'>;
}

export function overviewOf(facts: ExportFacts, now: number): ExportOverview {
  const { export: name, service, next, freshnessSeconds } = facts;
  const state = facts.state ?? emptyState(name);
  const completedAt = state.lastCompleted?.completedAt ?? null;
  const ageMs = completedAt === null ? Number.POSITIVE_INFINITY : now - epochMsOf(completedAt);
  return {
    export: name,
    service,
    stale: next.kind === 'scheduled' && freshnessSeconds !== null && ageMs > freshnessSeconds * 1_000,
    freshnessSeconds,
    ...reportsStatus(facts.definition, state, now),
    watermark: state.watermark?.instant ?? null,
    completedAt,
    next,
    ...newestRun(state, facts.active),
  };
}

export function unreadableExport(exportName: string, service: string | null, cause: unknown): UnreadableExport {
  const { name, message } = cause instanceof Error ? cause : new Error(String(cause));
  return { export: exportName, service, error: { name, message } };
}

type NewestRun = Pick<
  ExportOverview,
  'state' | 'run' | 'since' | 'startedAt' | 'pages' | 'reports' | 'bytes' | 'lastFailure'
>;

function newestRun({ active, lastAbandoned, lastCompleted }: ExportState, progress: ExportFacts['active']): NewestRun {
  if (active !== undefined) {
    const { run, since, startedAt, lastFailure = null } = active;
    const state = progress?.isRunning === true ? 'running' : lastFailure === null ? 'stopped' : 'failed';
    return { state, run, since, startedAt, ...totalsOf(progress?.last), lastFailure };
  }
  if (lastAbandoned !== undefined) {
    const { failure, run, ...rest } = lastAbandoned;
    return { state: 'failed', run, startedAt: startOf(run), ...rest, lastFailure: failure };
  }
  if (lastCompleted !== undefined) {
    const { run, since, pages, reports, bytes } = lastCompleted.result;
    return { state: 'completed', run, since, startedAt: startOf(run), pages, reports, bytes, lastFailure: null };
  }
  return { state: 'never', run: null, since: null, startedAt: null, ...zeroTotals, lastFailure: null };
}
