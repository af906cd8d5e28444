/** What the events of an execution say about a failure: its name, and a message for a person. */

import type { HistoryEvent } from '@aws-sdk/client-sfn';
import * as z from 'zod';
import { printable, shortened } from '../../core/sanitize.ts';

export interface Failure {
  readonly error: string;
  readonly message: string;
}

/** How an attempt failed. A superseded execution ends quietly: nothing has failed. */
export function failureIn(event: HistoryEvent): Failure | undefined {
  const details =
    event.taskFailedEventDetails ??
    event.taskStartFailedEventDetails ??
    event.taskSubmitFailedEventDetails ??
    event.lambdaFunctionFailedEventDetails ??
    event.lambdaFunctionScheduleFailedEventDetails ??
    event.lambdaFunctionStartFailedEventDetails;
  if (details !== undefined)
    return details.error === 'RunSupersededError' ? undefined : failureOf(details, 'States.Unknown');
  const late = event.taskTimedOutEventDetails ?? event.lambdaFunctionTimedOutEventDetails;
  return late && failureOf(late, 'States.Timeout');
}

/** How an execution gave up. */
export function endIn(event: HistoryEvent): Failure | undefined {
  if (event.type === 'ExecutionFailed') return failureOf(event.executionFailedEventDetails, 'States.Unknown');
  if (event.type === 'ExecutionTimedOut') return failureOf(event.executionTimedOutEventDetails, 'States.Timeout');
  if (event.type === 'ExecutionAborted') return failureOf(event.executionAbortedEventDetails, 'ExecutionAborted');
  return undefined;
}

/** Where Step Functions has no word for it. */
const inOurWords: Readonly<Record<string, string>> = {
  'States.Timeout': 'It took more time than it may',
  ExecutionAborted: 'Somebody stopped the execution',
};

const longestMessage = 1_000;
const lambdaCauseSchema = z.object({ errorMessage: z.string() });

/** The cause of a Lambda's error is JSON. Whatever it says may be long, and is for a terminal. */
export function failureOf(
  details: { readonly error?: string | undefined; readonly cause?: string | undefined } = {},
  otherwise: string,
): Failure {
  const error = shortened(printable(details.error || otherwise), 100);
  const cause = details.cause ?? '';
  const said = lambdaCauseSchema.safeParse(parsed(cause)).data?.errorMessage ?? cause;
  const message = shortened(printable(said).trim(), longestMessage);
  return { error, message: message === '' ? (inOurWords[error] ?? 'Step Functions says no more') : message };
}

/** undefined where it is no JSON. */
export function parsed(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? '');
  } catch {
    return undefined;
  }
}
