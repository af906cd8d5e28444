/**
 * The reports that the simulator serves: a timeline that can be read from any position, without loading a body before
 * it is sent. The contract says only that a report has a date (docs/service-contract.md, section 2.1). The order by
 * date, and by ordinal among equal dates, is an assumption.
 */

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
