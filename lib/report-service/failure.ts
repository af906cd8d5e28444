/** Makes the errors of one request: each says which page it is about, and none holds the API key, nor does its cause. */

import { type ErrorName, ExportError } from '../core/errors.ts';
import { redact } from './redaction.ts';

/** What an error is about. */
export interface Subject {
  /** `page 7 of run 20261120T020000Z-1f3a5c`, with the service's request id once there is one. */
  readonly label: string;
  /** The keys this request was sent with. */
  readonly keys: ReadonlySet<string>;
}

export function failure(
  { keys }: Subject,
  name: ErrorName,
  message: string,
  { cause, retryAfterSeconds }: { readonly cause?: unknown; readonly retryAfterSeconds?: number | undefined } = {},
): ExportError {
  return new ExportError(name, redact(message, keys), {
    ...(cause === undefined ? {} : { cause: redactedCause(cause, keys) }),
    retryAfterSeconds,
  });
}

/**
 * A foreign error as a plain copy of its name, code, message and stack, redacted, with its causes. Whatever else it
 * carried stays behind: undici's parser errors hold the very bytes they failed on.
 */
function redactedCause(cause: unknown, keys: ReadonlySet<string>, depth = 4): Error {
  if (!(cause instanceof Error)) return new Error(redact(String(cause), keys));
  const inner = cause instanceof AggregateError ? cause.errors[0] : cause.cause;
  const further = inner === undefined || depth === 0 ? undefined : { cause: redactedCause(inner, keys, depth - 1) };
  const copy = new Error(redact(cause.message, keys), further);
  copy.name = cause.name;
  copy.stack = redact(cause.stack ?? '', keys);
  return 'code' in cause ? Object.assign(copy, { code: redact(String(cause.code), keys) }) : copy;
}
