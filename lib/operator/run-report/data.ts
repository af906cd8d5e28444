/**
 * What a report on a run tells, as plain values: bounded in size, however many pages the run has, and without any secret,
 * as it is made from the page log and the run's history, which hold none.
 */

import type { Instant, JsonObject, RunId } from '../../core/model.ts';
import type { RunState } from '../../core/operations/run-status.ts';
import type { Group, Mark, Row } from './incident-digest.ts';
import type { Spread } from './statistics.ts';

/** The run's own facts. What is no longer remembered of an old run is null. */
export interface ReportedRun {
  readonly export: string;
  readonly run: RunId;
  readonly state: RunState;
  readonly since: Instant | null;
  /** Where the next scheduled run starts; null where this run has not set it. */
  readonly watermark: Instant | null;
  readonly startedAt: Instant;
  readonly completedAt: Instant | null;
  /** When a run that was given up was; absent: as its page log says. */
  readonly givenUpAt?: Instant | null | undefined;
  /** Where a person finds the manifest, the folder of the pages: a path or an `s3://` address. */
  readonly manifest: string | null;
  readonly folder: string;
  readonly filter: JsonObject | null;
  readonly format: string | null;
  readonly container: string | null;
  /** Reports per page; null: the service's own page size. */
  readonly size: number | null;
  /** Used where the page log has nothing to say any more. */
  readonly totals: RunTotals;
  /** Why it failed; absent: as the newest failure in its history says. */
  readonly failure?: RunFailure | null | undefined;
}

export interface RunTotals {
  readonly pages: number;
  readonly reports: number | null;
  readonly bytes: number;
}

interface RunFailure {
  readonly error: string;
  readonly message: string;
  readonly at: Instant;
}

/** Where and when the report is made. */
export interface ReportOccasion {
  /** `Installation.name` and `Installation.option`. */
  readonly place: string;
  readonly option: string;
  readonly madeAt: Instant;
}

export interface RunReportData extends ReportOccasion {
  readonly run: ReportedRun;
  readonly totals: RunTotals;
  /** When it was last worked on: now, for a run under way. */
  readonly endedAt: Instant;
  readonly failure: RunFailure | null;
  /** In page order, each of `pagesPerPoint` pages (the last may have fewer). */
  readonly points: readonly PagePoint[];
  readonly pagesPerPoint: number;
  readonly latency: LatencySummary | null;
  readonly time: TimeSpent;
  /** Pages found in the store by whoever logged them: nobody knows how long they took. */
  readonly adopted: number;
  readonly firstPage: string | null;
  readonly lastPage: string | null;
  readonly incidents: Incidents;
}

/** What is known of some pages in a row. Times are in milliseconds, and null where no page was timed. */
export interface PagePoint {
  readonly firstPage: number;
  readonly pages: number;
  /** When the last of them was logged, in milliseconds since the epoch. */
  readonly loggedAt: number;
  /** Since the page before was logged: the way between two pages, waits, failed attempts. */
  readonly before: Spread | null;
  /** From asking until the answer's headers were there. */
  readonly latency: Spread | null;
  /** From then until the page was logged: transfer, storing, logging. */
  readonly transfer: Spread | null;
  readonly bytes: Spread;
  readonly reports: Spread | null;
}

export interface LatencySummary {
  readonly median: number;
  readonly p95: number;
  readonly max: number;
  readonly slowestPage: number;
}

/** Milliseconds, added up over the pages that were timed. */
export interface TimeSpent {
  readonly before: number;
  readonly latency: number;
  readonly transfer: number;
  /** The longest time without a new page, and the page that ended it. */
  readonly maxGap: { readonly ms: number; readonly page: number } | null;
}

export interface Incidents {
  /** At most some 200: the oldest, and behind the `leftOut` the newest. */
  readonly oldest: readonly Row[];
  readonly leftOut: number;
  readonly newest: readonly Row[];
  readonly groups: readonly Group[];
  readonly marks: readonly Mark[];
}
