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
import * as z from 'zod/mini';
import { fieldsOf, object } from '../../core/schema/fields.ts';
import { instantSchema } from '../../core/timestamps.ts';
import { describeProblems } from '../../core/validation-errors.ts';

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

const onlyShown = (value: string) => z.literal(value, `must be ${value}: the contract shows no other value`);

const bodySchema = object({
  filter: object({
    date: object({ gte: instantSchema, lt: z.optional(instantSchema), lte: z.optional(instantSchema) }),
    type: z.optional(z.string()),
  }),
  format: onlyShown('XML'),
  container: onlyShown('NONE'),
  size: z.optional(
    z
      .int('must be an integer from 1 to 10')
      .check(z.refine((size) => size >= 1 && size <= 10, 'must be an integer from 1 to 10')),
  ),
  cursor: z.optional(z.string()),
});

/** @throws Rejection invalid_request with every problem of the request */
function parseExportRequest(query: URLSearchParams, body: unknown): ExportRequest {
  const [cursor, ...others] = query.getAll('cursor');
  // The cursor in the query counts, whatever the body has.
  const { data, error } = bodySchema.safeParse(cursor === undefined ? body : { ...fieldsOf(body), cursor });
  const problems = [
    ...(error === undefined ? [] : [describeProblems('body', error)]),
    ...(others.length === 0 ? [] : ['the query must not contain more than one cursor']),
  ];
  if (data === undefined || problems.length > 0) throw new Rejection('invalid_request', problems.join('; '));
  const { filter, format, container, size: pageSize = defaultPageSize } = data;
  const { date, type } = filter;
  const since = Date.parse(date.gte);
  const until = Math.min(
    date.lt === undefined ? Infinity : Date.parse(date.lt),
    date.lte === undefined ? Infinity : Date.parse(date.lte) + 1,
  );
  const identity = JSON.stringify([since, until, type, format, container, pageSize]);
  return { since, until, type, pageSize, cursor: data.cursor, identity };
}
