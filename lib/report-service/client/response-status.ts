/**
 * What an answer's status means to a run. The contract shows no statuses and no errors (section 7), so this table is our
 * assumption, made in this one place:
 *
 * | status | error |
 * |---|---|
 * | 2xx but 206 | none |
 * | 206 | ContractError: nobody asked for a part |
 * | 3xx | RequestRejectedError |
 * | 401, 403 | ConfigurationError, once a second look has found no newer key, or that one is refused too |
 * | 408, 5xx | ServiceUnavailableError |
 * | 429, and 503 with a valid Retry-After | ServiceThrottledError |
 * | another 4xx | CursorRejectedError if a cursor was sent, else RequestRejectedError |
 * | anything else | ContractError |
 */

import type { Dispatcher } from 'undici';
import type { ErrorName, ExportError } from '../../core/errors.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import { presentable } from '../redaction/redact.ts';
import { failure, type Subject } from './errors.ts';
import { httpDate, single } from './response-headers.ts';

type Answer = Pick<Dispatcher.ResponseData, 'statusCode' | 'headers'>;

export function isGood(statusCode: number): boolean {
  return statusCode >= 200 && statusCode < 300 && statusCode !== 206;
}

export function refusesKey(statusCode: number): boolean {
  return statusCode === 401 || statusCode === 403;
}

/** The error that an answer that is not good amounts to; `excerpt` is what its body says, if anything. */
export function answerError(
  subject: Subject,
  answer: Answer,
  circumstances: { readonly sentCursor: boolean; readonly now: number; readonly base: URL; readonly excerpt: string },
): ExportError {
  const { excerpt } = circumstances;
  const retryAfterSeconds = retryAfterOf(answer.headers, circumstances.now);
  const [name, next] = meaningOf(subject, answer, circumstances, retryAfterSeconds);
  const said = excerpt === '' ? '' : `. It said: ${excerpt}`;
  const message = `Report service answered ${answer.statusCode} for ${subject.label}: ${next}${said}`;
  return failure(subject, name, message, name === 'ServiceThrottledError' ? { retryAfterSeconds } : {});
}

function meaningOf(
  subject: Subject,
  { statusCode: status, headers }: Answer,
  { sentCursor, base }: { readonly sentCursor: boolean; readonly base: URL },
  retryAfterSeconds: number | undefined,
): readonly [name: ErrorName, next: string] {
  if (refusesKey(status)) {
    return ['ConfigurationError', 'it refuses the API key, also after a look for a newer one; check the key'];
  }
  if (status === 429 || (status === 503 && retryAfterSeconds !== undefined)) {
    const patience = retryAfterSeconds === undefined ? 'later' : `after ${retryAfterSeconds} s, as it asks`;
    return ['ServiceThrottledError', `it is tried again ${patience}`];
  }
  if (status === 408 || (status >= 500 && status < 600))
    return ['ServiceUnavailableError', 'it is tried again for a while'];
  if (status >= 400 && status < 500) {
    return sentCursor
      ? ['CursorRejectedError', 'it no longer accepts the cursor it gave out; the run starts afresh, if it still may']
      : ['RequestRejectedError', 'it refuses the request; check filter, format, container and size'];
  }
  if (status >= 300 && status < 400) {
    const why = 'redirects are not followed, because they would carry the API key along; check the base URL';
    return ['RequestRejectedError', `${why}${redirectOf(subject, headers.location, base)}`];
  }
  const what = status === 206 ? 'a part was sent where the whole was asked for' : 'HTTP knows no such status';
  return ['ContractError', `${what}; it is tried again a little, in case it was a glitch`];
}

/** Only the origin: the rest of an address may carry secrets. */
function redirectOf({ keys }: Subject, location: string | string[] | undefined, base: URL): string {
  const target = typeof location === 'string' ? URL.parse(location, base.href) : null;
  return target === null ? '' : ` (it points to ${presentable(target.origin, keys, 100)})`;
}

/**
 * Seconds to wait, never negative; undefined where the header is absent, repeated or neither seconds nor a date. A date is
 * measured by the answer's own Date, so that a clock of ours that is wrong does not matter.
 */
function retryAfterOf(headers: Answer['headers'], now: number): number | undefined {
  const value = single(headers['retry-after']);
  if (value === undefined) return undefined;
  if (/^\d+$/.test(value)) return Math.min(Number(value), Number.MAX_SAFE_INTEGER);
  const until = httpDate(headers['retry-after']);
  if (until === null) return undefined;
  const answeredAt = httpDate(headers.date);
  const from = answeredAt === null ? now : epochMsOf(answeredAt);
  return Math.max(0, Math.ceil((epochMsOf(until) - from) / 1_000));
}
