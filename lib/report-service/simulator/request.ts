/**
 * Reads an export request (contract, sections 2.1 and 4.1) and refuses what the contract does not show, so that a client's slip is
 * seen here and not in production. Where the contract is silent, these are this project's assumptions:
 * - `filter`, `filter.date.gte`, `format` and `container` are required, as in every shown request; XML and NONE are their
 *   only values; unknown fields are refused.
 * - `filter.date` also takes `lt` and `lte`, and `filter.type` selects by equality, as the generated reports have types.
 * - Other query parameters than `cursor` are ignored; a plain comma in the cursor is taken like `%2C`.
 */

import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { instantSchema } from '../../core/timestamps.ts';
import { Refusal } from './refusal.ts';

export interface ExportRequest {
  /** `filter.date.gte` in milliseconds since the epoch. */
  readonly since: number;
  /** Reports dated at or after this are left out; Infinity where the filter sets no upper end. */
  readonly until: number;
  readonly type: string | undefined;
  /** At most this many reports a page (section 8): 1 to 10 by `size`, 100 by default. */
  readonly pageSize: number;
  /** The cursor in force: the query's, or else the body's (section 4.1, rule 2). */
  readonly cursor: string | undefined;
  /** What every further request must repeat (section 4.1, rule 6), in one canonical form. */
  readonly identity: string;
}

/** @throws Refusal invalid_request, naming every problem at once */
function readExportRequest(query: URLSearchParams, body: unknown): ExportRequest {
  const problems: string[] = [];
  const check = (holds: boolean, problem: string): boolean => {
    if (!holds) problems.push(problem);
    return holds;
  };
  const fields = (value: unknown, name: string, known: readonly string[]): Fields => {
    if (!check(isFields(value), `${name} must be an object`)) return {};
    for (const field of Object.keys(value as Fields)) {
      check(known.includes(field), `${name} has a field that the contract does not show: ${field}`);
    }
    return value as Fields;
  };
  const instant = (value: unknown, name: string): number => {
    const parsed = instantSchema.safeParse(value);
    check(parsed.success, `${name} must be an ISO 8601 UTC timestamp such as 2026-11-20T02:00:00Z`);
    return parsed.success ? Date.parse(parsed.data) : Number.NaN;
  };
  const endOf = (value: unknown, name: string): number => (value === undefined ? Infinity : instant(value, name));

  const { filter, format, container, size, cursor } = fields(body, 'the body', fieldNames);
  const { date, type } = fields(filter, 'filter', ['date', 'type']);
  const { gte, lt, lte } = fields(date, 'filter.date', ['gte', 'lt', 'lte']);
  const since = instant(gte, 'filter.date.gte');
  const until = Math.min(endOf(lt, 'filter.date.lt'), endOf(lte, 'filter.date.lte') + 1);
  check(type === undefined || typeof type === 'string', 'filter.type must be a string');
  check(format === 'XML', 'format must be XML: the contract shows no other value');
  check(container === 'NONE', 'container must be NONE: the contract shows no other value');
  check(size === undefined || isPageSize(size), 'size must be an integer from 1 to 10');
  const inQuery = query.getAll('cursor');
  check(inQuery.length <= 1, 'the query must not name more than one cursor');
  const inForce = inQuery[0] ?? cursor;
  check(inForce === undefined || typeof inForce === 'string', 'cursor must be a string');

  if (problems.length > 0) throw new Refusal('invalid_request', problems.join('; '));
  const pageSize = isPageSize(size) ? size : 100;
  return {
    since,
    until,
    type: type as string | undefined,
    pageSize,
    cursor: inForce as string | undefined,
    identity: JSON.stringify([since, until, type, format, container, pageSize]),
  };
}

const fieldNames = ['filter', 'format', 'container', 'size', 'cursor'];

type Fields = { readonly [name: string]: unknown };

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isPageSize = (value: unknown): value is number =>
  typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= 10;

// MERGED intake.ts: Receives a request and decides whether it may be answered with a page: key, path, method, media type and size, in this order.

const exportPath = '/v1/report/export';
const bodyLimit = 64 * 1_024;

export interface Incoming {
  readonly method: string;
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  /** undefined where it is over the limit; then it was read to its end and dropped, so that the client hears the answer. */
  readonly body: Buffer | undefined;
}

/** Reads the request whole. @throws if the client goes away meanwhile */
export async function receive(request: IncomingMessage): Promise<Incoming> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size <= bodyLimit) chunks.push(chunk);
  }
  const { method = '', url = '', headers } = request;
  return { method, target: url, headers, body: size > bodyLimit ? undefined : Buffer.concat(chunks) };
}

/**
 * What is asked for. `keyHeader` is in lower case: node:http has made all names so, and any case will do (contract, naming note).
 * @throws Refusal
 */
export function admit(incoming: Incoming, keyHeader: string, apiKey: string): ExportRequest {
  const key = incoming.headers[keyHeader];
  if (typeof key !== 'string' || !sameSecret(key, apiKey)) {
    throw new Refusal('unauthorized', `The header ${keyHeader} is missing or does not hold a valid key`);
  }
  const url = URL.parse(incoming.target, 'http://127.0.0.1');
  if (url?.pathname !== exportPath) throw new Refusal('not_found', `There is only ${exportPath} here`);
  if (incoming.method !== 'POST') throw new Refusal('method_not_allowed', 'Reports are exported by POST');
  if (incoming.body === undefined) throw new Refusal('body_too_large', `The body is over ${bodyLimit} bytes`);
  if (!/^application\/json *(;|$)/i.test(incoming.headers['content-type'] ?? '')) {
    throw new Refusal('unsupported_media_type', 'The content-type must be application/json');
  }
  return readExportRequest(url.searchParams, parsedJson(incoming.body));
}

/** The body as JSON where it is JSON, otherwise as text. */
export function shownBody({ body }: Incoming): unknown {
  try {
    return body && parsedJson(body);
  } catch {
    return body?.toString();
  }
}

function parsedJson(body: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch (cause) {
    throw new Refusal('invalid_json', 'The body is not JSON in UTF-8', { cause });
  }
}

/** Compares in constant time, whatever the lengths. */
function sameSecret(a: string, b: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}
