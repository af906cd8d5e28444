/** Makes the errors of one request: each says which page it is about, and none holds the API key, nor does its cause. */

import { type ErrorName, ExportError } from '../../core/errors.ts';
import { presentable, redact } from '../redaction/redact.ts';

/** What an error is about. */
export interface Subject {
  /** `page 7 of run 20261120T020000Z-1f3a5c`, with the service's request id once there is one. */
  readonly label: string;
  /** The keys this request, and those before it, were sent with. */
  readonly keys: ReadonlySet<string>;
}

/** What a person reads, and what Step Functions has room for; no answer, however it is made up, makes a message longer. */
const maxMessageLength = 1_000;

export function failure(
  { keys }: Subject,
  name: ErrorName,
  message: string,
  { cause, retryAfterSeconds }: { readonly cause?: unknown; readonly retryAfterSeconds?: number | undefined } = {},
): ExportError {
  return new ExportError(name, presentable(message, keys, maxMessageLength), {
    ...(cause === undefined ? {} : { cause: redactedCause(cause, keys) }),
    retryAfterSeconds,
  });
}

/**
 * A foreign error as a plain copy of its name, code, message and stack, redacted, with its causes. Whatever else it
 * carried stays behind: undici's parser errors hold the very bytes they failed on.
 */
function redactedCause(cause: unknown, keys: ReadonlySet<string>, depth = 4): Error {
  const shown = (text: string) => presentable(text, keys, maxMessageLength);
  if (!(cause instanceof Error)) return new Error(shown(String(cause)));
  const inner = cause instanceof AggregateError ? cause.errors[0] : cause.cause;
  const further = inner === undefined || depth === 0 ? undefined : { cause: redactedCause(inner, keys, depth - 1) };
  const copy = new Error(shown(cause.message), further);
  copy.name = shown(cause.name);
  // A stack begins with the message once more.
  const [, frames = ''] = /((?:\n {4}at .*)+)$/.exec(cause.stack ?? '') ?? [];
  copy.stack = `${copy.name}: ${copy.message}${redact(frames, keys)}`;
  return 'code' in cause ? Object.assign(copy, { code: shown(String(cause.code)) }) : copy;
}
