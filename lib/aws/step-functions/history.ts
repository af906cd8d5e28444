/**
 * Reads what delays or has ended an execution from the newest events of its history, when someone asks. A log entry says only how often an
 * attempt failed before its page, not why.
 */

import { GetExecutionHistoryCommand, type HistoryEvent, type SFNClient } from '@aws-sdk/client-sfn';
import * as z from 'zod/mini';
import { asRunId, type LoopState } from '../../core/model.ts';
import type { Clock } from '../../core/ports.ts';
import type { Retrier } from '../../core/state-machine/asl.ts';
import type { StateName } from '../../core/state-machine/definition.ts';
import { findRetrier, maxRetryDelaySeconds } from '../../core/state-machine/retry-policy.ts';
import { epochMsOf, instantOf } from '../../core/timestamps.ts';
import type { Incident, StartOptions } from '../../target/target.ts';
import { isAccessDenied } from '../access-denied.ts';
import { isUnknownExecution } from './executions.ts';
import { parseJson, toFailure } from './failure.ts';

/** An attempt and its retry take three or four events: these are all attempts of one page. */
const maxEvents = 100;

/** The newest events of the execution, oldest first; none if it is no longer known. Needs states:GetExecutionHistory. */
async function readNewestEvents(client: SFNClient, executionArn: string): Promise<readonly HistoryEvent[]> {
  const command = new GetExecutionHistoryCommand({ executionArn, maxResults: maxEvents, reverseOrder: true });
  try {
    const { events = [] } = await client.send(command);
    return events.toSorted((one, other) => (one.id ?? 0) - (other.id ?? 0));
  } catch (error) {
    if (isUnknownExecution(error)) return [];
    throw error;
  }
}

/** The newest retry, wait or failure of the execution. Undefined: there is none, or its history may not be read. */
export async function readLastIncident(client: SFNClient, execution: string): Promise<Incident | undefined> {
  // A run that began outside AWS, and whose state was copied here.
  if (!execution.startsWith('arn:')) return undefined;
  try {
    const last = occurrencesIn(await readNewestEvents(client, execution)).at(-1);
    if (last === undefined) return undefined;
    if (last.kind === 'wait') return { kind: 'wait', at: last.at, seconds: last.loop.waitSeconds };
    const { kind, at, error, message } = last;
    return { kind, at, error, message };
  } catch (error) {
    if (isAccessDenied(error)) return undefined;
    throw error;
  }
}

/**
 * Reports the retries and waits of an execution, each once, oldest first. Without the permission to read the history, it reports nothing.
 */
export function createDelayReporter(
  { client, exportName, clock }: { readonly client: SFNClient; readonly exportName: string; readonly clock: Clock },
  { emit, onRetry, notify }: Pick<StartOptions, 'emit' | 'onRetry' | 'notify'>,
): (executionArn: string) => Promise<void> {
  let isDenied = false;
  let reported = { executionArn: '', id: 0 };

  const report = (occurrence: Occurrence, isNewest: boolean) => {
    const { kind } = occurrence;
    if (kind === 'failed-run') return;
    if (kind === 'failed-attempt') {
      const { error, message, at, state, retrier, attempt } = occurrence;
      if (state === undefined || retrier === undefined) return notify(`${error}: ${message}`);
      const maxDelaySeconds = maxRetryDelaySeconds(retrier, attempt);
      // The delay of a retry that has begun is over.
      const isPending = isNewest && clock.now() < epochMsOf(at) + maxDelaySeconds * 1_000;
      const retry = { state, error, message, attempt, maxAttempts: retrier.MaxAttempts };
      return onRetry(isPending ? { ...retry, maxDelaySeconds } : retry);
    }
    const { run, page, waitSeconds: seconds } = occurrence.loop;
    emit({ event: 'service-asked-to-wait', export: exportName, run: asRunId(run), page, seconds, inside: false });
  };

  return async (executionArn) => {
    if (isDenied) return;
    try {
      const known = reported.executionArn === executionArn ? reported.id : 0;
      const occurrences = occurrencesIn(await readNewestEvents(client, executionArn));
      const newest = occurrences.at(-1);
      if (newest !== undefined) reported = { executionArn, id: newest.id };
      for (const each of occurrences) if (each.id > known) report(each, each === newest);
    } catch (error) {
      if (!isAccessDenied(error)) throw error;
      isDenied = true;
    }
  };
}

type Occurrence = Pick<Incident, 'at'> & { readonly id: number } & (
    | { readonly kind: 'wait'; readonly loop: WaitingLoop }
    | {
        readonly kind: 'failed-attempt';
        readonly error: string;
        readonly message: string;
        /** Absent: it was entered before these events, so the retry has no known number. */
        readonly state?: string;
        readonly retrier?: Retrier;
        /** The number of the retry, from 1, among those of errors that share the retrier. */
        readonly attempt: number;
      }
    | { readonly kind: 'failed-run'; readonly error: string; readonly message: string }
  );

type WaitingLoop = Pick<LoopState, 'run' | 'page'> & { readonly waitSeconds: number };
const waitingLoopSchema = z.object({ run: z.string(), page: z.number(), waitSeconds: z.number() });

const waitState: StateName = 'WaitForService';

/** In the order in which they happened. A failed attempt that is not retried is none: the failure of the run follows. */
function occurrencesIn(events: readonly HistoryEvent[]): readonly Occurrence[] {
  let state: string | undefined;
  let attempts = new Map<Retrier, number>();
  return events.flatMap((event): readonly Occurrence[] => {
    const { id = 0, timestamp, stateEnteredEventDetails: entered } = event;
    const about = { id, at: instantOf(timestamp?.getTime() ?? 0) };
    if (entered !== undefined) {
      state = entered.name;
      attempts = new Map();
      if (state !== waitState) return [];
      const { data: loop } = waitingLoopSchema.safeParse(parseJson(entered.input));
      return loop === undefined ? [] : [{ ...about, kind: 'wait', loop }];
    }
    const failedRun = executionFailureIn(event);
    if (failedRun !== undefined) return [{ ...about, kind: 'failed-run', ...failedRun }];
    const failure = attemptFailureIn(event);
    if (failure === undefined) return [];
    if (state === undefined) return [{ ...about, kind: 'failed-attempt', ...failure, attempt: 1 }];
    const retrier = findRetrier(failure.error, state);
    if (retrier === undefined) return [];
    const attempt = (attempts.get(retrier) ?? 0) + 1;
    attempts.set(retrier, attempt);
    return attempt > retrier.MaxAttempts
      ? []
      : [{ ...about, kind: 'failed-attempt', ...failure, state, retrier, attempt }];
  });
}

function attemptFailureIn(event: HistoryEvent) {
  const { taskFailedEventDetails, taskTimedOutEventDetails } = event;
  const { taskStartFailedEventDetails, taskSubmitFailedEventDetails } = event;
  const details =
    taskFailedEventDetails ?? taskTimedOutEventDetails ?? taskStartFailedEventDetails ?? taskSubmitFailedEventDetails;
  return details && toFailure(details, 'States.Timeout');
}

/** The event of an execution that was stopped or timed out has details only if there are any. */
function executionFailureIn({ type, ...event }: HistoryEvent) {
  if (type !== 'ExecutionFailed' && type !== 'ExecutionAborted' && type !== 'ExecutionTimedOut') return undefined;
  const { executionFailedEventDetails, executionAbortedEventDetails, executionTimedOutEventDetails } = event;
  const details = executionFailedEventDetails ?? executionAbortedEventDetails ?? executionTimedOutEventDetails;
  return toFailure(details, type === 'ExecutionAborted' ? 'ExecutionAborted' : 'States.Timeout');
}
