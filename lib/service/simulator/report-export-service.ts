/**
 * The Report Export Service as docs/service-contract.md describes it, independently of the client, so that tests hold
 * the client to the contract and not to itself. It keeps no state: a cursor has its position. What the contract does
 * not show is rejected, so that a mistake of the client fails here and not in production. Assumptions:
 *
 * - `filter`, `filter.date.gte`, `format` and `container` are required, as in every shown request. XML and NONE are
 *   their only values. Unknown fields are rejected.
 * - `filter.date` also has `lt` and `lte`, and `filter.type` selects by equality.
 * - Reports are in the order of their dates, and of equal dates in the order of the source.
 * - Statuses, error codes and error bodies are those of a careful service.
 */

import { createHmac, randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import * as z from 'zod/mini';
import { fieldsOf, object } from '../../core/schema/fields.ts';
import { instantSchema } from '../../core/timestamps.ts';
import { describeProblems } from '../../core/validation-errors.ts';

/** A point in the timeline of reports: before the report with this date and ordinal. */
interface Position {
  /** Milliseconds since the epoch. */
  readonly date: number;
  /** Counts the reports of the same date, from 0. */
  readonly ordinal: number;
}

export interface Report extends Position {
  readonly id: string;
  readonly type?: string | undefined;
  /** One element, exactly as it appears in the page. */
  readonly xml: string;
}

export interface ReportSource {
  /** The date of the oldest report that a request without a cursor finds. An older cursor may point further back. */
  readonly oldest: number;
  /** The reports at and after `position` that exist at the time `at`, in order. */
  from(position: Position, at: number): Iterable<Report>;
}

/** In the order and case in which they are sent. Names may repeat. */
export type Headers = readonly (readonly [name: string, value: string])[];

export interface ReceivedRequest {
  readonly method: string;
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  /** undefined if it exceeds 64 KiB. */
  readonly body: Buffer | undefined;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Buffer;
  readonly reportIds: readonly string[];
  /** What the request asks for, if it is a valid request for a page. Its cursor need not be valid. */
  readonly page?: { readonly cursor: string | undefined };
}

/** The answer of an API as of the time `at`. @throws Rejection */
export type AnswerRequest = (received: ReceivedRequest, at: number) => Answer;

const statuses = {
  unauthorized: 401,
  not_found: 404,
  method_not_allowed: 405,
  body_too_large: 413,
  unsupported_media_type: 415,
  invalid_json: 400,
  invalid_request: 400,
  invalid_cursor: 400,
  internal_error: 500,
} as const;

/** Thrown for an invalid request; sent as `{"error": code, "message": …}` in JSON. */
export class Rejection extends Error {
  override readonly name = 'Rejection';
  readonly code: keyof typeof statuses;
  readonly page: Answer['page'];

  constructor(code: keyof typeof statuses, message: string, page?: Answer['page']) {
    super(message);
    this.code = code;
    this.page = page;
  }
}

/** The error response. Anything that is no rejection is an internal error, so that the service stays up. */
export function rejectionOf(error: unknown): Answer {
  const { code, message, page } =
    error instanceof Rejection ? error : new Rejection('internal_error', (error as Error).message);
  const body = Buffer.from(JSON.stringify({ error: code, message }));
  return { status: statuses[code], headers: [['content-type', 'application/json']], body, reportIds: [], page };
}

export interface ReportExportServiceOptions {
  /** The vendor part of the header names: `SERVICE` results in `X-SERVICE-API-KEY` and `x-service-cursor`. */
  readonly vendor: string;
  readonly apiKey: string;
  readonly reports: ReportSource;
  /** Signs the cursors: an instance with another seed rejects them. Default 1. */
  readonly seed?: string | number | undefined;
}

export function reportExportService(options: ReportExportServiceOptions): AnswerRequest {
  const vendor = options.vendor.toLowerCase();
  const { apiKey, reports, seed = 1 } = options;
  const keyHeader = `x-${vendor}-api-key`;
  const cursors = createCursors(vendor, seed);

  return (received, at) => {
    if (received.headers[keyHeader] !== apiKey)
      throw new Rejection('unauthorized', `The header ${keyHeader} is missing, or its key is invalid`);
    const request = parseRequest(received);
    const { cursor, identity, since } = request;
    const start =
      cursor === undefined ? { date: Math.max(since, reports.oldest), ordinal: 0 } : cursors.decode(cursor, identity);
    const { selected, next } = selectPage(reports.from(start, at), request);
    const document = selected.map(({ xml }) => xml).join('');
    return {
      status: 200,
      headers: [
        ...(next === undefined ? [] : ([[`x-${vendor}-cursor`, cursors.encode(next, identity)]] as const)),
        ['content-disposition', 'attachment; filename="reports.xml"'],
        ['content-type', 'application/xml;charset=UTF-8'],
      ],
      body: Buffer.from(`<?xml version="1.0" encoding="UTF-8"?>\n<reports>${document}</reports>`),
      reportIds: selected.map(({ id }) => id),
      page: { cursor },
    };
  };
}

/**
 * The matching reports, at most a page of them, and the position of the next page if others remain (section 2.3). It is
 * after the last report of this one, so reports that arrive later with later dates shift nothing.
 */
function selectPage(all: Iterable<Report>, { until, type, pageSize }: ExportRequest) {
  const selected: Report[] = [];
  for (const report of all) {
    if (report.date >= until) break;
    if (type !== undefined && report.type !== type) continue;
    const last = selected.at(-1);
    if (last !== undefined && selected.length === pageSize)
      return { selected, next: { date: last.date, ordinal: last.ordinal + 1 } };
    selected.push(report);
  }
  return { selected, next: undefined };
}

/**
 * Cursors in the form of section 2.2: date, ordinal, and an HMAC over these, the vendor, the seed and the request. So
 * one that is forged, or sent with another filter, format, container or size (section 4.1, rule 6), is rejected.
 *
 *     1763604000000,00000001-2b0d-5f0c-9d1e-0b7a2c44e913
 */
function createCursors(vendor: string, seed: string | number) {
  const encode = (position: Position, request: string): string => {
    const date = String(position.date).padStart(13, '0');
    const ordinal = position.ordinal.toString(16).padStart(8, '0');
    const signed = JSON.stringify([vendor, request, date, ordinal]);
    const hmac = createHmac('sha256', `cursor ${seed}`).update(signed).digest('hex');
    return `${date},${ordinal}-${hmac.slice(0, 4)}-${hmac.slice(4, 8)}-${hmac.slice(8, 12)}-${hmac.slice(12, 24)}`;
  };
  const decode = (cursor: string, request: string): Position => {
    const [, date, ordinal = ''] = /^(\d{13}),([\da-f]{8})-/.exec(cursor) ?? [];
    const position = { date: Number(date), ordinal: Number.parseInt(ordinal, 16) };
    if (date !== undefined && encode(position, request) === cursor) return position;
    const message = 'This service did not issue the cursor for a request with this filter, format, container and size';
    throw new Rejection('invalid_cursor', message, { cursor });
  };
  return { encode, decode };
}

interface ExportRequest {
  /** In milliseconds since the epoch; `until` is exclusive. */
  readonly since: number;
  readonly until: number;
  readonly type: string | undefined;
  readonly pageSize: number;
  /** The query's, or else the body's (section 4.1, rule 2). */
  readonly cursor: string | undefined;
  /** What each follow-up request must repeat (section 4.1, rule 6), in a canonical form. */
  readonly identity: string;
}

const exportPath = '/v1/report/export';
const defaultPageSize = 100;
const onlyShown = (value: string) => z.literal(value, `must be ${value}: the contract shows no other value`);
const sizeProblem = 'must be an integer from 1 to 10';

const bodySchema = object({
  filter: object({
    date: object({ gte: instantSchema, lt: z.optional(instantSchema), lte: z.optional(instantSchema) }),
    type: z.optional(z.string()),
  }),
  format: onlyShown('XML'),
  container: onlyShown('NONE'),
  size: z.optional(z.int(sizeProblem).check(z.minimum(1, sizeProblem), z.maximum(10, sizeProblem))),
  cursor: z.optional(z.string()),
});

/** Checks path, method, body and fields, in this order. @throws Rejection with every problem of the fields */
function parseRequest(received: ReceivedRequest): ExportRequest {
  const url = URL.parse(received.target, 'http://127.0.0.1');
  if (url?.pathname !== exportPath) throw new Rejection('not_found', `The only path is ${exportPath}`);
  if (received.method !== 'POST') throw new Rejection('method_not_allowed', 'The only method is POST');
  const body = parseBody(received);
  const [ofQuery, ...others] = url.searchParams.getAll('cursor');
  // The cursor in the query counts, whatever the body has.
  const { data, error } = bodySchema.safeParse(ofQuery === undefined ? body : { ...fieldsOf(body), cursor: ofQuery });
  const problems = [
    ...(error === undefined ? [] : [describeProblems('body', error)]),
    ...(others.length === 0 ? [] : ['the query must not contain more than one cursor']),
  ];
  if (data === undefined || problems.length > 0) throw new Rejection('invalid_request', problems.join('; '));
  const { filter, format, container, size: pageSize = defaultPageSize, cursor } = data;
  const { gte, lt, lte } = filter.date;
  const since = Date.parse(gte);
  const until = Math.min(
    lt === undefined ? Infinity : Date.parse(lt),
    lte === undefined ? Infinity : Date.parse(lte) + 1,
  );
  const identity = JSON.stringify([since, until, filter.type, format, container, pageSize]);
  return { since, until, type: filter.type, pageSize, cursor, identity };
}

function parseBody({ headers, body }: ReceivedRequest): unknown {
  if (body === undefined) throw new Rejection('body_too_large', 'The body exceeds 64 KiB');
  if (!/^application\/json\s*(;|$)/i.test(headers['content-type'] ?? ''))
    throw new Rejection('unsupported_media_type', 'The content-type must be application/json');
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch {
    throw new Rejection('invalid_json', 'The body is not valid JSON in UTF-8');
  }
}

/** The headers of every response. The contract does not show the name of the request identifier; this one is common. */
export const commonHeaders = (now: number): Headers => [
  ['date', new Date(now).toUTCString()],
  ['x-request-id', randomUUID()],
  ['vary', 'Origin'],
  ['vary', 'Access-Control-Request-Method'],
  ['vary', 'Access-Control-Request-Headers'],
  ['x-content-type-options', 'nosniff'],
  ['x-xss-protection', '1; mode=block'],
  ['cache-control', 'no-cache, no-store, max-age=0, must-revalidate'],
  ['pragma', 'no-cache'],
  ['expires', '0'],
  ['x-frame-options', 'SAMEORIGIN'],
];
