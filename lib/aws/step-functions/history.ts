/**
 * Reads what delays or has ended an execution from the newest events of its history, when someone asks. A log entry
 * says only how often an attempt failed before its page, not why.
 */

import { GetExecutionHistoryCommand, type HistoryEvent, type SFNClient } from '@aws-sdk/client-sfn';
import * as z from 'zod/mini';
import { messageInCause } from '../../core/steps/fail-run.ts';
import type { StateName } from '../../core/state-machine/definition.ts';
import type { Instant, RunFailure } from '../../core/model.ts';
import { instantOf } from '../../core/timestamps.ts';
import { shorten, toPrintable, truncate } from '../../core/sanitize.ts';
import { isAccessDenied } from '../errors.ts';
import { parseJson } from '../parse-json.ts';
import { isUnknownExecution } from './executions.ts';

/** What delayed or stopped an unfinished run. */
export type Incident =
  /** An attempt failed and is retried; or an execution failed, and the next start resumes the run. */
  | ({ readonly kind: 'failed-attempt' | 'failed-run' } & RunFailure)
  /** The service responded with Retry-After. */
  | { readonly kind: 'wait'; readonly at: Instant; readonly seconds: number };

/** An attempt and its retry take three or four events: these are all attempts of one page. */
const maxEvents = 100;

/**
 * The newest failed attempt, wait or failure of the execution. Undefined: there is none, the execution is no longer
 * known, or its history may not be read, which needs states:GetExecutionHistory.
 */
export async function readLastIncident(client: SFNClient, executionArn: string): Promise<Incident | undefined> {
  // A run that began outside AWS, and whose state was copied here.
  if (!executionArn.startsWith('arn:')) return undefined;
  const command = new GetExecutionHistoryCommand({ executionArn, maxResults: maxEvents, reverseOrder: true });
  try {
    const { events = [] } = await client.send(command);
    for (const event of events) {
      const incident = incidentIn(event);
      if (incident !== undefined) return incident;
    }
    return undefined;
  } catch (error) {
    if (isAccessDenied(error) || isUnknownExecution(error)) return undefined;
    throw error;
  }
}

const waitState: StateName = 'WaitForService';
const waitingLoopSchema = z.object({ waitSeconds: z.number() });

/** The fields of an event that have the error and the cause of a failure. */
const failureDetails = /(Failed|Aborted|TimedOut)EventDetails$/;

function incidentIn(event: HistoryEvent): Incident | undefined {
  const { timestamp, type = '', stateEnteredEventDetails: entered } = event;
  const at = instantOf(timestamp?.getTime() ?? 0);
  if (entered?.name === waitState) {
    const { data: loop } = waitingLoopSchema.safeParse(parseJson(entered.input));
    return loop && { kind: 'wait', at, seconds: loop.waitSeconds };
  }
  const [, details] =
    Object.entries(event).find(([field, value]) => value !== undefined && failureDetails.test(field)) ?? [];
  const isOver = /^Execution(Failed|Aborted|TimedOut)$/.test(type);
  if (!isOver && details === undefined) return undefined;
  return {
    kind: isOver ? 'failed-run' : 'failed-attempt',
    at,
    ...toFailure(details as Parameters<typeof toFailure>[0], type === 'ExecutionAborted'),
  };
}

/** The messages of failures without a cause. */
const defaultMessages: Readonly<Record<string, string>> = {
  'States.Timeout': 'Timed out',
  ExecutionAborted: 'The execution was stopped',
};

const maxMessageLength = 1_000;

/** Makes error and message fit for a terminal. What was stopped or timed out may have neither error nor cause. */
export function toFailure(
  details: { readonly error?: string | undefined; readonly cause?: string | undefined } = {},
  isAborted = false,
): Pick<RunFailure, 'error' | 'message'> {
  const error = truncate(toPrintable(details.error || (isAborted ? 'ExecutionAborted' : 'States.Timeout')), 100);
  const message = shorten(toPrintable(messageInCause(details.cause ?? '')).trim(), maxMessageLength);
  return { error, message: message === '' ? (defaultMessages[error] ?? 'Step Functions reported no cause') : message };
}
