/**
 * Records a failure and leaves the export ready for its next start.
 *
 * The run stays active, so that the next start resumes it after its last logged page. A run that can never complete,
 * because its cursor is permanently rejected, its pages repeat or it has fewer reports than expected, is abandoned, and
 * the next start begins a new one.
 */

import * as z from 'zod/mini';
import { definitionOfStart } from '../bounded-runs.ts';
import type { ErrorName } from '../errors.ts';
import { hasTooFewReports } from '../expected-reports.ts';
import { type ExportDefinition, type FailedRun, zeroTotals } from '../model.ts';
import type { StepDependencies } from '../ports.ts';
import { instantOf } from '../timestamps.ts';
import { updateState, withoutRun } from './export-state.ts';
import { parseStartInput } from '../start/start-input.ts';
import { readProgress } from '../run-progress.ts';
import { shorten } from '../sanitize.ts';

/** An error as the state machine catches it. The cause of a Lambda function's error is JSON text. */
const failureSchema = z.object({
  Error: z._default(z.string(), 'States.Unknown'),
  Cause: z._default(z.string(), ''),
});
const lambdaCauseSchema = z.object({ errorMessage: z.string() });
const maxMessageLength = 1_000;

/** After these, a run can never complete. */
const finalErrors: ReadonlySet<string> = new Set<ErrorName>(['CursorRejectedError', 'RepeatedCursorError']);

/**
 * Records why the run that `execution` owns has failed; if it has had none, why its start has failed, unless that was
 * of a bounded run. Never removes a page.
 */
export async function failRun(
  { log, runtime, emit, definition: named }: Pick<StepDependencies, 'definition' | 'log' | 'runtime' | 'emit'>,
  command: { readonly failure: unknown; readonly execution: string; readonly startInput?: unknown },
): Promise<FailedRun> {
  const definition = definitionOfInput(named, command.startInput);
  const { error, message } = parseFailure(command.failure);
  const { bounds } = definition;
  const ofDefinition = bounds === undefined ? { since: null } : { ...bounds, bounded: true as const };
  let page: number | null | undefined;
  const about = { export: definition.name, error, message };
  const failed = await updateState<FailedRun>(log, definition.stateName, async (state) => {
    const { active } = state;
    const failure = { error, message, at: instantOf(runtime.now()) };
    if (active?.execution !== command.execution) {
      page = undefined;
      const { recentExecutions = [], lastCompleted } = state;
      const hasHadRun = [...recentExecutions, lastCompleted?.execution].includes(command.execution);
      return {
        change: hasHadRun || bounds !== undefined ? undefined : { ...state, failedStart: failure },
        result: { ...about, run: null, ...ofDefinition, ...zeroTotals, resumable: active !== undefined },
      };
    }
    const progress = await readProgress(log, active);
    const { totals } = progress;
    page = progress.isComplete || active.slices !== undefined ? null : totals.pages + 1;
    // The next start begins a slice that failed like this again, and keeps the others.
    const isFinal = active.slices === undefined && (finalErrors.has(error) || progress.last?.repeats === true);
    const resumable = !isFinal && !hasTooFewReports(definition, active, progress);
    const { run, since, until, bounded } = active;
    return {
      change: resumable
        ? { ...state, active: { ...active, lastFailure: failure } }
        : { ...withoutRun(state), lastAbandoned: { run, since, ...totals, failure } },
      result: { ...about, run, since, until, bounded, ...totals, resumable },
    };
  });
  emit({ event: 'run-failed', page, ...failed });
  return failed;
}

function definitionOfInput(definition: ExportDefinition, startInput: unknown): ExportDefinition {
  try {
    return definitionOfStart(definition, parseStartInput(startInput));
  } catch {
    // BeginRun has refused such an input.
    return definition;
  }
}

/** What the state machine adds to the error, which it has already: it sends both in one event. */
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
  return { error, message: shorten(messageOf(Cause), maxMessageLength).toWellFormed() };
}

function messageOf(cause: string): string {
  try {
    return lambdaCauseSchema.parse(JSON.parse(cause)).errorMessage;
  } catch {
    return cause;
  }
}
