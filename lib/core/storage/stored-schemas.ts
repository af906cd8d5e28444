/**
 * What kept values may look like, field by field. Nothing is allowed that this exporter never writes, and all that it
 * may ever write: a stricter schema would refuse its own work, and a run could never be finished.
 */

import * as z from 'zod/mini';
import type { Cursor, Head, Instant, JsonObject, PageEntry, PageFacts, RunId } from '../model.ts';

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

export const entrySchema = z.object({
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
  timing: z.nullable(z.object({ askedAt: instant, latencyMs: count })),
  totals: z.object({ reports: z.nullable(count), bytes: count }),
  cycle: z.nullable(z.object({ tortoise: cursor, power: ordinal, steps: count })),
  repeats: z.boolean(),
}) satisfies z.ZodMiniType<PageEntry>;

const continuation = z.nullable(z.union([cursor, z.object({ sha256 })]));

export const factsSchema = z.object({
  key: text,
  run: runId,
  page: ordinal,
  bytes: count,
  sha256,
  reports: z.nullable(count),
  cursor: continuation,
  nextCursor: continuation,
  serviceTime: z.nullable(instant),
}) satisfies z.ZodMiniType<PageFacts>;

export const runSchema = z.object({
  export: text,
  run: runId,
  sequence: count,
  since: instant,
  request: z.object({ source: text, filter, format: text, container: text, size: z.optional(ordinal) }),
  startedAt: instant,
  startedBy: text,
  execution: text,
  segment: ordinal,
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

export const headSchema = z.object({
  export: text,
  version: ordinal,
  sequence: count,
  active: z.optional(runSchema),
  watermark: z.optional(z.object({ instant, source: text, filter })),
  lastScheduledTime: z.optional(text),
  lastCompleted: z.optional(z.object({ execution: text, result: resultSchema })),
}) satisfies z.ZodMiniType<Head>;
