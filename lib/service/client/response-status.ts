/**
 * Maps the status of a response to an error. The contract specifies neither statuses nor errors: the table in
 * docs/service-contract.md, section 7, is an assumption, made in this one place.
 */

import type { ErrorName, ExportError } from '../../core/errors.ts';
import type { Clock } from '../../core/ports.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import type { Api } from '../../settings/api-settings.ts';
import { presentable } from '../redaction/redact.ts';
import { type ErrorContext, failure } from './errors.ts';
import { readExcerpt } from './excerpt.ts';
import type { Response } from './exchange.ts';
import { readHttpDate, singleValue } from './response-headers.ts';

export interface Requested {
  /** What the request proves its right with: for a token, the client secret. */
  readonly credentials: Api['auth']['kind'] | 'client secret' | 'private key' | 'refresh token';
  /** What it sends of the page before: nothing for the first page, a cursor, the number of the page, or a whole URL. */
  readonly cursor: 'none' | 'text' | 'number' | 'url';
  /** The settings that say where a cursor is found and sent. */
  readonly cursorSettings: string;
  /** `ApiKeySource.place`. */
  readonly secretPlace?: string | undefined;
  readonly method: string;
  /** Without its query. */
  readonly path: string;
  /** The settings of the address. */
  readonly address: string;
  /** The settings of its fields. Absent: there are none. */
  readonly fields?: string;
}

export const isSuccess = (status: number): boolean => status >= 200 && status < 300 && status !== 206;
export const isKeyRejected = (status: number): boolean => status === 401 || status === 403;

/** The error for a response without success, after any refresh of the API key. Its body is consumed, or destroyed. */
export async function statusError(
  context: ErrorContext,
  response: Response,
  clock: Pick<Clock, 'now' | 'sleep'>,
  requested: Requested,
): Promise<ExportError> {
  const excerpt = await readExcerpt(context, response, clock);
  const retryAfterSeconds = parseRetryAfter(response.headers, clock.now());
  const [name, explanation] = explain(context, response, requested, retryAfterSeconds);
  const message = [
    `${context.server.name} responded with ${response.statusCode} for ${context.label}`,
    ...(explanation === '' ? [] : [`: ${explanation}`]),
    ...(excerpt === '' ? [] : [`. Response: ${excerpt}`]),
  ].join('');
  return failure(context, name, message, name === 'ServiceThrottledError' ? { retryAfterSeconds } : {});
}

function explain(
  context: ErrorContext,
  { statusCode: status, headers }: Response,
  requested: Requested,
  retryAfterSeconds: number | undefined,
): readonly [name: ErrorName, explanation: string] {
  const { base } = context.server;
  const { credentials, address } = requested;
  if (isKeyRejected(status) || (status === 400 && address === 'auth.tokenUrl')) {
    return ['ConfigurationError', rejectedCredentials(status, requested)];
  }
  if (status === 429 || (status === 503 && retryAfterSeconds !== undefined)) {
    const wait = retryAfterSeconds === undefined ? '' : `, retry after ${retryAfterSeconds} s`;
    return ['ServiceThrottledError', `too many requests${wait}`];
  }
  if (status === 408 || (status >= 500 && status < 600)) return ['ServiceUnavailableError', ''];
  if (status >= 400 && status < 500) return rejectedRequest(status, base.origin, requested);
  if (status >= 300 && status < 400 && status !== 304) {
    const target = typeof headers.location === 'string' ? URL.parse(headers.location, base.href) : null;
    // Only the origin: the rest of the URL may contain secrets.
    const origin =
      target === null ? '' : `; the response redirects to ${presentable(target.origin, context.keys, 100)}`;
    const forwarded = credentials === 'refresh token' ? credentials : 'API key';
    const reason = `redirects are not followed, because they would forward the ${forwarded}`;
    return ['RequestRejectedError', `${reason}. Check ${address}${origin}`];
  }
  return ['ContractError', unrequested[status] ?? 'not a valid HTTP status'];
}

const unrequested: Readonly<Record<number, string>> = {
  206: 'a partial response was not requested',
  304: 'not modified, although the request has no condition',
};

function rejectedRequest(
  status: number,
  origin: string,
  { cursor, cursorSettings, method, path, address, fields }: Requested,
): readonly [name: ErrorName, explanation: string] {
  const url = `${origin}${path}`;
  const repeats = 'If every run fails here, check';
  switch (cursor) {
    case 'text': {
      const problem = `${method} ${url} rejected the cursor, which may have expired`;
      return ['CursorRejectedError', `${problem}. ${repeats} ${cursorSettings}`];
    }
    case 'number': {
      const reason = 'Reports may have been deleted meanwhile, or the service limits how far pages are counted';
      return ['CursorRejectedError', `${url} has no page of this number. ${reason}. ${repeats} next`];
    }
    case 'url': {
      const problem = status === 404 ? 'does not exist' : 'was rejected';
      return ['CursorRejectedError', `${url}, the address of the next page, ${problem}. ${repeats} next.at`];
    }
    case 'none': {
      if (status === 404) return ['RequestRejectedError', `${url} does not exist. Check ${address}`];
      const advice = fields === undefined ? `Check ${address}` : `Check ${fields}: plan --request shows what is sent`;
      return ['RequestRejectedError', `the request was rejected. ${advice}`];
    }
  }
}

/** It does not say that anything was refreshed: a key from the environment never is. */
function rejectedCredentials(status: number, { credentials, secretPlace }: Requested): string {
  const text = rejected[credentials];
  if (credentials !== 'header' && credentials !== 'basic' && credentials !== 'bearer') return text;
  const reason = status === 403 ? 'it may be wrong, or not allowed to read reports' : 'it may be wrong or have expired';
  return `${text}: ${reason}. Check ${secretPlace?.replace(/^The /, 'the ') ?? 'it'}`;
}

const rejected: Readonly<Record<Requested['credentials'], string>> = {
  none: 'it requires credentials. Describe them in api.auth',
  header: 'the API key was rejected',
  basic: 'the pair of user and password was rejected',
  bearer: 'the token was rejected',
  oauth2: 'the access token was rejected, and so was a new one. Check scope, and what the client may do',
  jwt: 'the access token was rejected, and so was a new one. Check scope and subject, and what the issuer may do',
  'client secret': 'it rejects the client. Check auth.clientId, auth.scope and the client secret',
  'refresh token':
    'it rejects the refresh token or the client. If it says invalid_grant, consent again, and store the new refresh token. Otherwise check ' +
    'auth.clientId, auth.scope and the client secret',
  'private key':
    'it rejects the assertion. Check auth.issuer, auth.subject, auth.audience, auth.scope and the private key',
};

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
  const date = readHttpDate(headers.date);
  const respondedAt = date === null ? now : epochMsOf(date);
  return Math.max(0, Math.ceil((epochMsOf(until) - respondedAt) / 1_000));
}
