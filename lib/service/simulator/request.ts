/**
 * Reads and validates an export request (docs/service-contract.md, sections 2.1 and 4.1). Everything that the contract
 * does not show is rejected, so that a mistake of the client fails here and not in production. Assumptions where the
 * contract is silent:
 * - `filter`, `filter.date.gte`, `format` and `container` are required, as in every shown request. XML and NONE are
 *   their
 *   only values. Unknown fields are rejected.
 * - `filter.date` also accepts `lt` and `lte`. `filter.type` selects by equality, because generated reports have types.
 * - Query parameters other than `cursor` are ignored. A plain comma in the cursor is accepted like `%2C`.
 */

import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { instantSchema } from '../../core/timestamps.ts';

const exportPath = '/v1/report/export';
const maxBodyBytes = 64 * 1_024;
const defaultPageSize = 100;

/**
 * The contract shows neither error codes nor error bodies nor error conditions (docs/service-contract.md, sections 4.1
 * and 7), so this whole table is an assumption: what a careful service would do.
 */
const statuses = {
  /** The key is missing, repeated or wrong (section 5: every request carries it). */
  unauthorized: 401,
  /** Any path except `/v1/report/export` (section 4.1). */
  not_found: 404,
  /** Any method except POST. The contract mentions a GET variant without showing it (section 4.1, gaps). */
  method_not_allowed: 405,
  /** The request body exceeds 64 KiB. */
  body_too_large: 413,
  /** The content-type of the request is not application/json (section 4.1). */
  unsupported_media_type: 415,
  /** The body is not UTF-8 or not JSON. */
  invalid_json: 400,
  /** A field is missing, wrong, out of range, or not shown by the contract (section 2.1). */
  invalid_request: 400,
  /** Malformed, of another service, or sent with another filter, format, container or size (section 4.1, rule 6). */
  invalid_cursor: 400,
  /** The simulator itself failed, for example because a report can no longer be read. */
  internal_error: 500,
} as const;

/** Thrown for an invalid request; sent as `{"error": code, "message": …}` in JSON. */
export class Rejection extends Error {
  override readonly name = 'Rejection';
  readonly code: keyof typeof statuses;
  readonly status: number;
  /** The only method. */
  readonly allow: string | undefined;

  constructor(
    code: keyof typeof statuses,
    message: string,
    { allow, ...options }: ErrorOptions & { allow?: string } = {},
  ) {
    super(message, options);
    this.code = code;
    this.allow = allow;
    this.status = statuses[code];
  }
}

export interface ReceivedRequest {
  readonly method: string;
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  /** undefined if it exceeds 64 KiB. It is then read to its end and discarded, so that the client gets its response. */
  readonly body: Buffer | undefined;
}

/** Reads the complete request. @throws if the client disconnects */
export async function readRequest(request: IncomingMessage): Promise<ReceivedRequest> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size <= maxBodyBytes) chunks.push(chunk);
  }
  const { method = '', url = '', headers } = request;
  return { method, target: url, headers, body: size > maxBodyBytes ? undefined : Buffer.concat(chunks) };
}

export interface ExportRequest {
  /** `filter.date.gte` in milliseconds since the epoch. */
  readonly since: number;
  /** The exclusive upper bound of report dates; Infinity if the filter has none. */
  readonly until: number;
  readonly type: string | undefined;
  /** The maximum number of reports per page (section 8): `size` from 1 to 10, 100 by default. */
  readonly pageSize: number;
  /** The effective cursor: the query's, or else the body's (section 4.1, rule 2). */
  readonly cursor: string | undefined;
  /** What each follow-up request must repeat (section 4.1, rule 6), in a canonical form. */
  readonly identity: string;
}

/**
 * Checks API key, path, method, body size, media type and fields, in this order. `keyHeader` is in lower case, as
 * node:http lower-cases all header names.
 * @throws Rejection
 */
export function validateRequest(received: ReceivedRequest, keyHeader: string, apiKey: string): ExportRequest {
  const { method, target, headers } = received;
  const key = headers[keyHeader];
  if (typeof key !== 'string' || !isSameSecret(key, apiKey)) {
    throw new Rejection('unauthorized', `The header ${keyHeader} is missing, or its key is invalid`);
  }
  const url = URL.parse(target, 'http://127.0.0.1');
  if (url?.pathname !== exportPath) throw new Rejection('not_found', `The only path is ${exportPath}`);
  if (method !== 'POST') throw new Rejection('method_not_allowed', 'The only method is POST', { allow: 'POST' });
  return parseExportRequest(url.searchParams, parseJson(receivedBody(received)));
}

/** The body, as text in UTF-8. @throws Rejection if it is too long, or not JSON by its media type */
function receivedBody({ headers, body }: ReceivedRequest): string {
  if (body === undefined) throw new Rejection('body_too_large', `The body exceeds ${maxBodyBytes} bytes`);
  const [received = ''] = (headers['content-type'] ?? '').split(';');
  if (received.trim().toLowerCase() !== 'application/json') {
    throw new Rejection('unsupported_media_type', 'The content-type must be application/json');
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(body);
  } catch (cause) {
    throw new Rejection('invalid_json', 'The body is not valid JSON in UTF-8', { cause });
  }
}

/** Compares in constant time, regardless of length. */
export function isSameSecret(a: string, b: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Rejection('invalid_json', 'The body is not valid JSON in UTF-8', { cause });
  }
}

/** @throws Rejection invalid_request with every problem of the request */
function parseExportRequest(query: URLSearchParams, body: unknown): ExportRequest {
  const problems: string[] = [];
  const check = (isValid: boolean, problem: string): boolean => {
    if (!isValid) problems.push(problem);
    return isValid;
  };
  const fieldsOf = (value: unknown, name: string, known: readonly string[]): Fields => {
    if (!check(isFields(value), `${name} must be an object`)) return {};
    for (const field of Object.keys(value as Fields)) {
      check(known.includes(field), `${name} has a field that the contract does not show: ${field}`);
    }
    return value as Fields;
  };
  const instantAt = (value: unknown, name: string): number => {
    const parsed = instantSchema.safeParse(value);
    check(parsed.success, `${name} must be an ISO 8601 UTC timestamp such as 2026-11-20T02:00:00Z`);
    return parsed.success ? Date.parse(parsed.data) : Number.NaN;
  };

  const { filter, format, container, size, cursor } = fieldsOf(body, 'the body', bodyFields);
  const { date, type } = fieldsOf(filter, 'filter', ['date', 'type']);
  const { gte, lt, lte } = fieldsOf(date, 'filter.date', ['gte', 'lt', 'lte']);
  const since = instantAt(gte, 'filter.date.gte');
  const until = Math.min(
    lt === undefined ? Infinity : instantAt(lt, 'filter.date.lt'),
    lte === undefined ? Infinity : instantAt(lte, 'filter.date.lte') + 1,
  );
  check(type === undefined || typeof type === 'string', 'filter.type must be a string');
  check(format === 'XML', 'format must be XML: the contract shows no other value');
  check(container === 'NONE', 'container must be NONE: the contract shows no other value');
  const isSize = Number.isInteger(size) && Number(size) >= 1 && Number(size) <= 10;
  check(size === undefined || isSize, 'size must be an integer from 1 to 10');
  const queryCursors = query.getAll('cursor');
  check(queryCursors.length <= 1, 'the query must not contain more than one cursor');
  const effectiveCursor = queryCursors[0] ?? cursor;
  check(effectiveCursor === undefined || typeof effectiveCursor === 'string', 'cursor must be a string');

  if (problems.length > 0) throw new Rejection('invalid_request', problems.join('; '));
  const pageSize = isSize ? Number(size) : defaultPageSize;
  return {
    since,
    until,
    type: type as string | undefined,
    pageSize,
    cursor: effectiveCursor as string | undefined,
    identity: JSON.stringify([since, until, type, format, container, pageSize]),
  };
}

const bodyFields = ['filter', 'format', 'container', 'size', 'cursor'];

export type Fields = { readonly [name: string]: unknown };

export const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
