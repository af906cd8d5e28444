/**
 * What is answered, before it is put on the wire: a page with the contract's headers (section 2.3), or a refusal.
 * Header names are in lower case, as the contract says of the cursor's.
 */

import { randomUUID } from 'node:crypto';
import { type Page, pageDocument, pageLength } from './page.ts';
import type { Refusal } from './refusal.ts';

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
