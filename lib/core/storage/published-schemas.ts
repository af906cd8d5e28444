/**
 * What readers are promised: the shape of the manifest, of `latest.json` and of the two events. `docs/schemas` holds the
 * same as JSON Schema, made from here and held to it by a test.
 *
 * Open for fields that come later, exact in those that are there. A change that a reader could trip over gets a new
 * number, and a schema beside the old one.
 */

import * as z from 'zod';
import type { Cursor, Instant, RunId } from '../model.ts';

/** By the names of their files in `docs/schemas`. */
export type PublishedName = keyof ReturnType<typeof published>;
export const publishedNames = ['manifest.v1', 'latest.v1', 'completed.v1', 'failed.v1'] as const;

/** The JSON Schema (2020-12) of what is called so. */
export function jsonSchemaOf(name: PublishedName): object {
  const { $schema, title, description, ...rest } = z.toJSONSchema(published()[name], {
    target: 'draft-2020-12',
    io: 'input',
  });
  return { $schema, $id: `urn:report-exporter:${name.replace('.', ':')}`, title, description, ...rest };
}

const told = <Schema extends z.ZodType>(schema: Schema, description: string) => schema.meta({ description });
const orNull = <Schema extends z.ZodType>(schema: Schema, description: string) => told(schema.nullable(), description);

/** A string that the house knows by a type of its own. */
const branded = <Type extends string>(schema: z.ZodString) => schema as unknown as z.ZodType<Type, string>;

const text = z.string().min(1);
const count = z.int().min(0);
const ordinal = z.int().min(1);
/** Whatever Date can hold: a service's clock may well stand in the year 10000. */
const instant = branded<Instant>(
  z
    .string()
    .regex(
      /^([0-9]{4}|[+-][0-9]{6})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3])(:[0-5][0-9]){2}(\.[0-9]{3})?Z$/,
    ),
);
const runId = branded<RunId>(z.string().regex(/^[0-9]{8}T[0-9]{6}Z-[0-9a-f]{6}$/));
const cursor = branded<Cursor>(z.string());

const nothingToCount = 'null where the format is not XML';
const exportName = told(z.string().regex(/^[A-Za-z0-9_-]{1,40}$/), "The export's name.");
const run = told(runId, 'The run; told again, it is the same.');
const sequence = told(count, 'Grows from run to run of the export, in no fixed steps: the newest has the highest.');
const since = told(instant, 'The run holds the reports dated at or after this instant (ISO 8601, UTC).');
const completedAt = told(instant, "When the run was completed, by the exporter's clock.");
const manifest = told(
  z.string().regex(/^[A-Za-z0-9_-]{1,40}\/date=[^/]+\/run=[^/]+\/manifest\.json$/),
  "The manifest's key, below the bucket's prefix or the directory.",
);
const ofTheRun = {
  pages: told(ordinal, 'How many pages: one at least, if only to say that nothing matched.'),
  reports: orNull(count, `How many reports they hold; ${nothingToCount}.`),
  bytes: told(count, 'How many bytes they have.'),
};

export type ManifestHeader = z.infer<typeof manifestHeaderSchema>;
export type ManifestPage = z.infer<typeof manifestPageSchema>;

/** The manifest but for its pages, which come last. */
export const manifestHeaderSchema = z.object({
  manifestVersion: told(z.literal(1), 'The number of this schema.'),
  export: exportName,
  run,
  sequence,
  since,
  filter: told(
    z.looseObject({
      date: told(z.looseObject({ gte: told(instant, 'The same as `since`.') }), 'The condition on the date.'),
    }),
    'What was asked for: the filter with `since` put in.',
  ),
  format: told(text, 'The format that was asked for: `XML`, or another.'),
  container: told(text, 'The container that was asked for: `NONE`, or another.'),
  size: orNull(ordinal.max(10), "The reports per page that were asked for; null: the service's own page size."),
  source: told(text, "Where it comes from: the service's base URL, or `simulator`."),
  startedAt: told(instant, "When the run began, by the exporter's clock."),
  completedAt,
  serviceStartedAt: orNull(instant, "The service's clock at the first page; null where it tells no time."),
  serviceCompletedAt: orNull(instant, "The service's clock at the last page; null where it tells no time."),
  totals: told(z.object(ofTheRun), 'All pages together.'),
});

export const manifestPageSchema = z.object({
  page: told(ordinal, 'From 1, without gaps.'),
  key: told(
    z.string().regex(/^[A-Za-z0-9_-]{1,40}\/date=[^/]+\/run=[^/]+\/page-[0-9]{6,}\.[a-z0-9]+$/),
    "The page's key, below the bucket's prefix or the directory.",
  ),
  bytes: told(count, 'How many bytes it has.'),
  sha256: told(z.string().regex(/^[0-9a-f]{64}$/), 'Of its bytes.'),
  reports: orNull(count, `How many reports it holds: child elements of its root; ${nothingToCount}.`),
  cursor: orNull(cursor, 'What it was asked for with, as the service gave it; null for page 1.'),
});

export const latestSchema = z.object({ export: exportName, run, sequence, completedAt, manifest });

const ofTheExecution = {
  eventVersion: told(z.literal(1), 'The number of this schema.'),
  export: exportName,
  execution: told(
    z.string().regex(/^arn:[^:]+:states:[^:]+:[^:]+:execution:[^:]+:[^:]+$/),
    "The execution of the export's state machine that tells it.",
  ),
};

const recordedFailure = z.object({
  run: orNull(runId, 'The run that failed; null where the execution owned none.'),
  since: orNull(instant, 'Where it starts; null where there is none.'),
  pages: told(count, 'How many pages of it were logged before.'),
  reports: orNull(count, `How many reports they hold; ${nothingToCount}.`),
  bytes: told(count, 'How many bytes they have.'),
  message: told(z.string(), 'What happened, to what, and what comes next.'),
  resumable: told(z.boolean(), 'Whether there is a run that the next start goes on with.'),
});

const unrecordedFailure = z.object({
  Error: told(text, 'Why not, by name.'),
  Cause: told(z.string(), 'Why not.').optional(),
});

function published() {
  return {
    'manifest.v1': manifestHeaderSchema
      .extend({ pages: told(z.array(manifestPageSchema).min(1), 'Every page of the run, in order.') })
      .meta({
        title: 'The manifest of a run',
        description: 'Written last: a run is published if, and only if, its manifest is there.',
      }),
    'latest.v1': latestSchema.meta({
      title: 'latest.json',
      description: 'Points at the manifest of the newest published run of an export.',
    }),
    'completed.v1': z
      .object({
        ...ofTheExecution,
        result: told(
          z.object({
            export: exportName,
            run,
            since,
            watermark: orNull(
              instant,
              'Where the next run starts, before its overlap; null where nothing says so yet.',
            ),
            ...ofTheRun,
            manifest,
          }),
          'What was published.',
        ),
      })
      .meta({
        title: 'The detail of a `Report Export Completed` event',
        description: 'Tells that a run is published. It comes at least once.',
      }),
    'failed.v1': z
      .object({
        ...ofTheExecution,
        error: told(text, 'What kind of failure it is: a name that the runbook explains.'),
        failed: told(
          z.union([
            told(recordedFailure, 'As it was recorded.'),
            told(unrecordedFailure, 'Where not even that could be done.'),
          ]),
          'The failure, for a person.',
        ),
      })
      .meta({
        title: 'The detail of a `Report Export Failed` event',
        description: 'Tells that an execution has failed, all its attempts used up. It comes at least once.',
      }),
  };
}
