/**
 * Where the simulator's reports come from: an ordered timeline that is walked from a position, without loading a body
 * before it is served. The contract shows no field of a report (section 2.1, gaps) but that it is dated; the order by
 * date, then by ordinal among equal dates, is this project's assumption.
 */

import { ExportError } from '../../core/errors.ts';

/** A place in the timeline: before the report with this ordinal among those of this date. */
export interface Position {
  /** Milliseconds since the epoch. */
  readonly date: number;
  /** From 0. */
  readonly ordinal: number;
}

export interface Report extends Position {
  readonly id: string;
  /** What `filter.type` selects by; absent where the source knows no types. */
  readonly type?: string | undefined;
  /** The length of the body, known before it is read. */
  bytes(): number;
  /** One XML element, and whatever may stand beside an element, in UTF-8: as it is to stand inside a page. */
  body(): Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
}

export interface ReportSource {
  /**
   * The date of the oldest report that a new walk finds. A walk begun earlier, at another instance, may go on before it:
   * its cursor says where it stood.
   */
  readonly oldest: number;
  /** The reports at and after `position` that exist at the moment `at`, in order. */
  from(position: Position, at: number): Iterable<Report>;
}

/** A report held in memory. `xml` is one element without XML declaration; it is not checked, so that it can be wrong. */
export interface GivenReport {
  readonly id: string;
  /** ISO 8601, or milliseconds since the epoch. */
  readonly date: string | number;
  readonly xml: string;
  readonly type?: string | undefined;
}

/**
 * Serves `reports`, whatever the clock says. Reports of one date keep the order in which they were given, so the same
 * list makes the same timeline in any process. `add` lets more of them arrive while the service runs.
 */
export function givenReports(reports: Iterable<GivenReport>): ReportSource & { add(...more: GivenReport[]): void } {
  const held = Array.from(reports, inMemory);
  let timeline = timelineOf(held);
  return {
    oldest: timeline.oldest,
    from: (position, at) => timeline.from(position, at),
    add(...more) {
      held.push(...more.map(inMemory));
      timeline = timelineOf(held);
    },
  };
}

function inMemory({ id, date, xml, type }: GivenReport): Omit<Report, 'ordinal'> {
  const body = Buffer.from(xml);
  return { id, date: new Date(date).getTime(), type, bytes: () => body.length, body: () => [body] };
}

/**
 * Sorts `reports` by date, those of one date staying in the order they come in, and numbers the latter.
 * @throws ConfigurationError for a date that the cursor's 13 digits cannot hold (contract, section 2.2)
 */
export function timelineOf(reports: readonly Omit<Report, 'ordinal'>[]): ReportSource {
  const sorted: Report[] = [];
  for (const report of reports.toSorted((a, b) => a.date - b.date)) {
    if (!(Number.isInteger(report.date) && report.date >= 0 && report.date < 1e13)) {
      throw new ExportError('ConfigurationError', `Report ${report.id} is not dated between 1970 and 2286`);
    }
    const previous = sorted.at(-1);
    sorted.push({ ...report, ordinal: previous?.date === report.date ? previous.ordinal + 1 : 0 });
  }
  return {
    oldest: 0,
    *from(position) {
      for (let index = firstAt(sorted, position); index < sorted.length; index++) yield sorted[index] as Report;
    },
  };
}

/** The index of the first report at or after `position`, by bisection. */
function firstAt(sorted: readonly Position[], position: Position): number {
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
