/**
 * What is answered, before it is put on the wire: a page with the contract's headers (section 2.3), or a refusal.
 * Header names are in lower case, as the contract says of the cursor's.
 */

import { randomUUID } from 'node:crypto';
import type { Refusal } from './refusal.ts';
import type { Position, Report, ReportSource } from './report-source.ts';
import type { ExportRequest } from './request.ts';

/** In the order and the case they go on the wire; a name may stand more than once. */
export type Headers = readonly (readonly [name: string, value: string])[];

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: () => Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
  /** The identifiers of the reports in the body. */
  readonly reports: readonly string[];
}

/**
 * 200 (our assumption: the contract shows no status) with the page; the cursor header only while more matching reports
 * remain. `now` becomes the date header.
 */
export function pageAnswer(
  page: Page,
  cursor: { readonly header: string; readonly value: string | undefined },
  now: number,
): Answer {
  return {
    status: 200,
    headers: [
      ...commonHeaders(now),
      ...(cursor.value === undefined ? [] : ([[cursor.header, cursor.value]] as const)),
      ['content-disposition', 'attachment; filename="reports.xml"'],
      ['content-type', 'application/xml;charset=UTF-8'],
      ['content-length', String(pageLength(page.reports))],
    ],
    body: () => pageDocument(page.reports),
    reports: page.reports.map((report) => report.id),
  };
}

export function refusalAnswer(refusal: Refusal, now: number): Answer {
  const body = Buffer.from(JSON.stringify({ error: refusal.code, message: refusal.message }));
  return {
    status: refusal.status,
    headers: [
      ...commonHeaders(now),
      ...(refusal.code === 'method_not_allowed' ? ([['allow', 'POST']] as const) : []),
      ['content-type', 'application/json'],
      ['content-length', String(body.length)],
    ],
    body: () => [body],
    reports: [],
  };
}

function commonHeaders(now: number): Headers {
  return [
    ['date', new Date(now).toUTCString()],
    // The gateway's request identifier. The contract does not show its name; this one is common.
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

// MERGED page.ts: Which reports a page holds, and the XML document that holds them. Paging is by key: a page goes on behind the last report served, so reports that arrive meanwhile with later dates extend the walk and never shift it.

export interface Page {
  readonly reports: readonly Report[];
  /** Where the walk goes on; undefined when no more matching reports remain (contract, section 2.3). */
  readonly next: Position | undefined;
}

/** The matching reports from `start` on, at most `limit` of them, as of the moment `at`. */
export function choosePage(
  source: ReportSource,
  request: Pick<ExportRequest, 'until' | 'type'>,
  { start, limit, at }: { readonly start: Position; readonly limit: number; readonly at: number },
): Page {
  const reports: Report[] = [];
  for (const report of source.from(start, at)) {
    if (report.date >= request.until) break;
    if (request.type !== undefined && report.type !== request.type) continue;
    if (reports.length === limit) {
      const last = reports.at(-1);
      const behindLast = last && { date: last.date, ordinal: last.ordinal + 1 };
      return { reports, next: behindLast ?? { date: report.date, ordinal: report.ordinal } };
    }
    reports.push(report);
  }
  return { reports, next: undefined };
}

const head = Buffer.from('<?xml version="1.0" encoding="UTF-8"?>\n<reports>');
const tail = Buffer.from('</reports>');

/** The length of the page's document, without reading a report. */
function pageLength(reports: readonly Report[]): number {
  return reports.reduce((sum, report) => sum + report.bytes(), head.length + tail.length);
}

/** The page's document: a `reports` element around the reports as they are, with nothing between them. */
async function* pageDocument(reports: readonly Report[]): AsyncGenerator<Uint8Array> {
  yield head;
  for (const report of reports) yield* report.body();
  yield tail;
}
