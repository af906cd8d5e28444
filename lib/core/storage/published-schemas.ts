/**
 * The public formats: the manifest, the summary of a run, `latest.json` and the two events. The JSON Schemas in
 * `docs/schemas` are generated from here, and a test keeps them up to date.
 *
 * The schemas are exact about existing fields and allow additional ones, so that fields can be added later. An incompatible
 * change gets a new version number and a new schema; the old one stays.
 */

import * as z from 'zod';
import { type Cursor, type Instant, instantPattern, type RunId } from '../model.ts';
import { runIdPattern } from './keys.ts';

/** The names of the files in `docs/schemas`, without `.schema.json`. */
export type PublishedName = keyof ReturnType<typeof published>;
export const publishedNames = ['manifest.v1', 'run.v1', 'latest.v1', 'completed.v1', 'failed.v1'] as const;

/** The JSON Schema (draft 2020-12) of the format. */
export function jsonSchemaOf(name: PublishedName): object {
  const { $schema, title, description, ...rest } = z.toJSONSchema(published()[name], {
    target: 'draft-2020-12',
    io: 'input',
  });
  return { $schema, $id: `urn:report-exporter:${name.replace('.', ':')}`, title, description, ...rest };
}

const described = <Schema extends z.ZodType>(schema: Schema, description: string) => schema.meta({ description });
const orNull = <Schema extends z.ZodType>(schema: Schema, description: string) =>
  described(schema.nullable(), description);

/** A string of a branded type. */
const branded = <Type extends string>(schema: z.ZodString) => schema as unknown as z.ZodType<Type, string>;

const text = z.string().min(1);
const count = z.int().min(0);
const ordinal = z.int().min(1);
const instant = branded<Instant>(z.string().regex(instantPattern));
const runId = branded<RunId>(z.string().regex(runIdPattern));
const cursor = branded<Cursor>(z.string());
const sha256 = z.string().regex(/^[0-9a-f]{64}$/);

const nullUnlessCounted = 'null if they are not counted';
const name = z.string().regex(/^[A-Za-z0-9_-]{1,40}$/);
const exportName = described(name, "The export's name.");
const run = described(runId, 'The ID of the run.');
const sequence = described(
  count,
  'Increases with every run of the export, not necessarily by one. The newest run has the highest.',
);
const since = described(instant, 'The run contains the reports dated at or after this instant (ISO 8601, UTC).');
const until = described(
  instant,
  'Only if the run has an upper bound: it contains no reports dated at or after this instant (ISO 8601, UTC).',
);
const bounded = described(
  z.literal(true),
  'Only if an operator named both bounds. Such a run is none of those that a reader catches up with.',
);
const completedAt = described(instant, "When the run was completed, by the exporter's clock.");
const manifest = described(
  z.string().regex(/^[A-Za-z0-9_-]{1,40}\/date=[^/]+\/run=[^/]+\/manifest\.json$/),
  "The manifest's key, relative to the bucket's prefix or to the directory.",
);
const totals = {
  pages: described(ordinal, 'The number of pages. At least 1, even if no report matched.'),
  reports: orNull(count, `The number of reports in these pages; ${nullUnlessCounted}.`),
  bytes: described(count, 'The size of these pages in bytes.'),
};

type Published<Name extends keyof ReturnType<typeof published>> = z.infer<ReturnType<typeof published>[Name]>;

/** The content of a manifest. */
export type Manifest = Published<'manifest.v1'>;
/** The content of `run.json`, or of `bounded.json`: the summary of a published run. */
export type RunSummary = Published<'run.v1'>;
/** The content of `latest.json`. */
export type LatestPointer = Published<'latest.v1'>;
/** The detail of a `Report Export Completed` event. */
export type CompletedEventDetail = Published<'completed.v1'>;
/** The detail of a `Report Export Failed` event. */
export type FailedEventDetail = Published<'failed.v1'>;

const format = described(text, 'The requested format, for example `XML`.');
const container = described(text, 'The requested container, for example `NONE`.');
const compression = z.literal('gzip');
const source = described(text, 'The base URL of the service, or `simulator`.');
const startedAt = described(instant, "When the run began, by the exporter's clock.");
const serviceStartedAt = orNull(
  instant,
  "The service's clock at the request for the first page; null if the response had no date.",
);
const serviceCompletedAt = orNull(
  instant,
  "The service's clock at the request for the last page; null if the response had no date.",
);
const watermark = orNull(
  instant,
  'Where the next run starts, before its overlap is subtracted; null if the export has no watermark, or the run is bounded.',
);

export type ManifestHeader = z.infer<typeof manifestHeaderSchema>;
export type ManifestPage = z.infer<typeof manifestPageSchema>;

/** The manifest without its pages, which come last. */
export const manifestHeaderSchema = z.object({
  manifestVersion: described(z.literal(1), 'The version of this schema.'),
  export: exportName,
  run,
  sequence,
  since,
  until: until.optional(),
  bounded: bounded.optional(),
  filter: described(
    z.looseObject({
      date: described(
        z.looseObject({ gte: described(instant, '`since`, rounded down to a whole second.').optional() }),
        'The conditions on the date. With `api`, there need not be any.',
      ).optional(),
    }),
    'The filter of the requests, including `since`, without upper bounds; with `api`, that of the export.',
  ),
  format,
  container,
  api: described(
    z.object({
      pagination: described(text, 'Where responses have the next page, and what is there, for example `body cursor`.'),
      sha256: described(
        sha256,
        'The checksum of the description and of the headers. It has no secret, and changes with each of them.',
      ),
      requestSha256: described(
        sha256,
        'The checksum of what selects reports: `request`, `dates` and `auth` of the description, and the headers.',
      ),
    }),
    'Only if the service is another API than the Report Export Service, which the settings describe.',
  ).optional(),
  compression: described(
    compression,
    'Only if the pages are compressed: how. Each is a gzip file of its own. All pages of a run have the same form.',
  ).optional(),
  size: orNull(ordinal, "The requested number of reports per page; null for the service's default."),
  source,
  startedAt,
  completedAt,
  serviceStartedAt,
  serviceCompletedAt,
  totals: described(z.object(totals), 'The totals of all pages.'),
  slices: described(
    z
      .array(
        z.object({
          since: described(instant, 'The slice contains the reports dated at or after this instant.'),
          until: orNull(
            instant,
            'It contains none dated at or after this one; null for the last slice of a run without `until`.',
          ),
          ...totals,
        }),
      )
      .min(2),
    'Only if the run has several slices, which were requested at the same time: their bounds and totals, in the order of their pages.',
  ).optional(),
});

export const manifestPageSchema = z.object({
  page: described(ordinal, 'The page number, from 1 without gaps; over all slices.'),
  slice: described(ordinal, 'Only if the run has several slices: the one that the page belongs to, from 1.').optional(),
  key: described(
    z
      .string()
      .regex(/^[A-Za-z0-9_-]{1,40}\/date=[^/]+\/run=[^/]+\/page-([0-9]{4}(\.[0-9]+)?-)?[0-9]{6,}\.[a-z0-9]+(\.gz)?$/),
    "The page's key, relative to the bucket's prefix or to the directory.",
  ),
  bytes: described(count, 'The size of the page in bytes, before it was compressed.'),
  sha256: described(sha256, 'The SHA-256 of the page, before it was compressed, in lower-case hexadecimal.'),
  compression: described(compression, 'Only if the page is compressed: how.').optional(),
  storedBytes: described(count, 'Only if the page is compressed: the size of its object in bytes.').optional(),
  storedSha256: described(
    sha256,
    'Only if the page is compressed: the SHA-256 of its object, in lower-case hexadecimal.',
  ).optional(),
  reports: orNull(count, `The number of reports in the page; ${nullUnlessCounted}.`),
  cursor: orNull(
    cursor,
    'The cursor with which the page was requested, as the service returned it; null for the first page of a slice.',
  ),
  transferredBytes: described(
    count,
    'How many bytes of the page travelled from the service. Absent if the service did not compress it.',
  ).optional(),
});

export const runSummarySchema = z.object({
  runVersion: described(z.literal(1), 'The version of this schema.'),
  export: exportName,
  run,
  sequence,
  since,
  until: until.optional(),
  bounded: bounded.optional(),
  watermark,
  startedAt,
  completedAt,
  serviceStartedAt,
  serviceCompletedAt,
  format,
  container,
  source,
  ...totals,
  manifest,
});

export const latestSchema = z.object({ export: exportName, run, sequence, completedAt, manifest });

const executionFields = {
  eventVersion: described(z.literal(1), 'The version of this schema.'),
  execution: described(
    z.string().regex(/^arn:[^:]+:states:[^:]+:[^:]+:execution:[^:]+:[^:]+$/),
    'The ARN of the execution that sent the event.',
  ),
  bucket: described(text, 'The bucket that the exports are in. Absent in events of version 1.0.').optional(),
  prefix: described(
    z.string(),
    'What the keys in the bucket begin with, before those in the event and in the manifest: empty, or ending with a slash. Absent in events of version 1.0.',
  ).optional(),
};

const recordedFailure = z.object({
  export: orNull(name, 'The export that failed; null if the start input names no export of the service.'),
  run: orNull(runId, 'The run that failed; null if the execution did not own a run.'),
  since: orNull(instant, 'The `since` of the run; null if there is no run.'),
  until: until.optional(),
  bounded: bounded.optional(),
  pages: described(count, 'The number of pages that the run had logged.'),
  reports: orNull(count, `The number of reports in these pages; ${nullUnlessCounted}.`),
  bytes: described(count, 'The size of these pages in bytes.'),
  message: described(z.string(), 'What happened, to what, and what happens next.'),
  resumable: described(z.boolean(), 'Whether the next start resumes an unfinished run.'),
});

const unrecordedFailure = z.object({
  export: described(z.null(), 'null: the export is not known.'),
  recordingError: described(
    z.object({
      Error: described(text, 'The name of the error.'),
      Cause: described(z.string(), 'The message of the error.').optional(),
    }),
    'The error that prevented the failure from being recorded.',
  ),
});

function published() {
  return {
    'manifest.v1': manifestHeaderSchema
      .extend({ pages: described(z.array(manifestPageSchema).min(1), 'All pages of the run, in page order.') })
      .meta({
        title: 'The manifest of a run',
        description: 'Written after all pages. A run is published if and only if its manifest exists.',
      }),
    'run.v1': runSummarySchema.meta({
      title: 'run.json, or bounded.json',
      description:
        'The summary of a published run, as one line of JSON beside its manifest. Written after the manifest and before `latest.json`. That of a bounded run is `bounded.json`.',
    }),
    'latest.v1': latestSchema.meta({
      title: 'latest.json',
      description: 'The pointer to the manifest of the newest published run of an export.',
    }),
    'completed.v1': z
      .object({
        ...executionFields,
        export: exportName,
        result: described(
          z.object({
            export: exportName,
            run,
            since,
            until: until.optional(),
            bounded: bounded.optional(),
            watermark,
            ...totals,
            manifest,
            rest: described(
              z.looseObject({
                export: exportName,
                since,
                until: described(instant, 'Where the series ends.'),
                each: described(text, 'How long its parts are: a duration, or `month`.'),
              }),
              'Only if the run is part of a series and not its last one: the start input of the next one, which starts by itself.',
            ).optional(),
          }),
          'The published run.',
        ),
      })
      .meta({
        title: 'The detail of a `Report Export Completed` event',
        description: 'Sent when a run has been published. Delivered at least once.',
      }),
    'failed.v1': z
      .object({
        ...executionFields,
        export: orNull(
          name,
          'The export that failed; null if the start input names no export, or if the failure could not be recorded.',
        ),
        error: described(text, 'The name of the error. The runbook explains each of them.'),
        failed: described(
          z.union([
            described(recordedFailure, 'The failure as recorded in the state of the export.'),
            described(unrecordedFailure, 'The failure could not be recorded.'),
          ]),
          'Details of the failure.',
        ),
      })
      .meta({
        title: 'The detail of a `Report Export Failed` event',
        description: 'Sent when an execution has failed after all its retries. Delivered at least once.',
      }),
  };
}
