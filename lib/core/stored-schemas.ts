/**
 * What kept values may look like, field by field. Nothing is allowed that this exporter never writes, and all that it
 * may ever write: a stricter schema would refuse its own work, and a run could never be finished.
 */

import * as z from 'zod';
import type { Cursor, Head, Instant, JsonObject, PageEntry, PageFacts, RunId } from './model.ts';

const text = z.string();
const count = z.int().min(0);
const ordinal = z.int().min(1);
const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const runId = z.custom<RunId>((value) => typeof value === 'string' && value !== '');
const cursor = z.custom<Cursor>((value) => typeof value === 'string');
/** By its form, which every instant has that Date can hold; a service's clock may well stand in the year 10000. */
const instantForm = /^(\d{4}|[+-]\d{6})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3])(:[0-5]\d){2}(\.\d{3})?Z$/;
const instant = z.custom<Instant>((value) => typeof value === 'string' && instantForm.test(value));
const filter = z.custom<JsonObject>((value) => typeof value === 'object' && value !== null && !Array.isArray(value));

export const entrySchema = z.object({
  export: text,
  run: runId,
  page: ordinal,
  key: text,
  bytes: count,
  sha256,
  revision: text.nullable(),
  reports: count.nullable(),
  cursor: cursor.nullable(),
  nextCursor: cursor.nullable(),
  serviceTime: instant.nullable(),
  loggedAt: instant,
  timing: z.object({ askedAt: instant, latencyMs: count }).nullable(),
  totals: z.object({ reports: count.nullable(), bytes: count }),
  cycle: z.object({ tortoise: cursor, power: ordinal, steps: count }).nullable(),
  repeats: z.boolean(),
}) satisfies z.ZodType<PageEntry>;

const continuation = z.union([cursor, z.object({ sha256 })]).nullable();

export const factsSchema = z.object({
  key: text,
  run: runId,
  page: ordinal,
  bytes: count,
  sha256,
  reports: count.nullable(),
  cursor: continuation,
  nextCursor: continuation,
  serviceTime: instant.nullable(),
}) satisfies z.ZodType<PageFacts>;

const runSchema = z.object({
  export: text,
  run: runId,
  sequence: count,
  since: instant,
  request: z.object({ source: text, filter, format: text, container: text, size: ordinal.optional() }),
  startedAt: instant,
  startedBy: text,
  execution: text,
  segment: ordinal,
  scheduledTime: text.optional(),
  cursorRestarts: count,
  completedAt: instant.optional(),
  lastFailure: z.object({ error: text, message: text, at: instant }).optional(),
});

const resultSchema = z.object({
  export: text,
  run: runId,
  since: instant,
  watermark: instant.nullable(),
  pages: count,
  reports: count.nullable(),
  bytes: count,
  manifest: text,
});

export const headSchema = z.object({
  export: text,
  version: ordinal,
  sequence: count,
  active: runSchema.optional(),
  watermark: z.object({ instant, source: text, filter }).optional(),
  lastScheduledTime: text.optional(),
  lastCompleted: z.object({ execution: text, result: resultSchema }).optional(),
}) satisfies z.ZodType<Head>;
