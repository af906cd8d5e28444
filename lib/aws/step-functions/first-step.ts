/**
 * Reports why the first step of an execution has not succeeded yet. No record has that: incidents are recorded with their run,
 * which the first step determines. So this alone is read from the history of the execution.
 */

import { GetExecutionHistoryCommand, type HistoryEvent, type SFNClient } from '@aws-sdk/client-sfn';
import type { Clock } from '../../core/ports.ts';
import type { Retrier } from '../../core/state-machine/asl.ts';
import type { StateName } from '../../core/state-machine/definition.ts';
import { findRetrier, maxRetryDelaySeconds } from '../../core/state-machine/retry-policy.ts';
import type { StartOptions } from '../../target/target.ts';
import { isAccessDenied } from '../access-denied.ts';
import { toFailure } from './failure.ts';

const firstState = 'BeginRun' satisfies StateName;

/**
 * Calls `onRetry` with the newest failed attempt of the execution's first step, once, while the step is not over. Needs
 * states:GetExecutionHistory; without it, reports nothing.
 */
export function createFirstStepReporter(
  { client, clock }: { readonly client: SFNClient; readonly clock: Pick<Clock, 'now'> },
  onRetry: StartOptions['onRetry'],
): (executionArn: string) => Promise<void> {
  let isDenied = false;
  let reported = '';

  return async (executionArn) => {
    if (isDenied) return;
    const command = new GetExecutionHistoryCommand({ executionArn, maxResults: 1_000, includeExecutionData: false });
    let events: readonly HistoryEvent[];
    try {
      events = (await client.send(command)).events ?? [];
    } catch (error) {
      if (!isAccessDenied(error)) throw error;
      isDenied = true;
      return;
    }
    if (events.some(({ type = '' }) => type.endsWith('StateExited'))) return;
    const failures = events.flatMap((event) => failureIn(event) ?? []);
    const newest = failures.at(-1);
    const key = `${executionArn}#${newest?.id}`;
    if (newest === undefined || key === reported) return;
    reported = key;
    const retrier = findRetrier(newest.error, firstState);
    const attempt = failures.filter(({ error }) => findRetrier(error, firstState) === retrier).length;
    if (!isRetried(retrier, attempt)) return;
    const maxDelaySeconds = maxRetryDelaySeconds(retrier, attempt);
    // The delay of a retry that has begun is over.
    const isPending = clock.now() < newest.at + maxDelaySeconds * 1_000;
    const { error, message } = newest;
    const retry = { state: firstState, error, message, attempt, maxAttempts: retrier.MaxAttempts };
    onRetry({ ...retry, ...(isPending ? { maxDelaySeconds } : {}) });
  };
}

const isRetried = (retrier: Retrier | undefined, attempt: number): retrier is Retrier =>
  retrier !== undefined && attempt <= retrier.MaxAttempts;

/** How the attempt failed that the event is the end of. */
function failureIn(event: HistoryEvent) {
  const { id, timestamp, taskFailedEventDetails, taskTimedOutEventDetails } = event;
  const { taskStartFailedEventDetails, taskSubmitFailedEventDetails } = event;
  const details =
    taskFailedEventDetails ?? taskTimedOutEventDetails ?? taskStartFailedEventDetails ?? taskSubmitFailedEventDetails;
  if (details === undefined) return undefined;
  return { id, at: timestamp?.getTime() ?? 0, ...toFailure(details, 'States.Timeout') };
}
