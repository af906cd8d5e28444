/** Reads what Step Functions says about a failed execution or attempt. */

import * as z from 'zod/mini';
import { shorten, toPrintable, truncate } from '../../core/sanitize.ts';
import { parseJson } from '../parse-json.ts';

interface Failure {
  readonly error: string;
  readonly message: string;
}

/** The messages of failures without a cause. */
const defaultMessages: Readonly<Record<string, string>> = {
  'States.Timeout': 'Timed out',
  ExecutionAborted: 'The execution was stopped',
};

const maxMessageLength = 1_000;
const lambdaCauseSchema = z.object({ errorMessage: z.string() });

/**
 * Takes the message from the JSON that Lambda returns as the cause, and makes both fit for a terminal. What was stopped
 * or timed out may have neither error nor cause.
 */
export function toFailure(
  details: { readonly error?: string | undefined; readonly cause?: string | undefined } = {},
  isAborted = false,
): Failure {
  const error = truncate(toPrintable(details.error || (isAborted ? 'ExecutionAborted' : 'States.Timeout')), 100);
  const cause = details.cause ?? '';
  const text = lambdaCauseSchema.safeParse(parseJson(cause)).data?.errorMessage ?? cause;
  const message = shorten(toPrintable(text).trim(), maxMessageLength);
  return { error, message: message === '' ? (defaultMessages[error] ?? 'Step Functions reported no cause') : message };
}
