/**
 * Records a failure and leaves the export ready for its next start.
 *
 * The run stays active, so that the next start resumes it after its last logged page, or replaces it if it has fewer
 * reports than expected (`../start/decide.ts`).
 */

import * as z from 'zod/mini';
import { definitionOfStart, isBounded } from '../bounded-runs.ts';
import { isExportError } from '../errors.ts';
import { hasTooFewReports } from '../expected-reports.ts';
import {
  type ExportDefinition,
  type ExportState,
  type FailedRun,
  type Run,
  type RunFailure,
  zeroTotals,
} from '../model.ts';
import type { StepDependencies } from '../ports.ts';
import { instantOf } from '../timestamps.ts';
import { type StateChange, updateState } from './export-state.ts';
import { parseStartInput } from '../start/start-input.ts';
import { readProgress, type RunProgress } from '../run-progress.ts';
import { shorten } from '../sanitize.ts';

/** An error as the state machine catches it. */
const failureSchema = z.object({
  Error: z._default(z.string(), 'States.Unknown'),
  Cause: z._default(z.string(), ''),
});
const lambdaCauseSchema = z.object({ errorMessage: z.string() });
const maxMessageLength = 1_000;

/**
 * Records why the run that `execution` owns has failed. If the execution has had no run, its start has failed: that is
 * recorded, too, unless it was the start of a bounded run. Never removes a page.
 */
export async function failRun(
  deps: Pick<StepDependencies, 'definition' | 'log' | 'runtime' | 'emit'>,
  command: { readonly failure: unknown; readonly execution: string; readonly startInput?: unknown },
): Promise<FailedRun> {
  const { log, runtime, emit } = deps;
  const { execution } = command;
  const definition = definitionOfInput(deps.definition, command.startInput);
  const cause = parseFailure(command.failure);
  const recorded = await updateState<RecordedEvent>(log, definition.stateName, async (state) => {
    const failure = { ...cause, at: instantOf(runtime.now()) };
    const { active } = state;
    return active?.execution === execution
      ? failOwnedRun(definition, state, { active, progress: await readProgress(log, active), failure })
      : failStart(definition, state, execution, failure);
  });
  const failed = { export: definition.name, ...cause, ...recorded.failed };
  emit({ event: 'run-failed', page: recorded.page, ...failed });
  return failed;
}

interface RecordedEvent {
  readonly failed: Omit<FailedRun, 'export' | 'error' | 'message'>;
  /** The page that failed; null if it is not known, undefined if the execution had no run. */
  readonly page?: number | null;
}

interface OwnedFailure {
  readonly active: Run;
  readonly progress: RunProgress;
  readonly failure: RunFailure;
}

function failOwnedRun(
  definition: ExportDefinition,
  state: ExportState,
  { active, progress, failure }: OwnedFailure,
): StateChange<RecordedEvent> {
  const { totals } = progress;
  const { run, since, until, bounded } = active;
  const resumable = !hasTooFewReports(definition, active, progress);
  return {
    change: { ...state, active: { ...active, lastFailure: failure } },
    result: {
      failed: { run, since, until, bounded, ...totals, resumable },
      page: progress.isComplete || active.slices !== undefined ? null : totals.pages + 1,
    },
  };
}

/** The execution owns no run: its start has failed, or another execution has taken its run over. */
function failStart(
  definition: ExportDefinition,
  state: ExportState,
  execution: string,
  failure: RunFailure,
): StateChange<RecordedEvent> {
  const { recentExecutions = [], lastCompleted } = state;
  const hasHadRun = [...recentExecutions, lastCompleted?.execution].includes(execution);
  const { bounds } = definition;
  const period = bounds === undefined ? { since: null } : { ...bounds, bounded: true as const };
  const result = { failed: { run: null, ...period, ...zeroTotals, resumable: state.active !== undefined } };
  return hasHadRun || isBounded(definition) ? { result } : { change: { ...state, failedStart: failure }, result };
}

function definitionOfInput(definition: ExportDefinition, startInput: unknown): ExportDefinition {
  try {
    return definitionOfStart(definition, parseStartInput(startInput));
  } catch (error) {
    if (!isExportError(error, 'ConfigurationError')) throw error;
    // BeginRun has refused this input, so the failure is that of a start of the export.
    return definition;
  }
}

/** The failure without the error name, which the state machine has already: it sends both in one event. */
export type RecordedFailure = Omit<FailedRun, 'error'>;

export function recordedFailure(failed: FailedRun): RecordedFailure {
  const { error: _, ...failure } = failed;
  return failure;
}

/** The failure of an execution whose start input names no export: there is no state to record it in. */
export function failUnknownExport({ emit }: Pick<StepDependencies, 'emit'>, failure: unknown): FailedRun {
  const failed = { export: null, run: null, since: null, ...zeroTotals, ...parseFailure(failure), resumable: false };
  emit({ event: 'run-failed', ...failed });
  return failed;
}

function parseFailure(failure: unknown): { readonly error: string; readonly message: string } {
  const parsed = failureSchema.safeParse(failure);
  const { Error: error, Cause } = parsed.success ? parsed.data : { Error: 'States.Unknown', Cause: '' };
  // Not every store keeps half of a surrogate pair.
  return { error, message: shorten(messageInCause(Cause), maxMessageLength).toWellFormed() };
}

/** The message in the JSON that Lambda returns as the cause of an error; any other text as it is. */
export function messageInCause(cause: string): string {
  try {
    return lambdaCauseSchema.parse(JSON.parse(cause)).errorMessage;
  } catch {
    return cause;
  }
}
