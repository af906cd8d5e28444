/**
 * Builds the response before it is sent: a page of reports (docs/service-contract.md, section 2.3) or an error.
 * Header names are in lower case, as the contract requires for the cursor header.
 */

import { randomUUID } from 'node:crypto';
import { pipeline } from 'node:stream';
import { createGzip } from 'node:zlib';
import type { Position, Report, ReportSource } from './report-source.ts';
import type { ExportRequest, ReceivedRequest, Rejection } from './request.ts';

/** In the order and case in which they are sent. Names may repeat. */
export type Headers = readonly (readonly [name: string, value: string])[];

export type Chunks = Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

export interface PreparedResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly body: () => Chunks;
  /** The IDs of the reports in the body. */
  readonly reportIds: readonly string[];
}

/** The response of an API to a valid request. */
interface ValidRequest {
  readonly cursor: string | undefined;
  /** False of a request for an access token. */
  readonly isForPage: boolean;
  /** The response as of the time of the request, without common headers. @throws Rejection invalid_cursor */
  readonly answer: () => PreparedResponse;
}

/** `at` is when the request had arrived. @throws Rejection */
export type Validate = (received: ReceivedRequest, at: number) => ValidRequest;

export interface Page {
  readonly reports: readonly Report[];
  /** The position of the next page; undefined if no matching reports remain (section 2.3). */
  readonly next: Position | undefined;
}

/**
 * Selects the matching reports from `start`, at most `limit`, that exist at the time `at`. The next page starts after
 * the last report of this one, so reports that arrive later with later dates extend the result and never shift it.
 */
export function selectPage(
  source: ReportSource,
  filter: Pick<ExportRequest, 'until' | 'type'>,
  { start, limit, at }: { readonly start: Position; readonly limit: number; readonly at: number },
): Page {
  const reports: Report[] = [];
  let next = start;
  for (const report of source.from(start, at)) {
    if (report.date >= filter.until) break;
    if (filter.type !== undefined && report.type !== filter.type) continue;
    if (reports.length === limit) return { reports, next };
    reports.push(report);
    next = { date: report.date, ordinal: report.ordinal + 1 };
  }
  return { reports, next: undefined };
}

const documentStart = Buffer.from('<?xml version="1.0" encoding="UTF-8"?>\n<reports>');
const documentEnd = Buffer.from('</reports>');

/**
 * A page as a 200 response (an assumption: the contract shows no status): a `reports` element that contains the reports
 * unchanged, with nothing between them. It carries the cursor header only if more matching reports remain.
 */
export function pageResponse({ reports }: Page, cursorHeader: string, cursor: string | undefined): PreparedResponse {
  // Known without reading a report.
  const length = reports.reduce((sum, report) => sum + report.bytes(), documentStart.length + documentEnd.length);
  return {
    status: 200,
    headers: [
      ...(cursor === undefined ? [] : ([[cursorHeader, cursor]] as const)),
      ['content-disposition', 'attachment; filename="reports.xml"'],
      ['content-type', 'application/xml;charset=UTF-8'],
      ['content-length', String(length)],
    ],
    async *body() {
      yield documentStart;
      for (const report of reports) yield* report.body();
      yield documentEnd;
    },
    reportIds: reports.map((report) => report.id),
  };
}

export function rejectionResponse(rejection: Rejection): PreparedResponse {
  const body = Buffer.from(JSON.stringify({ error: rejection.code, message: rejection.message }));
  return {
    status: rejection.status,
    headers: [
      ...(rejection.allow === undefined ? [] : ([['allow', rejection.allow]] as const)),
      ['content-type', 'application/json'],
      ['content-length', String(body.length)],
    ],
    body: () => [body],
    reportIds: [],
  };
}

/** The headers of every response. */
export function commonHeaders(now: number): Headers {
  return [
    ['date', new Date(now).toUTCString()],
    // The request identifier of the gateway. The contract does not show its name; this one is common.
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
}

/** The response in gzip, whose size is not known in advance. */
export const inGzip = (response: PreparedResponse): PreparedResponse => ({
  ...response,
  headers: [
    ...response.headers.filter(([name]) => name !== 'content-length'),
    ['vary', 'Accept-Encoding'],
    ['content-encoding', 'gzip'],
  ],
  // The reader of the encoder meets the error of a report that cannot be read.
  body: () => pipeline(response.body(), createGzip(), () => {}),
});
