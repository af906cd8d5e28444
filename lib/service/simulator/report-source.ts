/**
 * The reports that the simulator serves: a timeline that can be read from any position, without loading a body before it
 * is sent. The contract says only that a report has a date (docs/service-contract.md, section 2.1). The order by date, and
 * by ordinal among equal dates, is an assumption.
 */

import { ExportError } from '../../core/errors.ts';

/** A point in the timeline: before the report with this date and ordinal. */
export interface Position {
  /** Milliseconds since the epoch. */
  readonly date: number;
  /** Counts the reports of the same date, from 0. */
  readonly ordinal: number;
}

export interface Report extends Position {
  readonly id: string;
  /** Matched by `filter.type`; absent if the source has no types. */
  readonly type?: string;
  /** The length of the body, known before it is read. */
  bytes(): number;
  /** One XML element in UTF-8, optionally with comments and whitespace, exactly as it appears in the page. */
  body(): Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
}

export interface ReportSource {
  /** The date of the oldest report that a request without a cursor finds. An older cursor may point further back. */
  readonly oldest: number;
  /** The reports at and after `position` that exist at the time `at`, in order. */
  from(position: Position, at: number): Iterable<Report>;
}

/**
 * Sorts `reports` by date and numbers those with the same date in the given order.
 * @throws ConfigurationError for a date that does not fit the 13 digits of a cursor (docs/service-contract.md, section 2.2)
 */
export function createTimeline(reports: readonly Omit<Report, 'ordinal'>[]): ReportSource {
  const sorted: Report[] = [];
  for (const report of reports.toSorted((a, b) => a.date - b.date)) {
    if (!(Number.isInteger(report.date) && report.date >= 0 && report.date < 1e13)) {
      throw new ExportError('ConfigurationError', `The date of report ${report.id} is not between 1970 and 2286`);
    }
    const previous = sorted.at(-1);
    sorted.push({ ...report, ordinal: previous?.date === report.date ? previous.ordinal + 1 : 0 });
  }
  return {
    oldest: 0,
    *from(position) {
      for (let index = indexOf(sorted, position); index < sorted.length; index++) yield sorted[index] as Report;
    },
  };
}

/** The index of the first report at or after `position`, by binary search. */
function indexOf(sorted: readonly Position[], position: Position): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isBefore(sorted[middle] as Position, position)) low = middle + 1;
    else high = middle;
  }
  return low;
}

function isBefore(a: Position, b: Position): boolean {
  return a.date < b.date || (a.date === b.date && a.ordinal < b.ordinal);
}
