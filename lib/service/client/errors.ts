/** Creates the errors of a request. Each names the page it is about; neither it nor its causes contain the API key. */

import { type ErrorName, ExportError } from '../../core/errors.ts';
import { shorten, toPrintable } from '../../core/sanitize.ts';
import { containsKey, containsPart, presentable, redacted } from '../redaction/redact.ts';

/** Who responds. */
export interface Server {
  /** The beginning of a sentence. */
  readonly name: string;
  readonly base: URL;
  readonly setting: string;
}

/** The subject of an error. */
export interface ErrorContext {
  /** `page 7 of run 20261120T020000Z-1f3a5cb2d407`, followed by the service's request ID once it is known. */
  readonly label: string;
  readonly server: Server;
  /** The keys that this request and earlier ones were sent with. */
  readonly keys: ReadonlySet<string>;
}

/** Readable for people, and well within the limits of Step Functions, whatever the service sends. */
const maxMessageLength = 1_000;

/** No phrase of the exporter's own messages is likely to contain a longer key. */
const minSafeguardLength = 20;

/**
 * An ExportError. Foreign text in `message` must be `presentable` already: the message as a whole is redacted only if
 * it contains a long key, because a short one may also occur in the exporter's own words. `cause` may be any foreign
 * error.
 */
export function failure(
  { keys }: ErrorContext,
  name: ErrorName,
  message: string,
  { cause, ...details }: ConstructorParameters<typeof ExportError>[2] = {},
): ExportError {
  const shown = containsKey(message, keys, minSafeguardLength) ? redacted : toPrintable(message);
  return new ExportError(name, shorten(shown, maxMessageLength), {
    cause: cause === undefined ? undefined : presentableCause(cause, keys),
    ...details,
  });
}

/** `problem` completes the sentence. Foreign text in it must be `presentable` already. */
export function contractError(context: ErrorContext, problem: string): ExportError {
  const message = `${context.server.name} sent an invalid response for ${context.label}: ${problem}`;
  return failure(context, 'ContractError', message);
}

/**
 * A plain copy of a foreign error, without texts that contain a key: name, code, message, stack and causes. Nothing
 * else: undici's parser errors carry the bytes that could not be parsed.
 */
function presentableCause(cause: unknown, keys: ReadonlySet<string>, maxDepth = 4): Error {
  const shown = (text: string) => presentable(text, keys, maxMessageLength);
  if (!(cause instanceof Error)) return new Error(shown(String(cause)));
  const inner = cause instanceof AggregateError ? cause.errors[0] : cause.cause;
  const options =
    inner === undefined || maxDepth === 0 ? undefined : { cause: presentableCause(inner, keys, maxDepth - 1) };
  const copy = new Error(shown(cause.message), options);
  copy.name = shown(cause.name);
  // A stack repeats the message, so only its frames are kept.
  const [, frames = ''] = /((?:\n {4}at .*)+)$/.exec(cause.stack ?? '') ?? [];
  copy.stack = `${copy.name}: ${copy.message}${containsPart(frames, keys) ? '' : frames}`;
  return 'code' in cause ? Object.assign(copy, { code: shown(String(cause.code)) }) : copy;
}
