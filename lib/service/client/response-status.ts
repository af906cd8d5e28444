/**
 * Maps the status of a response to an error. The contract specifies neither statuses nor errors (docs/service-contract.md,
 * section 7), so this table is an assumption, made in this one place:
 *
 * | status | error |
 * |---|---|
 * | 2xx except 206 | none |
 * | 206 | ContractError: no partial response was requested |
 * | 304 | ContractError: the request had no condition |
 * | other 3xx | RequestRejectedError |
 * | 401, 403 | ConfigurationError, if refreshing the API key did not help |
 * | 408, 5xx | ServiceUnavailableError |
 * | 429, and 503 with a valid Retry-After | ServiceThrottledError |
 * | other 4xx | CursorRejectedError if a cursor was sent, otherwise RequestRejectedError |
 * | any other | ContractError |
 */

import type { Dispatcher } from 'undici';
import type { ErrorName, ExportError } from '../../core/errors.ts';
import type { Instant } from '../../core/model.ts';
import { truncate } from '../../core/sanitize.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import type { Api } from '../../settings/api-settings.ts';
import { presentable } from '../redaction/redact.ts';
import { failure, nameOf, type ErrorContext } from './errors.ts';
import type { SentParts } from './request.ts';
import { readHttpDate, singleValue } from './response-headers.ts';

type Response = Pick<Dispatcher.ResponseData, 'statusCode' | 'headers'>;

interface Context {
  /** How the request was authenticated. */
  readonly auth: Api['auth']['kind'];
  readonly sentCursor: boolean;
  /** The local clock; used if the response has no Date. */
  readonly now: number;
  readonly base: URL;
  /** The settings of the address, for messages. */
  readonly address: string;
  readonly method: string;
  /** The path of the request, without its query. */
  readonly path: string;
  /** The beginning of the response's body, if it is text. */
  readonly excerpt: string;
  /** Absent: the request was not for a page. */
  readonly sent?: SentParts;
}

export function isSuccess(statusCode: number): boolean {
  return statusCode >= 200 && statusCode < 300 && statusCode !== 206;
}

export function isKeyRejected(statusCode: number): boolean {
  return statusCode === 401 || statusCode === 403;
}

/** The error for a response without success, after any refresh of the API key. */
export function statusError(subject: ErrorContext, response: Response, context: Context): ExportError {
  const retryAfterSeconds = parseRetryAfter(response.headers, context.now);
  const [name, explanation] = explain(subject, response, context, retryAfterSeconds);
  const message = [
    `${nameOf(subject)} responded with ${response.statusCode} for ${subject.label}`,
    ...(explanation === '' ? [] : [`: ${explanation}`]),
    ...(context.excerpt === '' ? [] : [`. Response: ${context.excerpt}`]),
  ].join('');
  return failure(subject, name, message, name === 'ServiceThrottledError' ? { retryAfterSeconds } : {});
}

function explain(
  subject: ErrorContext,
  { statusCode: status, headers }: Response,
  { auth, sentCursor, base, address, method, path, now, sent }: Context,
  retryAfterSeconds: number | undefined,
): readonly [name: ErrorName, explanation: string] {
  if (isKeyRejected(status)) {
    return ['ConfigurationError', rejectedCredentials[auth]];
  }
  if (status === 429 || (status === 503 && retryAfterSeconds !== undefined)) {
    return [
      'ServiceThrottledError',
      retryAfterSeconds === undefined ? 'too many requests' : `too many requests, retry after ${retryAfterSeconds} s`,
    ];
  }
  if (status === 408 || (status >= 500 && status < 600)) return ['ServiceUnavailableError', ''];
  if (status >= 400 && status < 500) {
    const url = `${base.origin}${path}`;
    if (sentCursor) return ['CursorRejectedError', `${method} ${url} no longer accepts the cursor`];
    return status === 404
      ? ['RequestRejectedError', `${url} does not exist. Check ${address}`]
      : [
          'RequestRejectedError',
          `the request was rejected. ${advise(status, sent, respondedAt(headers, now), address)}`,
        ];
  }
  if (status >= 300 && status < 400 && status !== 304) {
    const target = redirectTarget(subject, headers.location, base);
    const reason = 'redirects are not followed, because they would forward the API key';
    return ['RequestRejectedError', `${reason}. Check ${address}${target}`];
  }
  return ['ContractError', unrequested[status] ?? 'not a valid HTTP status'];
}

const unrequested: Readonly<Record<number, string>> = {
  206: 'a partial response was not requested',
  304: 'not modified, although the request has no condition',
};

const rejectedKey = 'the API key was rejected, even after a refresh. Check the API key';
const rejectedCredentials = {
  none: 'it requires credentials. Describe them in api.auth',
  header: rejectedKey,
  basic: 'user and password were rejected, even after a refresh. Check them',
  bearer: 'the token was rejected, even after a refresh. Check the token',
  oauth2: 'the access token was rejected, and so was a new one. Check scope, and what the client may do',
};

const maxFields = 10;
const recentMs = 3_600_000;

/** What to check after the rejection of a first request, which was sent with `sent`; without it, the setting `address`. */
function advise(status: number, sent: SentParts | undefined, at: number, address: string): string {
  if (sent === undefined) return `Check ${address}`;
  const { fields, since, until, dates } = sent;
  const more = fields.length > maxFields ? ` and ${fields.length - maxFields} more` : '';
  const isRecent = (bound: Instant | undefined) => bound !== undefined && at - epochMsOf(bound) < recentMs;
  const remedy = isRecent(since)
    ? 'start later or less often, or with an earlier --since'
    : isRecent(until) && 'let the run end earlier, with a longer since.lag or an earlier --until';
  return [
    fields.length === 0
      ? 'Check api.request'
      : `Check its fields: ${truncate(fields.slice(0, maxFields).join(', '), 300)}${more}`,
    ...(dates.length > 0 && (status === 400 || status === 422)
      ? [`Its dates were ${dates.join(' and ')}; api.dates has other forms`]
      : []),
    ...(remedy === false ? [] : [`Some APIs refuse recent dates: ${remedy}`]),
  ].join('. ');
}

/** Only the origin: the rest of the URL may contain secrets. */
function redirectTarget({ keys }: ErrorContext, location: string | string[] | undefined, base: URL): string {
  const target = typeof location === 'string' ? URL.parse(location, base.href) : null;
  return target === null ? '' : `; the response redirects to ${presentable(target.origin, keys, 100)}`;
}

/**
 * Seconds to wait, at least 0; undefined if the header is absent, repeated, or neither a number nor a date. A date is compared
 * with the response's own Date, so that a wrong local clock does not matter.
 */
function parseRetryAfter(headers: Response['headers'], now: number): number | undefined {
  const value = singleValue(headers['retry-after']);
  if (value === undefined) return undefined;
  if (/^\d+$/.test(value)) return Math.min(Number(value), Number.MAX_SAFE_INTEGER);
  const until = readHttpDate(headers['retry-after']);
  if (until === null) return undefined;
  return Math.max(0, Math.ceil((epochMsOf(until) - respondedAt(headers, now)) / 1_000));
}

/** By the service's clock; by the local one if the response has no Date. */
function respondedAt(headers: Response['headers'], now: number): number {
  const date = readHttpDate(headers.date);
  return date === null ? now : epochMsOf(date);
}
