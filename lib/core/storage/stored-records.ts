/**
 * Validates records that are read back from a store.
 *
 * Tables, files and object metadata can be edited, restored in part or mixed up, and a plausible value could be published
 * as the truth. So each record is stored with a checksum. A read verifies the checksum, then the type of every field, then
 * that the record is the one that was requested.
 */

import { hash } from 'node:crypto';
import * as z from 'zod/mini';
import { ExportError } from '../errors.ts';
import type {
  Cursor,
  DocumentRoot,
  ExportState,
  Instant,
  JsonObject,
  LatestPointer,
  PageEntry,
  PageMetadata,
  RunId,
} from '../model.ts';
import type { ChainRef } from '../ports.ts';
import { describePage } from './keys.ts';
import { describeProblems } from '../validation-errors.ts';
import { instantPattern } from '../timestamps.ts';

/** A record as read from a store, with the checksum that was stored with it. */
export interface Checksummed {
  readonly value: unknown;
  readonly checksum: unknown;
}

/** Describes a store in errors. */
export interface RecordStore {
  /** `table page-log`, `./exports/state.sqlite`. */
  readonly name: string;
  /** What to do about a changed export state: a clause without a full stop. */
  repairHint(exportName: string): string;
}

/**
 * The state of the export, from what `read` returns.
 * @throws PageConflictError if `read` throws, or if the state was changed or belongs to another export
 */
export function parseExportState(exportName: string, store: RecordStore, read: () => Checksummed): ExportState {
  try {
    const state = parseRecord(stateSchema, read);
    if (state.export !== exportName) throw new Error(`it is the state of export ${state.export}`);
    return state;
  } catch (cause) {
    throw new ExportError(
      'PageConflictError',
      `The state of export ${exportName} in ${store.name} does not match what this exporter wrote: ${messageOf(cause)}. ` +
        `Nothing was changed; ${store.repairHint(exportName)}`,
      { cause },
    );
  }
}

/**
 * The page-log entry of `requested`, from what `read` returns.
 * @throws PageConflictError if `read` throws, or if the entry was changed or belongs to another page
 */
export function parsePageEntry(
  requested: ChainRef & Pick<PageEntry, 'page'>,
  store: RecordStore,
  read: () => Checksummed,
): PageEntry {
  try {
    const entry = parseRecord(entrySchema, read);
    const isOfChain = entry.slice === requested.slice && entry.attempt === requested.attempt;
    if (
      !isOfChain ||
      entry.page !== requested.page ||
      entry.run !== requested.run ||
      entry.export !== requested.export
    ) {
      throw new Error(`it is the entry of ${describePage(entry)} of run ${entry.run} of export ${entry.export}`);
    }
    return entry;
  } catch (cause) {
    throw new ExportError(
      'PageConflictError',
      `The entry of ${describePage(requested)} of run ${requested.run} of export ${requested.export} in ${store.name} is not ` +
        `as this exporter wrote it: ${messageOf(cause)}. Nothing was changed or published. Restore the entry, or start ` +
        'with --restart to abandon the run and begin a new one',
      { cause },
    );
  }
}

/** The metadata of a page, from what `read` returns. @throws Error that says why it is not as it was written */
export function parsePageMetadata(read: () => Checksummed): PageMetadata {
  return parseRecord(metadataSchema, read);
}

/** The sequence in the text of a `latest.json`, or 0 if there is none: then any pointer may replace it. */
export function sequenceOfPointer(text: string): number {
  try {
    const { sequence } = JSON.parse(text) as Partial<LatestPointer>;
    return sequence !== undefined && Number.isSafeInteger(sequence) ? sequence : 0;
  } catch {
    return 0;
  }
}

/** More than any `latest.json` has. A larger object is not one and need not be read. */
export const maxPointerBytes = 65_536;

/**
 * Returns the value as it was read, so that fields which a newer version wrote are kept.
 * @throws Error if the checksum or the schema does not match
 */
function parseRecord<Value>(schema: z.ZodMiniType<Value>, read: () => Checksummed): Value {
  const { value, checksum } = read();
  if (typeof checksum !== 'string') throw new Error('it has no checksum');
  if (checksum !== checksumOf(value)) throw new Error('its checksum does not match, so it was edited');
  const parsed = schema.safeParse(value);
  if (!parsed.success) throw new Error(describeProblems('', parsed.error));
  return value as Value;
}

const messageOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause));

/**
 * The checksum of a record: the SHA-256, in lower-case hexadecimal, of the canonical JSON of `value`. It detects mistakes,
 * partial restores and mixed-up copies, but not deliberate changes: anyone who can write to the store can recompute it.
 */
export function checksumOf(value: unknown): string {
  return hash('sha256', JSON.stringify(canonical(value)));
}

/** `value` with sorted field names, because stores do not preserve their order, and without undefined fields. */
function canonical(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(canonical);
  const sorted: Record<string, unknown> = {};
  for (const name of Object.keys(value).sort()) {
    const field = canonical((value as Record<string, unknown>)[name]);
    // Assigning to __proto__ would set the prototype.
    if (name === '__proto__') Object.defineProperty(sorted, name, { value: field, enumerable: true });
    else sorted[name] = field;
  }
  return sorted;
}

// The schemas of stored values, exactly as wide as what this exporter writes: a narrower one would reject its own records.

const text = z.string();
const count = z.int().check(z.minimum(0));
const ordinal = z.int().check(z.minimum(1));
const sha256 = z.string().check(z.regex(/^[0-9a-f]{64}$/));
const runId = z.custom<RunId>((value) => typeof value === 'string' && value !== '');
const cursor = z.custom<Cursor>((value) => typeof value === 'string');
const documentRoot = z.custom<DocumentRoot>((value) => typeof value === 'string');
const instant = z.custom<Instant>((value) => typeof value === 'string' && instantPattern.test(value));
const filter = z.custom<JsonObject>((value) => typeof value === 'object' && value !== null && !Array.isArray(value));

/** The fields of a compressed page. Records of other pages, and of releases that compressed none, lack them. */
const compression = z.optional(z.literal('gzip'));
const compressedForm = { compression, storedBytes: z.optional(count), storedSha256: z.optional(sha256) };

const sliceRef = { slice: z.optional(ordinal), attempt: z.optional(ordinal) };

const entrySchema = z.object({
  export: text,
  run: runId,
  page: ordinal,
  ...sliceRef,
  key: text,
  bytes: count,
  sha256,
  ...compressedForm,
  revision: z.nullable(text),
  reports: z.nullable(count),
  documentRoot: z.nullable(documentRoot),
  cursor: z.nullable(cursor),
  nextCursor: z.nullable(cursor),
  serviceTime: z.nullable(instant),
  transferredBytes: z.optional(count),
  loggedAt: instant,
  timing: z.nullable(z.object({ requestedAt: instant, latencyMs: count })),
  totals: z.object({ reports: z.nullable(count), bytes: count }),
  cycle: z.nullable(z.object({ tortoise: cursor, power: ordinal, steps: count })),
  repeats: z.boolean(),
  emptyPages: count,
  failedAttempts: z.optional(ordinal),
  waitedSeconds: z.optional(ordinal),
}) satisfies z.ZodMiniType<PageEntry>;

const metadataSchema = z.object({
  key: text,
  run: runId,
  page: ordinal,
  ...sliceRef,
  bytes: count,
  sha256,
  ...compressedForm,
  reports: z.nullable(count),
  documentRoot: z.nullable(documentRoot),
  cursor: z.nullable(z.union([cursor, z.object({ sha256 })])),
  nextCursor: z.nullable(cursor),
  serviceTime: z.nullable(instant),
  transferredBytes: z.optional(count),
}) satisfies z.ZodMiniType<PageMetadata>;

const failureSchema = z.object({ error: text, message: text, at: instant });

const watermarkSchema = z.object({ instant, source: text, filter, requestSha256: sha256 });

const runSchema = z.object({
  export: text,
  run: runId,
  sequence: count,
  since: instant,
  until: z.optional(instant),
  bounded: z.optional(z.literal(true)),
  series: z.optional(
    z.object({
      until: instant,
      each: text,
      again: z.optional(z.boolean()),
      parallel: z.optional(ordinal),
      slice: z.optional(ordinal),
    }),
  ),
  lagMs: count,
  slices: z.optional(
    z.object({
      count: ordinal,
      lengthMs: ordinal,
      parallel: ordinal,
      attempts: z.optional(z.record(text, ordinal)),
      restarts: z.optional(z.record(text, count)),
      setAside: z.optional(z.array(z.object({ slice: ordinal, error: text, message: text }))),
    }),
  ),
  request: z.object({
    source: text,
    filter,
    format: text,
    container: text,
    size: z.optional(ordinal),
    api: z.object({ pagination: z.optional(text), sha256, requestSha256: sha256 }),
  }),
  compression,
  startedAt: instant,
  startedBy: text,
  execution: text,
  executionNumber: ordinal,
  scheduledTime: z.optional(text),
  cursorRestarts: count,
  documentRoot: z.optional(documentRoot),
  completion: z.optional(z.object({ at: instant, watermark: z.optional(instant), isPublished: z.boolean() })),
  lastFailure: z.optional(failureSchema),
  refusedPage: z.optional(ordinal),
});

export const resultSchema = z.object({
  export: text,
  run: runId,
  since: instant,
  until: z.optional(instant),
  bounded: z.optional(z.literal(true)),
  watermark: z.nullable(instant),
  pages: count,
  reports: z.nullable(count),
  bytes: count,
  manifest: z.nullable(text),
  rest: z.optional(
    z.object({
      export: text,
      since: instant,
      until: instant,
      each: text,
      again: z.optional(z.boolean()),
      parallel: z.optional(ordinal),
      slice: z.optional(text),
    }),
  ),
});

const stateSchema = z.object({
  export: text,
  version: ordinal,
  sequence: count,
  active: z.optional(runSchema),
  watermark: z.optional(watermarkSchema),
  documentRoot: z.optional(documentRoot),
  lastScheduledTime: z.optional(text),
  lastCompleted: z.optional(
    z.object({
      execution: text,
      completedAt: instant,
      result: resultSchema,
      lastReportsAt: z.optional(instant),
    }),
  ),
  recentExecutions: z.optional(z.array(text)),
  lastAbandoned: z.optional(
    z.object({
      run: runId,
      since: instant,
      pages: count,
      reports: z.nullable(count),
      bytes: count,
      failure: failureSchema,
    }),
  ),
}) satisfies z.ZodMiniType<ExportState>;
