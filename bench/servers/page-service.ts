/**
 * A process: a report service that responds as docs/service-contract.md says, as fast as Node can. Pages are one of two
 * documents of generated reports in turn, made in advance: a run rejects the third page in a row with the same reports.
 */

import { createServer, type OutgoingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { generatedReportXml } from '../../lib/service/simulator/generated-reports.ts';

/** The argument of the process, as JSON. */
export interface PageServiceOptions {
  readonly pageBytes: number;
  readonly pages: number;
  /** From the request to the first byte of the response. */
  readonly latencyMs?: number;
  /** From the first byte to the last. */
  readonly bodyMs?: number;
  /** The bandwidth of the link, which all responses share. Excludes `bodyMs`. */
  readonly bytesPerSecond?: number;
  /** Sends gzip to clients that accept it. */
  readonly compresses?: boolean;
  /** A request gets the pages that its filter includes: all are dated in this period. Absent: the filter is ignored. */
  readonly period?: PeriodOfPages;
}

export interface PeriodOfPages {
  readonly since: string;
  readonly until: string;
  /** Nine tenths of the pages are dated in the last tenth of the period, instead of evenly. */
  readonly isDense: boolean;
}

const {
  pageBytes,
  pages,
  latencyMs = 0,
  bodyMs = 0,
  bytesPerSecond = 0,
  compresses = false,
  period,
} = JSON.parse(process.argv[2] ?? '{}') as PageServiceOptions;

const documents = ['R', 'S'].map((idPrefix) => pageOfReports(pageBytes, idPrefix));
const compressedDocuments = documents.map((document) => gzipSync(document));
const emptyPage = Buffer.from('<?xml version="1.0"?>\n<reports/>\n');

const server = createServer((request, response) => {
  const cursor = new URL(request.url ?? '', 'http://localhost').searchParams.get('cursor');
  const isCompressed = compresses && /\bgzip\b/.test(String(request.headers['accept-encoding']));
  void text(request).then((body) => {
    const { first, last } = pagesFor(body);
    const page = cursor === null ? first : Number.parseInt(cursor, 10) + 1;
    return page > last
      ? respond(response, emptyPage, {})
      : respond(response, documentOf(page, isCompressed), {
          ...(page < last && { 'x-service-cursor': cursorAfter(page) }),
          ...(isCompressed && { 'content-encoding': 'gzip' }),
        });
  });
});

function documentOf(page: number, isCompressed: boolean): Buffer {
  const [odd, even] = isCompressed ? compressedDocuments : documents;
  return (page % 2 === 1 ? odd : even) ?? emptyPage;
}

/** The numbers of the first and the last page for a request with this body. There is none if the first is greater. */
function pagesFor(body: string): { readonly first: number; readonly last: number } {
  if (period === undefined) return { first: 1, last: pages };
  const { filter } = JSON.parse(body) as { filter: { date: { gte: string; lt?: string } } };
  const { gte, lt } = filter.date;
  return { first: pagesBefore(gte, period) + 1, last: lt === undefined ? pages : pagesBefore(lt, period) };
}

/** How many pages are dated before `date`. */
function pagesBefore(date: string, { since, until, isDense }: PeriodOfPages): number {
  const share = (Date.parse(date) - Date.parse(since)) / (Date.parse(until) - Date.parse(since));
  const ofPages = !isDense ? share : share < 0.9 ? share / 9 : 0.1 + (share - 0.9) * 9;
  return Math.round(pages * Math.min(1, Math.max(0, ofPages)));
}

/** In the contract's form; the 13 digits are the number of the page before. */
function cursorAfter(page: number): string {
  return `${String(page).padStart(13, '0')},550e8400-e29b-41d4-a716-446655440000`;
}

async function respond(response: ServerResponse, body: Buffer, headers: OutgoingHttpHeaders): Promise<void> {
  if (latencyMs > 0) await sleep(latencyMs);
  response.writeHead(200, {
    'content-type': 'application/xml;charset=UTF-8',
    'content-length': body.length,
    ...headers,
  });
  if (bytesPerSecond > 0) await writeOverLink(response, body);
  else if (bodyMs > 0) await writeEvenly(response, body);
  else response.end(body);
}

/** Time between two parts of a body that takes `bodyMs`. */
const partMs = 5;

/** Delivers a body as a slow connection does: the last part comes after `bodyMs`, whatever timers do. */
async function writeEvenly(response: ServerResponse, body: Buffer): Promise<void> {
  response.flushHeaders();
  const startedAt = performance.now();
  const parts = Math.max(1, Math.round(bodyMs / partMs));
  for (let part = 1; part <= parts; part += 1) {
    await sleep(Math.max(0, startedAt + (bodyMs * part) / parts - performance.now()));
    response.write(body.subarray(((part - 1) * body.length) / parts, (part * body.length) / parts));
  }
  response.end();
}

/** When the link has sent everything that was written to it. */
let linkIsFreeAt = 0;

/** In parts that take turns with those of other responses, each at the moment at which the link has sent it. */
async function writeOverLink(response: ServerResponse, body: Buffer): Promise<void> {
  response.flushHeaders();
  const partBytes = Math.ceil((bytesPerSecond * partMs) / 1_000);
  for (let start = 0; start < body.length; start += partBytes) {
    const part = body.subarray(start, start + partBytes);
    linkIsFreeAt = Math.max(linkIsFreeAt, performance.now()) + (part.length / bytesPerSecond) * 1_000;
    await sleep(Math.max(0, linkIsFreeAt - performance.now()));
    response.write(part);
  }
  response.end();
}

/** A document of exactly `bytes` bytes, if they suffice for a report: reports, and spaces. */
function pageOfReports(bytes: number, idPrefix: string): Buffer {
  const [start, end] = ['<?xml version="1.0" encoding="UTF-8"?>\n<reports>\n', '</reports>\n'];
  const reports: string[] = [];
  let remaining = bytes - start.length - end.length;
  for (let number = 0; remaining > 0; number += 1) {
    const report = generatedReportXml(1, number, `${idPrefix}-${number}`, 1_763_000_000_000 + number * 10_000);
    const length = Buffer.byteLength(report);
    if (length > remaining) break;
    reports.push(report);
    remaining -= length;
  }
  return Buffer.from(`${start}${reports.join('')}${' '.repeat(Math.max(0, remaining))}${end}`);
}

// The parent may be killed.
process.on('disconnect', () => process.exit());

server.listen(0, '127.0.0.1', () => process.send?.(`http://127.0.0.1:${(server.address() as AddressInfo).port}`));
