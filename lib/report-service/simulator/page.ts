/**
 * Which reports a page holds, and the XML document that holds them. Paging is by key: a page goes on behind the last
 * report served, so reports that arrive meanwhile with later dates extend the walk and never shift it.
 */

import type { Position, Report, ReportSource } from './report-source.ts';
import type { ExportRequest } from './request.ts';

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
export function pageLength(reports: readonly Report[]): number {
  return reports.reduce((sum, report) => sum + report.bytes(), head.length + tail.length);
}

/** The page's document: a `reports` element around the reports as they are, with nothing between them. */
export async function* pageDocument(reports: readonly Report[]): AsyncGenerator<Uint8Array> {
  yield head;
  for (const report of reports) yield* report.body();
  yield tail;
}
