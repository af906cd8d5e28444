/**
 * The public formats: the manifest, the summary of a run, `latest.json` and the two events. The JSON Schemas in
 * `docs/schemas` are generated from here, and a test keeps them up to date.
 *
 * The schemas are exact about existing fields and allow additional ones, so that fields can be added later. An
 * incompatible change gets a new version number and a new schema; the old one stays.
 */

import * as z from 'zod/mini';
import {
  common,
  compressedForm,
  count,
  compression,
  cursor,
  described,
  failedRunSchema,
  instant,
  latestSchema,
  metadataSchema,
  optional,
  ordinal,
  period,
  reportsAtSchema,
  resultSchema,
  sha256,
  text,
  totals,
} from '../model.ts';

const { export: exportName, run, sequence, completedAt, manifest, watermark } = common;

/** What the manifest and the summary both say of a run. */
const facts = {
  export: exportName,
  run,
  sequence,
  ...period,
  startedAt: described(instant, "When the run began, by the exporter's clock."),
  completedAt,
  serviceStartedAt: described(
    z.nullable(instant),
    "The service's clock at the request for the first page; null if the response had no date.",
  ),
  serviceCompletedAt: described(
    z.nullable(instant),
    "The service's clock at the request for the last page; null if the response had no date.",
  ),
  format: described(text, 'The requested format, for example `XML`.'),
  container: described(text, 'The requested container, for example `NONE`.'),
  source: described(text, 'The base URL of the service, or `simulator`.'),
};

/** The manifest without its pages, which come last. */
export const manifestHeaderSchema = z.object({
  manifestVersion: described(z.literal(1), 'The version of this schema.'),
  ...facts,
  filter: described(
    z.looseObject({
      date: optional(
        z.looseObject({ gte: optional(instant, '`since`, rounded down to a whole second.') }),
        'The conditions on the date. With `api`, there need not be any.',
      ),
    }),
    'The filter of the requests, including `since`, without upper bounds; with `api`, that of the export.',
  ),
  api: optional(
    z.object({
      pagination: described(
        text,
        'Where responses have the next page, and what is there, for example `body cursor`. `counted`: pages are counted, so a removal and an addition that balance are not noticed.',
      ),
      full: optional(z.literal(true), 'Only if no request has a time, so that each run has all reports.'),
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
  ),
  compression: optional(
    compression,
    'Only if the pages are compressed: how. Each is a gzip file of its own. All pages of a run have the same form.',
  ),
  size: described(z.nullable(ordinal), "The requested number of reports per page; null for the service's default."),
  totals: described(z.object(totals), 'The totals of all pages.'),
  slices: optional(
    z
      .array(
        z.object({
          since: described(instant, 'The slice contains the reports dated at or after this instant.'),
          until: described(
            z.nullable(instant),
            'It contains none dated at or after this one; null for the last slice of a run without `until`.',
          ),
          ...totals,
        }),
      )
      .check(z.minLength(2)),
    'Only if the run has several slices, which were requested at the same time: their bounds and totals, in the order of their pages.',
  ),
  parents: optional(
    z.object({
      export: optional(text, 'Only if they are reports of another export: its name.'),
      run: optional(run, 'The run of that export whose reports they are.'),
      count: described(count, 'How many parents the run has. Each is a slice. 0 if that run has none.'),
      withoutPages: described(count, 'How many of them have no page.'),
      gone: described(count, 'How many of these no longer exist, as the API says.'),
      skipped: described(count, 'How many of these an operator has skipped. They may have reports.'),
      missing: optional(
        z.object({
          key: described(
            z.string().check(z.regex(/^[^/]+\/date=[^/]+\/run=[^/]+\/missing-parents-[0-9a-f]{12}\.ndjson$/)),
            "The list's key, relative to the bucket's prefix or to the directory. Each line is JSON.",
          ),
          bytes: described(count, 'Its size in bytes.'),
          sha256: described(sha256, 'Its SHA-256, in lower-case hexadecimal.'),
        }),
        'Only if parents are gone or were skipped: the object that lists them.',
      ),
    }),
    'Only if the export has `parents`.',
  ),
  reportsAt: described(
    reportsAtSchema,
    'Where the reports are in each page. On a line of its own, before the pages. A page whose `reports` is 0 need not have the place.',
  ),
});

const { bytes, sha256: pageSha256, reports, transferredBytes } = metadataSchema.shape;
export const manifestPageSchema = z.object({
  page: described(ordinal, 'The page number, from 1 without gaps; over all slices.'),
  slice: optional(ordinal, 'Only if the run has several slices: the one that the page belongs to, from 1.'),
  parent: optional(text, 'Only if the export has `parents`: the value that the page was requested for.'),
  key: described(
    z
      .string()
      .check(z.regex(/^[^/]+\/date=[^/]+\/run=[^/]+\/page-([0-9]{6}(\.[0-9]+)?-)?[0-9]{6,}\.[a-z0-9]+(\.gz)?$/)),
    "The page's key, relative to the bucket's prefix or to the directory.",
  ),
  bytes,
  sha256: pageSha256,
  ...compressedForm,
  reports,
  cursor: described(
    z.nullable(cursor),
    'The cursor with which the page was requested, as the service returned it; null for the first page of a slice.',
  ),
  transferredBytes,
});

export const missingParentSchema = z.object({
  slice: described(ordinal, "The number of the parent among the run's parents, from 1."),
  parent: described(text, 'Its value.'),
  reason: described(
    z.enum(['gone', 'skipped']),
    '`gone`: it no longer exists, as the API says. `skipped`: an operator has skipped it, so it may have reports.',
  ),
  status: described(z.nullable(count), 'The status of the response that says so; null if it was skipped.'),
});
export type MissingParent = Readonly<z.infer<typeof missingParentSchema>>;

export const runSummarySchema = z.object({
  runVersion: described(z.literal(1), 'The version of this schema.'),
  ...facts,
  parents: optional(
    z.object({ export: described(text, 'Its name.'), run: described(run, 'The run whose reports they are.') }),
    'Only if the parents are reports of another export.',
  ),
  watermark,
  ...totals,
  manifest,
});

const executionFields = {
  eventVersion: described(z.literal(1), 'The version of this schema.'),
  execution: described(
    z.string().check(z.regex(/^arn:[^:]+:states:[^:]+:[^:]+:execution:[^:]+:[^:]+$/)),
    'The ARN of the execution that sent the event.',
  ),
  // Absent in an event that is sent for a run whose own event was missed.
  bucket: optional(text, 'The bucket that the exports are in.'),
  prefix: optional(
    text,
    'What the keys in the bucket begin with, before those in the event and in the manifest: empty, or ending with a slash.',
  ),
};

const unrecordedFailure = z.object({
  export: described(z.null(), 'null: the export is not known.'),
  recordingError: described(
    z.object({
      Error: described(text, 'The name of the error.'),
      Cause: optional(text, 'The message of the error.'),
    }),
    'The error that prevented the failure from being recorded.',
  ),
});

const published = {
  'manifest.v1': {
    schema: z.extend(manifestHeaderSchema, {
      pages: described(z.array(manifestPageSchema), 'All pages of the run, in page order.'),
    }),
    title: 'The manifest of a run',
    description: 'Written after all pages. A run is published if and only if its manifest exists.',
  },
  'missing.v1': {
    schema: missingParentSchema,
    title: 'A line of `missing-parents-….ndjson`',
    description: 'A parent of a published run that has no pages in it. Written before the manifest.',
  },
  'run.v1': {
    schema: runSummarySchema,
    title: 'run.json, or bounded.json',
    description:
      'The summary of a published run, as one line of JSON beside its manifest. Written after the manifest and before `latest.json`. That of a bounded run is `bounded.json`.',
  },
  'latest.v1': {
    schema: latestSchema,
    title: 'latest.json',
    description: 'The pointer to the manifest of the newest published run of an export.',
  },
  'completed.v1': {
    schema: z.object({
      ...executionFields,
      export: exportName,
      result: described(z.extend(resultSchema, { manifest }), 'The published run.'),
    }),
    title: 'The detail of a `Report Export Completed` event',
    description: 'Sent when a run has been published. Delivered at least once.',
  },
  'failed.v1': {
    schema: z.object({
      ...executionFields,
      export: described(
        z.nullable(exportName),
        'The export that failed; null if the start input names no export, or if the failure could not be recorded.',
      ),
      error: described(text, 'The name of the error. The runbook explains each of them.'),
      failed: described(
        z.union([
          described(z.omit(failedRunSchema, { error: true }), 'The failure as recorded in the state of the export.'),
          described(unrecordedFailure, 'The failure could not be recorded.'),
        ]),
        'Details of the failure.',
      ),
    }),
    title: 'The detail of a `Report Export Failed` event',
    description: 'Sent when an execution has failed after all its retries. Delivered at least once.',
  },
};

/** The names of the files in `docs/schemas`, without `.schema.json`. */
export type PublishedName = keyof typeof published;
export const publishedNames = Object.keys(published) as readonly PublishedName[];

/** The JSON Schema (draft 2020-12) of the format. */
export function jsonSchemaOf(name: PublishedName): object {
  const { schema, title, description } = published[name];
  const { $schema, ...rest } = z.toJSONSchema(schema, { target: 'draft-2020-12', io: 'input' });
  return { $schema, $id: `urn:report-exporter:${name.replace('.', ':')}`, title, description, ...rest };
}

type Published<Name extends PublishedName> = z.infer<(typeof published)[Name]['schema']>;

/** The content of a manifest. */
export type Manifest = Published<'manifest.v1'>;
export type ManifestHeader = z.infer<typeof manifestHeaderSchema>;
export type ManifestPage = z.infer<typeof manifestPageSchema>;
/** The content of `run.json`, or of `bounded.json`: the summary of a published run. */
export type RunSummary = z.infer<typeof runSummarySchema>;
export type { LatestPointer } from '../model.ts';
/** The detail of a `Report Export Completed` event. */
export type CompletedEventDetail = Published<'completed.v1'>;
/** The detail of a `Report Export Failed` event. */
export type FailedEventDetail = Published<'failed.v1'>;
