/**
 * Takes what a store gives back for true only where it is what this exporter wrote there.
 *
 * Tables, files and metadata can be edited by hand, restored in part, or mixed up, and a value that is merely plausible
 * could be published as the truth. So each is kept with a checksum, and looked at closely when it is read: first whether the
 * checksum fits, then whether every field is of its type, then whether it is the value that was asked for.
 */

import { hash } from 'node:crypto';
import * as z from 'zod/mini';
import { ExportError } from '../errors.ts';
import type { Cursor, ExportState, Instant, JsonObject, LatestPointer, PageEntry, PageMetadata, RunId } from '../model.ts';
import type { RunRef } from '../ports.ts';
import { describeProblems } from '../settings/validation-errors.ts';

/** A value as a store gave it back, with the checksum that lay beside it. */
export interface Checksummed {
  readonly value: unknown;
  readonly checksum: unknown;
}

/** The store, for the person who has to look there. */
export interface RecordStore {
  /** `table page-log`, `./exports/state.sqlite`. */
  readonly name: string;
  /** What a person does there about a head that was edited; a sentence without its stop. */
  repairHint(exportName: string): string;
}

/**
 * The head of the export that `read` gives.
 * @throws PageConflictError where it is not as it was written, cannot even be read, or is another export's
 */
export function parseExportState(exportName: string, place: RecordStore, read: () => Checksummed): ExportState {
  try {
    const head = open(stateSchema, read);
    if (head.export !== exportName) throw new Error(`it is the head of export ${head.export}`);
    return head;
  } catch (cause) {
    throw new ExportError(
      'PageConflictError',
      `The head of export ${exportName} in ${place.name} is not as this exporter left it: ${why(cause)}. ` +
        `Nothing was changed; ${place.repairHint(exportName)}`,
      { cause },
    );
  }
}

/**
 * The page-log entry that `read` gives.
 * @throws PageConflictError where it is not as it was written, cannot even be read, or is that of another page
 */
export function parsePageEntry(asked: RunRef & Pick<PageEntry, 'page'>, place: RecordStore, read: () => Checksummed): PageEntry {
  try {
    const entry = open(entrySchema, read);
    if (entry.page !== asked.page || entry.run !== asked.run || entry.export !== asked.export) {
      throw new Error(`it tells of page ${entry.page} of run ${entry.run} of export ${entry.export}`);
    }
    return entry;
  } catch (cause) {
    throw new ExportError(
      'PageConflictError',
      `The entry of page ${asked.page} of run ${asked.run} of export ${asked.export} in ${place.name} is not as this ` +
        `exporter logged it: ${why(cause)}. Nothing was changed or published; put it back as it was, or start with ` +
        'restart to abandon the run and begin a new one',
      { cause },
    );
  }
}

/** The facts of a page that `read` gives. @throws Error that says why they are not what was written with the page */
export function parsePageMetadata(read: () => Checksummed): PageMetadata {
  return open(factsSchema, read);
}

/**
 * The sequence that a `latest.json` of this text claims. 0 where it cannot be told: such a pointer leads nobody anywhere,
 * and every other takes its place.
 */
export function sequenceOfPointer(text: string): number {
  try {
    const { sequence } = JSON.parse(text) as Partial<LatestPointer>;
    return sequence !== undefined && Number.isSafeInteger(sequence) ? sequence : 0;
  } catch {
    return 0;
  }
}

/** A pointer takes a few hundred bytes. What is larger is none, and not worth reading. */
export const maxPointerBytes = 65_536;

/** The value itself, with the fields of a newer version that this one knows nothing of. */
function open<Value>(schema: z.ZodMiniType<Value>, read: () => Checksummed): Value {
  const { value, checksum } = read();
  if (typeof checksum !== 'string') throw new Error('it bears no checksum');
  if (checksum !== checksumOf(value)) throw new Error('it was edited, as its checksum does not fit');
  const looked = schema.safeParse(value);
  if (!looked.success) throw new Error(describeProblems('', looked.error));
  return value as Value;
}

const why = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause));

// MERGED stored-schemas.ts: What kept values may look like, field by field. Nothing is allowed that this exporter never writes, and all that it may ever write: a stricter schema would refuse its own work, and a run could never be finished.

const text = z.string();
const count = z.int().check(z.minimum(0));
const ordinal = z.int().check(z.minimum(1));
const sha256 = z.string().check(z.regex(/^[0-9a-f]{64}$/));
const runId = z.custom<RunId>((value) => typeof value === 'string' && value !== '');
const cursor = z.custom<Cursor>((value) => typeof value === 'string');
/** By its form, which every instant has that Date can hold; a service's clock may well stand in the year 10000. */
const instantForm = /^(\d{4}|[+-]\d{6})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3])(:[0-5]\d){2}(\.\d{3})?Z$/;
const instant = z.custom<Instant>((value) => typeof value === 'string' && instantForm.test(value));
const filter = z.custom<JsonObject>((value) => typeof value === 'object' && value !== null && !Array.isArray(value));

const entrySchema = z.object({
  export: text,
  run: runId,
  page: ordinal,
  key: text,
  bytes: count,
  sha256,
  revision: z.nullable(text),
  reports: z.nullable(count),
  cursor: z.nullable(cursor),
  nextCursor: z.nullable(cursor),
  serviceTime: z.nullable(instant),
  loggedAt: instant,
  timing: z.nullable(z.object({ requestedAt: instant, latencyMs: count })),
  totals: z.object({ reports: z.nullable(count), bytes: count }),
  cycle: z.nullable(z.object({ tortoise: cursor, power: ordinal, steps: count })),
  repeats: z.boolean(),
}) satisfies z.ZodMiniType<PageEntry>;

const continuation = z.nullable(z.union([cursor, z.object({ sha256 })]));

const factsSchema = z.object({
  key: text,
  run: runId,
  page: ordinal,
  bytes: count,
  sha256,
  reports: z.nullable(count),
  cursor: continuation,
  nextCursor: continuation,
  serviceTime: z.nullable(instant),
}) satisfies z.ZodMiniType<PageMetadata>;

export const runSchema = z.object({
  export: text,
  run: runId,
  sequence: count,
  since: instant,
  request: z.object({ source: text, filter, format: text, container: text, size: z.optional(ordinal) }),
  startedAt: instant,
  startedBy: text,
  execution: text,
  executionNumber: ordinal,
  scheduledTime: z.optional(text),
  cursorRestarts: count,
  completedAt: z.optional(instant),
  lastFailure: z.optional(z.object({ error: text, message: text, at: instant })),
});

export const resultSchema = z.object({
  export: text,
  run: runId,
  since: instant,
  watermark: z.nullable(instant),
  pages: count,
  reports: z.nullable(count),
  bytes: count,
  manifest: text,
});

const stateSchema = z.object({
  export: text,
  version: ordinal,
  sequence: count,
  active: z.optional(runSchema),
  watermark: z.optional(z.object({ instant, source: text, filter })),
  lastScheduledTime: z.optional(text),
  lastCompleted: z.optional(z.object({ execution: text, result: resultSchema })),
}) satisfies z.ZodMiniType<ExportState>;

// MERGED checksum.ts: Tells a value that somebody has edited where it is kept from the value that was written there. A checksum is kept beside the value: made on every write, compared on every read. So a slip of the hand in a console or an editor, a partial restore or a mixed-up copy is noticed, however plausible the value looks. It is no defence against somebody who makes the checksum anew: whoever may write to the store may do that.

/** The SHA-256, in lower-case hexadecimal, of the canonical JSON of `value`; the same for a value from every store. */
export function checksumOf(value: unknown): string {
  return hash('sha256', JSON.stringify(inOrder(value)));
}

/** `value` with the names of every object in one order, as stores do not keep theirs. What is undefined is left out. */
function inOrder(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(inOrder);
  const ordered: Record<string, unknown> = {};
  for (const name of Object.keys(value).sort()) {
    const field = inOrder((value as Record<string, unknown>)[name]);
    // The one name that, assigned to, would not become a field.
    if (name === '__proto__') Object.defineProperty(ordered, name, { value: field, enumerable: true });
    else ordered[name] = field;
  }
  return ordered;
}
