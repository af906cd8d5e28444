/**
 * What a person may set, checked whole: every mistake is named at once, each with its place.
 * The command line and the deployment read their settings through these same schemas.
 */

import * as z from 'zod/mini';
import { ExportError } from '../errors.ts';
import type { ExportDefinition, JsonObject } from '../model.ts';
import { durationSchema, instantSchema } from '../timestamps.ts';
import { problemsOfFilter } from './filter.ts';
import { describeProblems } from './validation-errors.ts';

const mebibyte = 1024 * 1024;

const duration = (standard: string) => z.prefault(durationSchema, standard);
const timeout = (standard: string) => duration(standard).check(z.refine((ms) => ms > 0, 'must be longer than nothing'));
const atLeastOne = z.int('must be a whole number').check(z.minimum(1, 'must be at least 1'));
const count = (standard: number) => z._default(atLeastOne, standard);

/** https, or http where the request never leaves the machine; no user, query or fragment that a log could leak. */
const baseUrlSchema = z.string().check(
  z.superRefine((text, context) => {
    const problem = problemOfBaseUrl(text);
    if (problem !== undefined) context.addIssue({ code: 'custom', message: problem });
  }),
);

function problemOfBaseUrl(text: string): string | undefined {
  const url = URL.parse(text);
  if (url === null) return 'must be a URL, such as https://reports.example.com';
  if (url.username !== '' || url.password !== '')
    return 'must not hold a user or password; the API key has its own setting';
  if (url.search !== '' || url.hash !== '') return 'must not hold a query or fragment';
  if (url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname))) return undefined;
  return 'must be https (http only to 127.0.0.1, [::1] or localhost): the API key would travel in the clear';
}

function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}

/** Where the service is and how patient its client is. */
export const serviceSettingsSchema = z.strictObject({
  baseUrl: baseUrlSchema,
  /** The vendor's part of the header names X-…-API-KEY and X-…-CURSOR. */
  vendor: z._default(
    z
      .string()
      .check(
        z.regex(
          /^[A-Za-z0-9]+(-[A-Za-z0-9]+)*$/,
          'must be letters, digits and single hyphens, as it stands in the header names',
        ),
      ),
    'SERVICE',
  ),
  /** The route by which the cursor goes back (contract, section 4.1, rule 1). */
  cursorIn: z._default(z.enum(['query', 'body'], 'must be query or body'), 'query'),
  connectTimeout: timeout('PT10S'),
  headersTimeout: timeout('PT1M'),
  /** Between two chunks of a body. */
  bodyTimeout: timeout('PT30S'),
  /** For one whole request, however steadily its answer drips in. */
  totalTimeout: timeout('PT4M'),
  maxPageBytes: count(256 * mebibyte),
});
export type ServiceSettings = z.infer<typeof serviceSettingsSchema>;

const filterSchema = z.pipe(
  z.custom<JsonObject>().check(
    z.superRefine((filter, context) => {
      for (const { path, message } of problemsOfFilter(filter)) {
        context.addIssue({ code: 'custom', path: [...path], message });
      }
    }),
  ),
  // As it comes back from every store, or it would not be known for the same: -0 is 0 there.
  z.transform((filter: JsonObject) => JSON.parse(JSON.stringify(filter)) as JsonObject),
);

const sinceSchema = z
  .strictObject({
    /** Where the first run starts; left out: everything the service has. */
    initial: z.optional(instantSchema),
    /** How far a run reaches back behind the watermark. */
    overlap: z.optional(durationSchema),
    /** Instead of a watermark: how far before its scheduled time every run starts. */
    lookbackWindow: z.optional(durationSchema),
  })
  .check(
    z.refine(({ lookbackWindow }) => lookbackWindow !== 0, {
      path: ['lookbackWindow'],
      error: 'must be longer than nothing',
    }),
    z.refine(
      ({ initial, overlap, lookbackWindow }) =>
        lookbackWindow === undefined || (initial === undefined && overlap === undefined),
      {
        error: 'lookbackWindow takes the place of the watermark, so initial and overlap do not go with it',
      },
    ),
  );

const wordSchema = z
  .string()
  .check(z.regex(/^[\x21-\x7e]{1,40}$/, 'must be 1 to 40 printable characters without blanks'));

/** One export: what it asks for, where its runs start, and the limits they keep. */
export const exportSettingsSchema = z.strictObject({
  name: z
    .string()
    .check(
      z.regex(
        /^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$/,
        'must be 1 to 40 letters, digits, hyphens and underscores, beginning with a letter or digit',
      ),
    ),
  since: z.prefault(sinceSchema, {}),
  filter: z._default(filterSchema, {}),
  format: z._default(wordSchema, 'XML'),
  container: z._default(wordSchema, 'NONE'),
  size: z.optional(
    z
      .int('must be a whole number from 1 to 10')
      .check(z.minimum(1, 'must be 1 to 10'), z.maximum(10, 'must be 1 to 10')),
  ),
  maxPages: z.optional(atLeastOne),
  // An execution holds 25,000 events. A turn takes 7, and 3 for each of the 30 attempts that may fail before one succeeds.
  iterationsPerExecution: count(250).check(
    z.refine(
      (iterations) => iterations <= 250,
      'must be at most 250: an execution holds 25,000 events, and a turn may take 97 where attempts fail',
    ),
  ),
  /** More than one: the next page is asked for while the last one is still being stored, and the loop takes fewer turns. */
  pagesPerInvocation: count(1).check(z.refine((pages) => pages <= 1_000, 'must be at most 1000')),
  maxCursorRestarts: z._default(z.int('must be a whole number').check(z.minimum(0, 'must not be negative')), 1),
  maxInlineWait: duration('PT20S'),
  maxRetryAfter: duration('PT6H').check(z.refine((ms) => ms <= 30 * 86_400_000, 'must be at most P30D')),
  maxConsecutiveWaits: count(20).check(z.refine((waits) => waits <= 100, 'must be at most 100')),
});
export type ExportSettings = z.infer<typeof exportSettingsSchema>;

/** `value` as `schema` has it. @throws ConfigurationError that names every problem, each with its place in `what`. */
export function parseSettings<Schema extends z.core.$ZodType>(
  schema: Schema,
  value: unknown,
  what: string,
): z.infer<Schema> {
  const parsed = z.safeParse(schema, value);
  if (parsed.success) return parsed.data;
  throw new ExportError('ConfigurationError', describeProblems(what, parsed.error));
}

/** What names the service at `baseUrl` in all that is remembered of it, however the address is spelled. */
export function sourceOf(baseUrl: string): string {
  const { origin, pathname } = new URL(baseUrl);
  return `${origin}${pathname.replace(/\/+$/, '')}`;
}

/** The definition the steps work with. `source` is that of its service, or `simulator`. */
export function exportDefinition(settings: ExportSettings, source: string): ExportDefinition {
  const { since } = settings;
  return {
    name: settings.name,
    request: {
      source,
      filter: settings.filter,
      format: settings.format,
      container: settings.container,
      ...(settings.size === undefined ? {} : { size: settings.size }),
    },
    since:
      since.lookbackWindow === undefined
        ? { from: 'watermark', initial: since.initial, overlapMs: since.overlap ?? 0 }
        : { from: 'lookback', lookbackMs: since.lookbackWindow },
    limits: {
      maxPages: settings.maxPages,
      iterationsPerExecution: settings.iterationsPerExecution,
      pagesPerInvocation: settings.pagesPerInvocation,
      maxCursorRestarts: settings.maxCursorRestarts,
      maxInlineWaitSeconds: settings.maxInlineWait / 1_000,
      maxRetryAfterSeconds: settings.maxRetryAfter / 1_000,
      maxConsecutiveWaits: settings.maxConsecutiveWaits,
    },
  };
}
