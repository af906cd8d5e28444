/**
 * The domain model: runs, pages, and what is recorded about them.
 * All of it is plain, read-only, JSON-safe data, so that every store can keep it as it is.
 */

import * as z from 'zod/mini';
import type * as core from 'zod/v4/core';
// By its name, so that the bundles have no more of it.
import { $ZodObjectJIT } from 'zod/v4/core';

declare const brand: unique symbol;
type Branded<Name extends string> = string & { readonly [brand]: Name };

/**
 * The service's continuation value, exactly as received in the response header. It is opaque: never parsed and never
 * constructed (docs/service-contract.md, section 2.2). Only the service client creates one; stores restore their own.
 */
export type Cursor = Branded<'Cursor'>;
export const asCursor = (value: string): Cursor => value as Cursor;

/**
 * The maximum length of a cursor as it is stored, in ASCII characters. A page-log entry has up to three cursors: 192 of
 * the 400 KB that an item of DynamoDB may have.
 */
export const maxCursorLength = 64 * 1024;

/** A UTC instant in canonical ISO 8601 form: `2026-11-20T02:00:00Z`, with `.mmm` only if milliseconds are not zero. */
export type Instant = Branded<'Instant'>;

/** Covers all that `Date` can hold: a service's clock may be set to the year 10000. */
const instantPattern =
  /^([0-9]{4}|[+-][0-9]{6})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3])(:[0-5][0-9]){2}(\.[0-9]{3})?Z$/;

/**
 * What kind of document a page is, by the name of its root element: `reports`, or `{http://example.com/ns}reports` in a
 * namespace; of CSV, by its first row. The pages of an export all have the same one (`document-root.ts`).
 */
export type DocumentRoot = Branded<'DocumentRoot'>;

/** `20261120T020000Z-1f3a5cb2d407`: the second in which the run began, and 12 random hex digits. Sorts by time. */
export type RunId = Branded<'RunId'>;
export const asRunId = (value: string): RunId => value as RunId;

export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue };
export type JsonObject = { readonly [key: string]: JsonValue };

// The schemas are exactly as wide as what this exporter writes: a narrower one would reject its own records. Fields
// that are also in a public format have their description there (`storage/published-schemas.ts`), which is otherwise a
// comment here.

export const described = <Schema extends z.ZodMiniType>(schema: Schema, description: string): Schema =>
  schema.check(z.describe(description));
export const optional = <Schema extends z.ZodMiniType>(schema: Schema, description: string) =>
  z.optional(described(schema, description));
const branded = <Type extends string>(pattern: RegExp) =>
  z.string().check(z.regex(pattern)) as unknown as z.ZodMiniType<Type, string>;

export const runIdPattern = /^[0-9]{8}T[0-9]{6}Z-[0-9a-f]{12}$/;

export const text = z.string();
export const count = z.int().check(z.minimum(0));
const runId = branded<RunId>(/./);
export const ordinal = z.int().check(z.minimum(1));
export const sha256 = z.string().check(z.regex(/^[0-9a-f]{64}$/));
export const instant = branded<Instant>(instantPattern);
export const cursor = z.string() as unknown as z.ZodMiniType<Cursor, string>;
export const compression = z.literal('gzip');
const documentRoot = z.string() as unknown as z.ZodMiniType<DocumentRoot, string>;
const filter = z.custom<JsonObject>((value) => typeof value === 'object' && value !== null && !Array.isArray(value));

type Stored<Schema extends core.$ZodType> = Readonly<z.infer<Schema>>;

/** A schema with a parser of its own, which takes half as long: FinishRun parses each page entry of a run twice. */
const compiledObject = <Shape extends core.$ZodShape>(shape: Shape): core.$ZodObject<Shape, core.$strip> =>
  new $ZodObjectJIT({ type: 'object', shape }) as unknown as core.$ZodObject<Shape, core.$strip>;

const nullUnlessCounted = 'null if they are not counted.';
/** Fields of several public formats. */
export const period = {
  since: described(instant, 'The run contains the reports dated at or after this instant (ISO 8601, UTC).'),
  until: optional(
    instant,
    'Only if the run has an upper bound: it contains no reports dated at or after this instant (ISO 8601, UTC).',
  ),
  bounded: optional(
    z.literal(true),
    'Only if an operator named both bounds, or the run whose reports are the parents.',
  ),
};
export const common = {
  export: described(z.string().check(z.regex(/^[A-Za-z0-9_-]{1,40}$/)), "The export's name."),
  run: described(branded<RunId>(runIdPattern), 'The ID of the run.'),
  sequence: described(
    count,
    'Increases with every run of the export, not necessarily by one. The newest run has the highest.',
  ),
  completedAt: described(instant, "When the run was completed, by the exporter's clock."),
  manifest: described(
    z.string().check(z.regex(/^[^/]+\/date=[^/]+\/run=[^/]+\/manifest\.json$/)),
    "The manifest's key, relative to the bucket's prefix or to the directory.",
  ),
  watermark: described(
    z.nullable(instant),
    'Where the next run starts, before its overlap is subtracted; null if the export has no watermark, or the run is bounded.',
  ),
};
export const totals = {
  pages: described(count, 'The number of pages.'),
  reports: described(z.nullable(count), `The number of reports in these pages; ${nullUnlessCounted}`),
  bytes: described(count, 'The size of these pages in bytes.'),
};

const kindOfPages = <Kind extends string>(kind: Kind, description: string) => described(z.literal(kind), description);
export const reportsAtSchema = z.discriminatedUnion('kind', [
  z.object({
    kind: kindOfPages('xml', 'Elements of an XML document.'),
    path: described(
      z.string().check(z.regex(/^(\/[^/]+)*\/([^/]+|\*)$/)),
      'The names of the elements from the root to a report, without prefixes, such as `/feed/entry`. `*` is any element.',
    ),
  }),
  z.object({
    kind: kindOfPages('json', 'Items of a list in a JSON document.'),
    list: described(
      z.string(),
      'The JSON Pointer of the list, such as `/data/events`; empty if the document is the list.',
    ),
  }),
  z.object({ kind: kindOfPages('ndjson', 'Lines that are JSON. A line with nothing but white space is none.') }),
  z.object({
    kind: kindOfPages('csv', 'Rows of a CSV table.'),
    header: described(z.boolean(), 'Whether the first row of each page has the names of the columns.'),
  }),
  z.object({ kind: kindOfPages('unknown', 'The exporter does not know where reports are in such pages.') }),
]);
export type ReportsAt = z.infer<typeof reportsAtSchema>;

const requestSchema = z.object({
  /** The service: its base URL, or `simulator`. Cursors and watermarks are valid only for their service. */
  source: text,
  /** The filter without `date.gte`, which each request takes from the run's `since`. */
  filter,
  format: text,
  container: text,
  /** Where the reports are in a page. */
  reportsAt: reportsAtSchema,
  /** Reports per page, 1 to 10. Absent: the service's default, at most 100 (docs/service-contract.md, section 4.1). */
  size: z.optional(ordinal),
  /** Other settings that decide what is requested. Headers may be confidential: only checksums are kept. */
  api: z.object({
    /**
     * Where responses have the next page, and what is there, such as `body cursor`. Set if the service is another API,
     * which the settings describe (docs/apis.md). The filter then has values for its requests.
     */
    pagination: z.optional(text),
    /** Set if no request has a time: each run has everything. */
    full: z.optional(z.literal(true)),
    /** Changes with everything that decides what is requested, what a page is, and how the next one is requested. */
    sha256,
    /** Changes with what selects reports: the description of requests, headers, and the public parts of credentials. */
    requestSha256: sha256,
  }),
});

/** The request of a run, the same for each of its pages (docs/service-contract.md, section 4.1). */
export type ExportRequest = Stored<typeof requestSchema>;

/** How a run's `since` is chosen if the start input does not specify one. */
type SincePolicy =
  | {
      readonly from: 'watermark';
      /** Where the first run starts. Absent: with the oldest report, or at the `since` of an explicit first start. */
      readonly initial?: Instant | undefined;
      /** How far before the watermark a run starts. */
      readonly overlapMs: number;
    }
  | {
      readonly from: 'lookback';
      /** How far before its scheduled time a run starts. It starts at the watermark if that is earlier. */
      readonly lookbackMs: number;
    };

/** The reports of a half-open interval: dated at or after `since`, and before `until`. */
export interface Bounds {
  readonly since: Instant;
  readonly until: Instant;
}

/** How a run is divided into slices that are walked at the same time (`slices.ts`). */
export interface Slicing {
  readonly parallel: number;
  /** How long a slice is. Absent: chosen for each run. */
  readonly lengthMs?: number | undefined;
  /** How many pages of the service may be requested at a time: the maximum of `parallel`. Absent: any number. */
  readonly maxConcurrentPages?: number | undefined;
}

/** What the dates of requests can express. */
export interface RequestDates {
  /** The milliseconds between two dates that a request can have. */
  readonly unitMs: number;
  /** The time zone in which units begin. Undefined: it is not known where the API reads dates. */
  readonly zone: string | undefined;
  /** The condition that excludes reports from a date on, for messages: `date.lt`, or `{until}`. Absent: none. */
  readonly upperBound?: string | undefined;
}

export type Compression = z.infer<typeof compression>;

/** Parents of the reports, each a slice of the run: the values of a list, or the reports of another export. */
export type Parents = ListedParents | ExportedParents;

interface ListedParents {
  readonly values: readonly string[];
}

/** The parents are the reports in the newest published run of another export of the service. */
export interface ExportedParents {
  readonly export: string;
  /** In place of the newest run, the one that a start names. */
  readonly run?: RunId | undefined;
  /** Where a report has the value of `{parent}`. */
  readonly id: string;
  /** Where it has those of `{parent.NAME}`, by name. */
  readonly also: Readonly<Record<string, string>>;
  /** A report is a parent if any of these holds, or if there are none. */
  readonly where: readonly ReportCondition[];
  /** The values that headers of the requests have: `parent`, `parent.NAME`. */
  readonly inHeaders: readonly string[];
  /** Whether requests have `{since}`, and each chain begins where its parent is covered. */
  readonly hasCoverage: boolean;
  /** Whether the other export requests changes, so that its newest run does not have all parents. */
  readonly listsChanges: boolean;
}

/** A condition on a value of a report: it is one of `is`, or none of `not`; without both, something is there. */
export interface ReportCondition {
  readonly at: string;
  readonly is?: Scalar | readonly Scalar[] | undefined;
  readonly not?: Scalar | readonly Scalar[] | undefined;
}
type Scalar = string | number | boolean | null;

export interface ExportDefinition {
  /** In keys, manifests and events. */
  readonly name: string;
  /** The name of its state: `name`; of bounded runs, one that names their bounds, too (`bounded-runs.ts`). */
  readonly stateName: string;
  readonly request: ExportRequest;
  readonly dates: RequestDates;
  readonly since: SincePolicy;
  /** How long after its date a report may still appear. A run ends that long before it begins. 0: no upper bound. */
  readonly lagMs: number;
  readonly slicing: Slicing;
  /** Absent: what a run requests has no parents. */
  readonly parents?: Parents | undefined;
  /** Set for bounded runs: an operator has named what they export. */
  readonly bounds?: Bounds | undefined;
  /** Whether a run without reports is published. In any case it moves the watermark. */
  readonly publishEmptyRuns: boolean;
  readonly expect?: {
    /** A run with fewer reports fails, and is not published. */
    readonly minReports?: number | undefined;
    /** If no run has had reports for so long, someone should know. */
    readonly reportsEveryMs?: number | undefined;
  };
  /** The root of every page. Absent: that of the runs before; the first run may have any. */
  readonly documentRoot?: DocumentRoot | undefined;
  /**
   * Where a report has its ID, possibly in several parts. Set if pages do not prove that they are complete: then each
   * chain is walked until two passes in a row have the same reports.
   */
  readonly provedBy?: readonly string[] | undefined;
  /** The compression of pages of new runs. Absent: they are not compressed. */
  readonly compression?: Compression | undefined;
  /** Set if each chain begins with a job, whose result its pages are. */
  readonly job?: JobRules | undefined;
  readonly limits: RunLimits;
}

export interface JobRules {
  /** How long to wait between two polls, and how long a job may take. Absent: its result is there at once. */
  readonly poll?: { readonly everyMs: number; readonly withinMs: number } | undefined;
}

export interface RunLimits {
  /** A run with more pages than this fails. Absent: no limit. */
  readonly maxPages?: number | undefined;
  /** A run with so many consecutive pages without reports fails: it may never end. */
  readonly maxEmptyPages: number;
  /** Iterations of the loop after which the run continues in a new execution. */
  readonly iterationsPerExecution: number;
  /** How many pages one invocation exports at most, while its time allows. */
  readonly pagesPerInvocation: number;
  /** How often a slice may start over after a start, because the service rejected its own cursor. */
  readonly maxCursorRestarts: number;
  /** A Retry-After of up to this many seconds is waited out inside the invocation, a longer one in the Wait state. */
  readonly maxInlineWaitSeconds: number;
  /** A Retry-After of more than this many seconds fails the run. */
  readonly maxRetryAfterSeconds: number;
  /** How many percent of its parents may be gone in a run that is published. One may be in any case, but not all. */
  readonly goneAtMostPercent: number;
  /** How many Wait states may follow each other without a page between them before the run fails. */
  readonly maxConsecutiveWaits: number;
}

/** A walk of a chain whose API does not prove that its pages are complete: the walk after it must see the same. */
const passSchema = z.object({
  /** A digest of the IDs of its reports, in any order. null: a report came twice, so that another may be missing. */
  ids: z.nullable(sha256),
  reports: count,
  /** When the service sent its first page, by the service's clock; null if the response had no Date. */
  serviceTime: z.nullable(instant),
});

/** A completed pass of a chain. */
export type Pass = Stored<typeof passSchema>;

const slicesSchema = z.object({
  /** 0 only of a run whose plan has no parents. */
  count,
  /**
   * They are cut at multiples of it since 1970, by the clocks of the zone. Absent: each is of a parent, and has all of
   * the period.
   */
  lengthMs: z.optional(ordinal),
  /** Absent: UTC. */
  zone: z.optional(text),
  /** How many are walked at the same time: that of the newest start. */
  parallel: ordinal,
});

/** The slices of a run, as it began. Every attempt sees the same ones. */
export type RunSlices = Stored<typeof slicesSchema>;

const parentsSchema = z.object({
  export: common.export,
  /** The run whose reports are the parents. Absent: no plan is made yet, and that of the newest run will be. */
  run: z.optional(common.run),
  /** Set if the start named that run. */
  isNamed: z.optional(z.literal(true)),
  parallel: ordinal,
  /** The digests of the parts of the plan. Absent: it is not made yet. */
  parts: z.optional(z.readonly(z.array(sha256))),
  /** Where chains begin, if each begins where its parent is covered (`parents/coverage.ts`). */
  coverage: z.optional(
    z.object({
      overlapMs: count,
      initial: z.optional(instant),
      /** Set if the start has named where all chains begin. */
      isSinceNamed: z.optional(z.literal(true)),
    }),
  ),
});

const failureSchema = z.object({
  error: text,
  message: text,
  at: instant,
});

export type RunFailure = Stored<typeof failureSchema>;

const runSchema = z.object({
  export: common.export,
  run: runId,
  sequence: common.sequence,
  ...period,
  /** The export's lag when the run began. The watermark is set this far behind the clocks. */
  lagMs: count,
  /** Absent: the run has one slice, from `since` to `until`. Its number is 1. */
  slices: z.optional(slicesSchema),
  /** The attempts of slices that have started over, by slice number. The others are in their first one. */
  attempts: z.optional(z.record(text, ordinal)),
  /**
   * How often slices have started over by themselves since the newest start, by slice number. More often than
   * `maxCursorRestarts`: the next start begins the slice from its beginning.
   */
  restarts: z.optional(z.record(text, count)),
  /** The newest completed passes of slices that need two, by slice number. */
  passes: z.optional(z.record(text, passSchema)),
  /** Increases when slices start over, so that what was recorded of the progress before no longer counts. Absent: 0. */
  generation: z.optional(count),
  /** Only if the parents are reports of another export. The run has no slices until its plan is made. */
  parents: z.optional(parentsSchema),
  /** Set if each chain begins with a job, so that those who have no settings know it. */
  hasJobs: z.optional(z.literal(true)),
  /** The values of parents that an operator skips. Absent: none. */
  skipped: z.optional(z.readonly(z.array(text))),
  request: requestSchema,
  /** The export's compression when the run began: all its pages have the same form. */
  compression: z.optional(compression),
  /** By our own clock. Its day is the run's `date=` partition. */
  startedAt: instant,
  startedBy: text,
  /** The execution that owns the run. Every other execution is superseded. */
  execution: text,
  /** Numbers the executions of the run, from 1. */
  executionNumber: ordinal,
  scheduledTime: z.optional(text),
  /** Set if a slice has started over: the root of the pages before. */
  documentRoot: z.optional(documentRoot),
  /** Decided once, before publication, so that a repeated attempt writes the same bytes, also with other settings. */
  completion: z.optional(
    z.object({
      at: instant,
      /** The watermark after the run, which is for the run's request. Absent: the export has none. */
      watermark: z.optional(instant),
      /** The digests of what is covered of each parent after the run. */
      coverage: z.optional(z.readonly(z.array(sha256))),
      /** Whether the run gets a manifest. Not if it found no reports and `publishEmptyRuns` is false. */
      isPublished: z.boolean(),
    }),
  ),
  lastFailure: z.optional(failureSchema),
});

/** One run of an export, from its first page to its last, as the export state holds it while it is active. */
export type Run = Stored<typeof runSchema>;
export type RunRef = Pick<Run, 'export' | 'run'>;
export const refOf = ({ export: exportName, run }: RunRef): RunRef => ({ export: exportName, run });
export const periodOf = ({ since, until, bounded }: Run): Pick<Run, 'since' | 'until' | 'bounded'> => ({
  since,
  until,
  bounded,
});

const selectionSchema = z.object({
  source: text,
  filter,
  /** The `requestSha256` of the request's `api`. */
  requestSha256: sha256,
});

/** Which reports a request selects, besides its bounds. */
export type Selection = Stored<typeof selectionSchema>;

const watermarkSchema = z.object({
  instant,
  ...selectionSchema.shape,
  /** The digests of what is covered of each parent. Absent: the watermark is that of all. */
  coverage: z.optional(z.readonly(z.array(sha256))),
});

/** The lower bound of the next run. It applies only to the service, settings and filter it was measured with. */
export type Watermark = Stored<typeof watermarkSchema>;

/** How much a run has exported. `reports` is null if they are not counted. */
export type RunTotals = Pick<RunResult, keyof typeof totals>;

export const zeroTotals: RunTotals = { pages: 0, reports: 0, bytes: 0 };

export const sumTotals = (all: readonly RunTotals[]): RunTotals =>
  all.reduce((sum, each) => ({ pages: sum.pages + each.pages, ...addPage(sum, each) }), zeroTotals);

type Amounts = Omit<RunTotals, 'pages'>;

/** The reports and bytes of `totals` and one more page. */
export const addPage = (totals: Amounts, { reports, bytes }: Amounts): Amounts => ({
  reports: totals.reports === null || reports === null ? null : totals.reports + reports,
  bytes: totals.bytes + bytes,
});

/** The totals of a slice whose last log entry is `last`. */
export function totalsOf(last: LogEntry | undefined): RunTotals {
  if (last === undefined) return zeroTotals;
  const { reports, bytes } = last.totals;
  return { pages: last.kind === 'page' ? last.page : last.page - 1, reports, bytes };
}

export const resultSchema = z.object({
  export: common.export,
  run: common.run,
  ...period,
  watermark: common.watermark,
  ...totals,
  /** null if the run found no reports and was not published. */
  manifest: z.nullable(common.manifest),
});

/** The outcome of a completed run. */
export type RunResult = Stored<typeof resultSchema>;

export const failedRunSchema = z.object({
  export: described(
    z.nullable(common.export),
    'The export that failed; null if the start input names no export of the service.',
  ),
  run: described(z.nullable(common.run), 'The run that failed; null if the execution did not own a run.'),
  since: described(z.nullable(instant), 'The `since` of the run; null if there is no run.'),
  until: period.until,
  bounded: period.bounded,
  ...totals,
  error: text,
  message: described(text, 'What happened, to what, and what happens next.'),
  resumable: described(
    z.boolean(),
    'Whether the next start continues: it resumes the unfinished run, or replaces it if it has no page.',
  ),
});

/** The outcome of a failed execution. */
export type FailedRun = Stored<typeof failedRunSchema>;

/** The result of a start; of the run, if it was followed. */
export type RunEnd =
  | {
      readonly status: 'completed';
      readonly result: RunResult;
      /** The address of the manifest; null if the run is not published. */
      readonly manifest: string | null;
    }
  | {
      readonly status: 'skipped';
      readonly reason: string;
      /** Set if the bounds have been exported already. */
      readonly done?: true | undefined;
    }
  | { readonly status: 'failed'; readonly failed: FailedRun }
  | { readonly status: 'interrupted' }
  /** The run is in progress and is not followed, or no longer. `run` is null while it has none. */
  | { readonly status: 'started'; readonly execution: string; readonly run: RunId | null };

export const stateSchema = z.object({
  /** `ExportDefinition.stateName`. */
  export: text,
  /** 1 for the first state ever written. Each replacement adds one. */
  version: ordinal,
  /** The sequence of the newest run that began. In the state of an export, bounded runs count, too. */
  sequence: count,
  active: z.optional(runSchema),
  watermark: z.optional(watermarkSchema),
  /** The root of the pages of completed runs. */
  documentRoot: z.optional(documentRoot),
  /** The newest scheduled time that a run had. The scheduler delivers a time at least once, and not always in order. */
  lastScheduledTime: z.optional(text),
  /** Only with a lookback window, until there is a watermark: the scheduled time of the first run, or its beginning. */
  firstStart: z.optional(instant),
  lastCompleted: z.optional(
    z.object({
      execution: text,
      completedAt: instant,
      result: resultSchema,
      /** The run's: bounds count as exported for the same selection only. */
      selection: selectionSchema,
      /** When the newest run with reports was completed; until there is one, when the first run began. */
      lastReportsAt: z.optional(instant),
      /** `lastScheduledTime` when it was completed. It counts again if the next run is abandoned. */
      scheduledTime: z.optional(text),
    }),
  ),
  /** The newest executions that have begun or resumed a run, without continuations. None of them begins another run. */
  recentExecutions: z.optional(z.readonly(z.array(text))),
  /** In the state of an export: the bounded run that began last, or is about to (`steps/export-state.ts`). */
  beginning: z.optional(z.object({ stateName: text, execution: text })),
  /** Why the newest start has begun and resumed no run. The next one that does removes it. */
  failedStart: z.optional(failureSchema),
});

/** The state of an export: one item, always replaced as a whole, by compare-and-set on `version`. */
export type ExportState = Stored<typeof stateSchema>;

/** The state of an export that has never run. It is not stored: the first write replaces version 0. */
export const emptyState = (exportName: string): ExportState => ({ export: exportName, version: 0, sequence: 0 });

/** Only of a compressed page. Any other object has the bytes of its page. */
export const compressedForm = {
  compression: optional(compression, 'Only if the page is compressed: how.'),
  storedBytes: optional(count, 'Only if the page is compressed: the size of its object in bytes.'),
  // Two attempts may compress the same page differently.
  storedSha256: optional(
    sha256,
    'Only if the page is compressed: the SHA-256 of its object, in lower-case hexadecimal.',
  ),
};

const sliceRef = {
  /** From 1. */
  slice: z.optional(ordinal),
  /** From 1. Each attempt has pages, a log and keys of its own. */
  attempt: z.optional(ordinal),
};

/** Which slice a page belongs to, and which attempt of it. The first attempt of the only slice of a run has neither. */
export type SliceRef = Pick<PageMetadata, keyof typeof sliceRef>;

const storedCursor = z.nullable(z.union([cursor, z.object({ sha256 })]));

/** A cursor as a store holds it: whole, or as its lower-case hexadecimal SHA-256 if it is too long for the store. */
export type StoredCursor = z.infer<typeof storedCursor>;

export const metadataSchema = z.object({
  ...compressedForm,
  ...sliceRef,
  key: text,
  run: runId,
  /** From 1, within its slice. */
  page: ordinal,
  bytes: described(count, 'The size of the page in bytes, before it was compressed.'),
  sha256: described(sha256, 'The SHA-256 of the page, before it was compressed, in lower-case hexadecimal.'),
  reports: described(z.nullable(count), `The number of reports in the page; ${nullUnlessCounted}`),
  /** null if the format has none, or the page has no bytes. */
  documentRoot: z.nullable(documentRoot),
  /** The cursor of the request for this page; null for page 1. */
  cursor: storedCursor,
  /** The cursor of the next page; null if this is the last one. */
  nextCursor: z.nullable(cursor),
  /** The service's clock at the time of the request; null if the response had no Date. */
  serviceTime: z.nullable(instant),
  transferredBytes: optional(
    count,
    'How many bytes of the page travelled from the service. Absent if the service did not compress it.',
  ),
});

/** The metadata of a page, which becomes visible with its bytes in one atomic step. */
export type PageMetadata = Stored<typeof metadataSchema>;

/** A page as the page store holds it. */
export interface StoredPage extends PageMetadata {
  /** Identifies this version of the object, like an ETag. null: the store has no revisions. */
  readonly revision: string | null;
}

const delays = {
  /** How many attempts to export it have failed. */
  failedAttempts: z.optional(ordinal),
  /** How long the run has waited because the service responded with Retry-After. */
  waitedSeconds: z.optional(ordinal),
};

/** What has delayed a page since the page before it was logged. Absent: nothing. */
export type Delays = Pick<PageEntry, keyof typeof delays>;

/** Totals of the slice up to and including the page of an entry, so that its last entry has those of the slice. */
const entryTotals = z.object({ reports: z.nullable(count), bytes: count });

const pageEntrySchema = compiledObject({
  kind: z.literal('page'),
  ...metadataSchema.shape,
  ...delays,
  export: text,
  revision: z.nullable(text),
  /** The value that it was requested for, if the export has parents. */
  parent: z.optional(text),
  cursor: z.nullable(cursor),
  loggedAt: instant,
  /** The service's response time, by our clock. null for an adopted page, which was found in the store. */
  timing: z.nullable(
    z.object({
      /** When the successful request was sent. */
      requestedAt: instant,
      /** From the request to the response headers, in milliseconds. */
      latencyMs: count,
    }),
  ),
  totals: entryTotals,
  /** The constant-size state of Brent's cycle detection over the cursors of the slice. */
  cycle: z.nullable(z.object({ tortoise: cursor, power: ordinal, steps: count })),
  /** Whether `nextCursor` occurred earlier, or the reports equal those of two pages before. Then never publish it. */
  repeats: z.boolean(),
  /** Consecutive pages without reports up to and including this one; 0 if it has some, or they are not counted. */
  emptyPages: count,
  /** A digest of the page's reports alone. Absent: the page is compared as a whole. */
  reportsDigest: z.optional(text),
  /** Consecutive pages with the same reports, up to and including this one; 0 if it has none, or none are counted. */
  equalPages: count,
  /** With `provedBy`: 64 bits of a hash of the ID of each report, one after the other, in base64. */
  ids: z.optional(text),
  /** Only of page 1 after another pass: when the service sent page 1 of that one, by its clock. */
  earlierPassAt: z.optional(instant),
});

const endEntrySchema = z.object({
  kind: z.literal('end'),
  ...sliceRef,
  export: text,
  run: runId,
  /** The number of the page that does not exist: one more than the slice has. */
  page: ordinal,
  /**
   * `last`: the page before was the last one. Otherwise the slice has no page. `gone`, `empty`: its parent no longer
   * exists, or has no reports. `skipped`: an operator has ended it.
   */
  reason: z.enum(['last', 'gone', 'empty', 'skipped']),
  /** The status of the response that says so; null if the slice was skipped. */
  status: z.nullable(z.int()),
  /** The value of its parent, if the export has parents. */
  parent: z.optional(text),
  /** The cursor of the request. */
  cursor: z.nullable(cursor),
  loggedAt: instant,
  /** The totals after the page before. */
  totals: entryTotals,
  serviceTime: z.nullable(instant),
  documentRoot: z.nullable(documentRoot),
});

/**
 * The entry of a stored page, and where it leaves the run. A page counts as exported once it is logged. Its `revision`
 * is that of the object that was logged: an object that replaces it has another.
 */
export type PageEntry = Stored<typeof pageEntrySchema>;
/** The end of a slice that has no page, or whose last page has a next cursor. It has no object, and is no page. */
export type EndEntry = Stored<typeof endEntrySchema>;

export const entrySchema = z.discriminatedUnion('kind', [pageEntrySchema, endEntrySchema]);
/** One entry of the page log. Under the number of a page is either the page or the end of its slice. */
export type LogEntry = PageEntry | EndEntry;
export type PageTiming = NonNullable<PageEntry['timing']>;
export type CycleState = NonNullable<PageEntry['cycle']>;

const setAsideSchema = z.object({
  slice: ordinal,
  error: text,
  message: text,
  /** Whether its document was refused because it has another root than those of other slices. */
  isOtherRoot: z.optional(z.literal(true)),
});
export type SetAsideSlice = Stored<typeof setAsideSchema>;

/** The progress of a run's slices, in a record beside its state. It may be out of date. */
export const progressSchema = z.object({
  run: runId,
  /** The generation of the run's slices. With another one, the record does not count. */
  generation: count,
  /** No slice with a higher number had begun. */
  begun: count,
  /** The slices up to `begun` that were not complete, without those that were set aside. */
  open: z.readonly(z.array(ordinal)),
  /** The slices that the newest attempt has not exported to their end. */
  setAside: z.readonly(z.array(ordinal)),
  /** Why they were not: at most ten, the oldest slices. */
  failures: z.readonly(z.array(setAsideSchema)),
  /** The totals of the complete slices. */
  done: z.object(totals),
  /** How many of them have no page, because their parents are gone or were skipped. */
  gone: count,
  skipped: count,
  /** The root of a page of the run. */
  documentRoot: z.nullable(documentRoot),
  /** When the newest page was logged. */
  loggedAt: z.nullable(instant),
});

/** The progress of a run with several slices. */
export type ProgressRecord = Stored<typeof progressSchema>;

/** The job of a chain, as a record beside the state has it. It is written before the job is created. */
export const jobRecordSchema = z.object({
  /** The pass of the chain that it is for: the run, and the attempt of its slice. */
  run: runId,
  attempt: ordinal,
  /** The execution that wrote it. */
  execution: text,
  /**
   * `creating`: the request was or will be sent, and its response is not known. `waiting`: it is polled. `failed`: it
   * was given up, and the next execution polls it once before it creates another.
   */
  phase: z.enum(['notCreated', 'creating', 'waiting', 'done', 'failed']),
  /** When the request that creates it was sent, by our own clock. */
  createdAt: instant,
  /** When the run began, or the job was created by the service's clock: later reports may not be in its result. */
  asOf: instant,
  /** Absent: no response has it yet. */
  id: z.optional(text),
  /** What requests for the result send in place of the ID. Absent: the ID. */
  resultId: z.optional(text),
  /** What the newest poll says, since when, and when the next one is due. */
  status: z.optional(text),
  statusSince: z.optional(instant),
  pollAt: z.optional(instant),
  /** How many requests in a row had no response, so that each may have created a job. */
  unanswered: count,
  /** Whether it was polled again because its result was missing. */
  wasMissing: z.optional(z.literal(true)),
  /** Why it was given up. */
  failure: z.optional(text),
  /** Whether the next pass of the chain has the same job: its files are others now, or its pages are to be proved. */
  isKept: z.optional(z.literal(true)),
});

/** The newest job of a chain. */
export type JobRecord = Stored<typeof jobRecordSchema>;

export const latestSchema = z.pick(z.object(common), {
  export: true,
  run: true,
  sequence: true,
  completedAt: true,
  manifest: true,
});

/** The content of `latest.json`: a pointer to the newest manifest. */
export type LatestPointer = Stored<typeof latestSchema>;

/** The payload of the state machine: identity and small counters. Everything else is in the page log. */
export interface LoopState {
  /** `ExportDefinition.stateName`. */
  readonly export: string;
  readonly run: string;
  readonly executionNumber: number;
  /** The page to export next; of a run with several slices, one more than it has. */
  readonly page: number;
  /** How many slices the run has, if it has several. */
  readonly slices?: number | undefined;
  /** Iterations of this execution so far. One with a Wait state counts twice. */
  readonly iterations: number;
  /** Consecutive Wait states before this iteration. */
  readonly waits: number;
  /** The delays since the last logged page. */
  readonly delays?: Delays;
}

/** The limits of one invocation. */
export interface Invocation {
  /** How many attempts of the step have failed before. Default: 0. */
  readonly retries?: number;
  /** Aborts the request and every wait. The page in flight is then not exported. */
  readonly signal?: AbortSignal | undefined;
  /** Until when a Retry-After may be waited out inside the invocation, by the monotonic clock. */
  readonly retryAfterDeadline?: number | undefined;
  /** How many pages may be in flight at once if an invocation exports several. Default: 2. */
  readonly maxInFlight?: number | undefined;
  /** Whether there is time to begin another page. Default: there is. */
  readonly hasTime?: (() => boolean) | undefined;
  /** How long a slot is held at most, in milliseconds: a request with it ends by then. Default: 15 minutes. */
  readonly leaseMs?: number | undefined;
}
