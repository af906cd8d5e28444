/**
 * Records a failure and leaves the export ready for its next start.
 *
 * The run stays active, so that the next start resumes it after its last logged page. A run that can never complete,
 * because its cursor is permanently rejected or its pages repeat, is abandoned, and the next start begins a new one.
 */

import * as z from 'zod/mini';
import { type FailedRun, totalsOf, zeroTotals } from '../model.ts';
import type { StepDependencies } from '../ports.ts';
import { instantOf } from '../timestamps.ts';
import { updateState } from './export-state.ts';

export type FailRunDependencies = Pick<StepDependencies, 'definition' | 'log' | 'runtime' | 'emit'>;

/** As the state machine catches it. The cause of a Lambda function's error is JSON text. */
const failureSchema = z.object({
  Error: z._default(z.string(), 'States.Unknown'),
  Cause: z._default(z.string(), ''),
});
const lambdaCauseSchema = z.object({ errorMessage: z.string() });
const maxMessageLength = 1_000;

/** Records why the run that `execution` owns has failed. Changes nothing if it owns none. Never removes a page. */
export async function failRun(
  { definition, log, runtime, emit }: FailRunDependencies,
  command: { readonly failure: unknown; readonly execution: string },
): Promise<FailedRun> {
  const parsed = failureSchema.safeParse(command.failure);
  const failure = parsed.success ? parsed.data : { Error: 'States.Unknown', Cause: '' };
  // Cutting may split a surrogate pair, and not every store keeps half of one.
  const message = messageOf(failure.Cause).slice(0, maxMessageLength).toWellFormed();
  const failed = await updateState<FailedRun>(log, definition.name, async (state) => {
    const about = { export: definition.name, error: failure.Error, message };
    const { active, ...idle } = state;
    if (active?.execution !== command.execution) {
      return { result: { ...about, run: null, since: null, ...zeroTotals, resumable: active !== undefined } };
    }
    const last = await log.last(active);
    const resumable = failure.Error !== 'CursorRejectedError' && last?.repeats !== true;
    const lastFailure = { error: failure.Error, message, at: instantOf(runtime.now()) };
    return {
      change: resumable ? { ...state, active: { ...active, lastFailure } } : idle,
      result: { ...about, run: active.run, since: active.since, ...totalsOf(last), resumable },
    };
  });
  emit({ event: 'run-failed', ...failed });
  return failed;
}

function messageOf(cause: string): string {
  try {
    return lambdaCauseSchema.parse(JSON.parse(cause)).errorMessage;
  } catch {
    return cause;
  }
}
