/**
 * Leaves a failed run in a state from which the next start goes on.
 *
 * A run stays active, so that it is resumed from its last logged page, unless going on can never succeed: its cursor is
 * refused for good, or its pages go in circles. Then it is given up, and the next start begins a new run.
 */

import * as z from 'zod/mini';
import type { FailedRun, PageEntry } from '../model.ts';
import type { StepDependencies } from '../ports.ts';
import { instantOf } from '../timestamps.ts';
import { updateState } from './export-state.ts';

export type FailRunDependencies = Pick<StepDependencies, 'definition' | 'log' | 'runtime' | 'emit'>;

/** As the state machine catches it; the cause of a Lambda's error is JSON text. */
const failureSchema = z.object({
  Error: z._default(z.string(), 'States.Unknown'),
  Cause: z._default(z.string(), ''),
});
const lambdaCauseSchema = z.object({ errorMessage: z.string() });
const maxMessageLength = 1_000;

/** Records why the run that `execution` owns has failed. Touches nothing where it owns none. Never undoes a page. */
export async function failRun(
  { definition, log, runtime, emit }: FailRunDependencies,
  command: { readonly failure: unknown; readonly execution: string },
): Promise<FailedRun> {
  const parsed = failureSchema.safeParse(command.failure);
  const failure = parsed.success ? parsed.data : { Error: 'States.Unknown', Cause: '' };
  // Not every store keeps the half of a character that is left where a message is cut.
  const message = messageOf(failure.Cause).slice(0, maxMessageLength).toWellFormed();
  const failed = await updateState<FailedRun>(log, definition.name, async (head) => {
    const about = { export: definition.name, error: failure.Error, message };
    const { active, ...idle } = head;
    if (active?.execution !== command.execution) {
      return { result: { ...about, run: null, since: null, ...nothing, resumable: active !== undefined } };
    }
    const last = await log.last(active);
    const resumable = failure.Error !== 'CursorRejectedError' && last?.repeats !== true;
    const lastFailure = { error: failure.Error, message, at: instantOf(runtime.now()) };
    return {
      change: resumable ? { ...head, active: { ...active, lastFailure } } : idle,
      result: { ...about, run: active.run, since: active.since, ...amountOf(last), resumable },
    };
  });
  emit({ event: 'run-failed', ...failed });
  return failed;
}

const nothing = { pages: 0, reports: 0, bytes: 0 };

function amountOf(last: PageEntry | undefined) {
  return last === undefined ? nothing : { pages: last.page, ...last.totals };
}

function messageOf(cause: string): string {
  try {
    return lambdaCauseSchema.parse(JSON.parse(cause)).errorMessage;
  } catch {
    return cause;
  }
}
