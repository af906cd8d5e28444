/**
 * Reads what delays or has ended an execution from the newest events of its history, when someone asks. A log entry says only how often an
 * attempt failed before its page, not why.
 */

import { GetExecutionHistoryCommand, type HistoryEvent, type SFNClient } from '@aws-sdk/client-sfn';
import * as z from 'zod/mini';
import { asRunId } from '../../core/model.ts';
import type { Clock } from '../../core/ports.ts';
import type { Retrier } from '../../core/state-machine/asl.ts';
import type { StateName } from '../../core/state-machine/definition.ts';
import { findRetrier, maxRetryDelaySeconds } from '../../core/state-machine/retry-policy.ts';
import { epochMsOf, instantOf } from '../../core/timestamps.ts';
import type { Incident, Retry, StartOptions } from '../../target/target.ts';
import { isAccessDenied } from '../access-denied.ts';
import { isUnknownExecution } from './executions.ts';
import { parseJson, toFailure } from './failure.ts';

/** An incident in the history, with what else a follower reports of it. */
interface Occurrence {
  readonly id: number;
  readonly incident: Incident;
  /** Of an attempt that is retried. */
  readonly retry?: Retry;
  /** Of a wait: the page that waits. */
  readonly page?: { readonly run: string; readonly page: number };
}

/** The newest retry, wait or failure of the execution. Undefined: there is none, or its history may not be read. */
export async function readLastIncident(client: SFNClient, execution: string): Promise<Incident | undefined> {
  // A run that began outside AWS, and whose state was copied here.
  if (!execution.startsWith('arn:')) return undefined;
  return (await readOccurrences(client, execution))?.at(-1)?.incident;
}

/** Reports the retries and waits of an execution, each once, oldest first: nothing without the permission to read the history. */
export function createDelayReporter(
  { client, exportName, clock }: { readonly client: SFNClient; readonly exportName: string; readonly clock: Clock },
  { emit, onRetry }: Pick<StartOptions, 'emit' | 'onRetry'>,
): (executionArn: string) => Promise<void> {
  let isDenied = false;
  let reported = { executionArn: '', id: 0 };
  return async (executionArn) => {
    if (isDenied) return;
    const occurrences = await readOccurrences(client, executionArn);
    isDenied = occurrences === undefined;
    const known = reported.executionArn === executionArn ? reported.id : 0;
    for (const { id, incident, retry, page } of occurrences?.filter((each) => each.id > known) ?? []) {
      reported = { executionArn, id };
      if (incident.kind === 'wait' && page !== undefined) {
        const about = { export: exportName, run: asRunId(page.run), page: page.page };
        emit({ event: 'service-asked-to-wait', ...about, seconds: incident.seconds, inside: false });
      }
      if (retry === undefined) continue;
      // The delay of a retry that has begun is over.
      const isNewest = id === occurrences?.at(-1)?.id;
      const isPending = isNewest && clock.now() < epochMsOf(incident.at) + (retry.maxDelaySeconds ?? 0) * 1_000;
      onRetry(isPending ? retry : { ...retry, maxDelaySeconds: undefined });
    }
  };
}

/** An attempt and its retry take three or four events: these are all attempts of one page. */
const maxEvents = 100;

/**
 * What the newest events of the execution show, oldest first; nothing if it is no longer known. Undefined without the permission
 * states:GetExecutionHistory.
 */
async function readOccurrences(client: SFNClient, executionArn: string): Promise<readonly Occurrence[] | undefined> {
  const command = new GetExecutionHistoryCommand({ executionArn, maxResults: maxEvents, reverseOrder: true });
  try {
    const { events = [] } = await client.send(command);
    return occurrencesIn(events.toSorted((one, other) => (one.id ?? 0) - (other.id ?? 0)));
  } catch (error) {
    if (isAccessDenied(error)) return undefined;
    if (isUnknownExecution(error)) return [];
    throw error;
  }
}

const waitState: StateName = 'WaitForService';
const waitingLoopSchema = z.object({ run: z.string(), page: z.number(), waitSeconds: z.number() });

/** A failed attempt that is not retried is none: the failure of the run follows. */
function occurrencesIn(events: readonly HistoryEvent[]): readonly Occurrence[] {
  // Until the first event about a state, it is unknown which one it is, and how often it was retried.
  let state: string | undefined;
  let attempts = new Map<Retrier, number>();
  return events.flatMap((event): readonly Occurrence[] => {
    const { id = 0, timestamp, type = '', stateEnteredEventDetails: entered } = event;
    const at = instantOf(timestamp?.getTime() ?? 0);
    if (entered !== undefined) {
      state = entered.name;
      attempts = new Map();
      const { data: page } = waitingLoopSchema.safeParse(parseJson(entered.input));
      if (state !== waitState || page === undefined) return [];
      return [{ id, incident: { kind: 'wait', at, seconds: page.waitSeconds }, page }];
    }
    if (['ExecutionFailed', 'ExecutionAborted', 'ExecutionTimedOut'].includes(type)) {
      const { executionFailedEventDetails, executionAbortedEventDetails, executionTimedOutEventDetails } = event;
      const details = executionFailedEventDetails ?? executionAbortedEventDetails ?? executionTimedOutEventDetails;
      return [{ id, incident: { kind: 'failed-run', at, ...toFailure(details, type === 'ExecutionAborted') } }];
    }
    const { taskFailedEventDetails, taskTimedOutEventDetails } = event;
    const { taskStartFailedEventDetails, taskSubmitFailedEventDetails } = event;
    const details =
      taskFailedEventDetails ?? taskTimedOutEventDetails ?? taskStartFailedEventDetails ?? taskSubmitFailedEventDetails;
    if (details === undefined) return [];
    const failure = toFailure(details);
    const incident = { kind: 'failed-attempt', at, ...failure } as const;
    if (state === undefined) return [{ id, incident }];
    const retrier = findRetrier(failure.error, state);
    if (retrier === undefined) return [];
    const attempt = (attempts.get(retrier) ?? 0) + 1;
    attempts.set(retrier, attempt);
    const { MaxAttempts: maxAttempts } = retrier;
    const maxDelaySeconds = maxRetryDelaySeconds(retrier, attempt);
    return attempt > maxAttempts
      ? []
      : [{ id, incident, retry: { state, ...failure, attempt, maxAttempts, maxDelaySeconds } }];
  });
}
