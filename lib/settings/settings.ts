/**
 * The settings of a service and of its exports. The command line and the deployment use the same schemas, which report
 * every problem at once, each with its path.
 */

import * as z from 'zod/mini';
import { findDateProblem } from '../core/bounded-runs.ts';
import { asDocumentRoot, rootOfColumns } from '../core/document-root.ts';
import type { ExportDefinition, ExportRequest, RequestDates } from '../core/model.ts';
import { maxParallel, minSliceMs } from '../core/slices.ts';
import { checksumOf } from '../core/storage/stored-records.ts';
import { durationSchema, instantSchema } from '../core/timestamps.ts';
import { uses } from './api-request.ts';
import {
  type Api,
  apiSchema,
  depthOfApiPart,
  findApiProblems,
  findContradictions,
  formatOf,
  isUrl,
  unitOfDates,
  type ValidApi,
} from './api-settings.ts';
import {
  checkedText,
  field,
  fieldsOf,
  flag,
  isLoopback,
  jsonObject,
  oneFormOf,
  optionalField,
  type SettingsProblem,
  text,
  wholeNumber,
} from './fields.ts';
import { networkFields } from './network-settings.ts';
import { type Checked, within } from './parse-settings.ts';
import { orExample } from '../core/validation-errors.ts';

const mebibyte = 1024 * 1024;

const duration = (defaultValue: string) => z.prefault(durationSchema, defaultValue);
const timeout = (defaultValue: string) =>
  duration(defaultValue).check(
    z.refine((ms) => ms > 0, 'must be longer than zero'),
    // Timers of Node.js hold at most 24 days, and fire at once if it is more.
    z.refine((ms) => ms <= 86_400_000, 'must be at most P1D'),
  );
const positiveInteger = z.int('must be a whole number').check(z.minimum(1, 'must be at least 1'));
const count = (defaultValue: number) => z._default(positiveInteger, defaultValue);
const countUpTo = (max: number, defaultValue: number, error = `must be at most ${max}`) =>
  z._default(positiveInteger.check(z.maximum(max, error)), defaultValue);

/** https, or http on the loopback interface. No user, query or fragment: those could hold secrets, and URLs are logged. */
const baseUrlSchema = checkedText((address) => {
  const url = URL.parse(address);
  if (url === null) return 'must be a URL, such as https://reports.example.com';
  if (url.username !== '' || url.password !== '')
    return 'must not contain a user or password; the API key has its own setting';
  if (url.search !== '' || url.hash !== '') return 'must not contain a query or fragment';
  if (url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname))) return undefined;
  return 'must be https (http only to 127.0.0.1, [::1] or localhost): otherwise the API key would be sent unencrypted';
});

const serviceFields = {
  baseUrl: field('The address of the service: https, or http to the loopback interface.', baseUrlSchema, {
    example: 'https://reports.example.com',
  }),
  vendor: field(
    "The vendor's part of the header names `X-…-API-KEY` and `X-…-CURSOR`.",
    z._default(
      text(/^[A-Za-z0-9]+(-[A-Za-z0-9]+)*$/, 'must be letters, digits and single hyphens, as in the header names'),
      'SERVICE',
    ),
    { example: 'ACME' },
  ),
  cursorIn: field(
    'Where a request carries the cursor.',
    z._default(z.enum(['query', 'body'], 'must be query or body'), 'query'),
  ),
  compression: field(
    'Whether responses may be compressed with gzip. With false, a compressed page is a ContractError.',
    z._default(flag(), true),
    { page: 'service-contract.md#23-export-response' },
  ),
  connectTimeout: field('The time to connect, at most P1D.', timeout('PT10S')),
  headersTimeout: field('The time from the request to the response headers, at most P1D.', timeout('PT1M')),
  bodyTimeout: field('The time between two parts of the body, at most P1D.', timeout('PT30S')),
  totalTimeout: field('The time for a whole request, at most P1D.', timeout('PT4M')),
  maxPageBytes: field('The maximum size of a page.', count(256 * mebibyte), { unit: 'bytes' }),
  maxConcurrentPages: optionalField(
    'How many pages are requested at the same time, over all exports of the service. Without it, there is no limit.',
    positiveInteger.check(z.maximum(100, 'must be at most 100')),
    { unit: 'pages', page: 'many-exports.md#politeness' },
  ),
  filterUntil: optionalField(
    'The condition of the filter that excludes reports from a date on, if the service has one. Slices, a lag and bounded runs need it. It must exclude the date itself.',
    z.string().check(
      z.regex(/^date\.[A-Za-z][A-Za-z0-9_]{0,39}$/, 'must be a condition on the date, such as date.lt'),
      z.refine((name) => name !== 'date.gte' && name !== 'date.gt', 'must be an upper bound, such as date.lt'),
      z.refine((name) => name !== 'date.lte', 'must exclude the date itself, such as date.lt: slices must not overlap'),
    ),
    { example: 'date.lt', page: 'parallel-and-past.md#requirements' },
  ),
  rootElement: optionalField(
    'The name of the root element of every page, for XML: `reports`, or `{namespace}reports`, without a prefix. A document with another one is a ContractError. Without it, that of earlier pages and runs.',
    text(
      /^(\{[^{}\s]{1,1000}\})?(?![-.0-9])[^{}\s<>&'"/=]{1,1000}$/,
      'must be the name of an element, such as reports, or {namespace}reports',
    ),
    { example: 'reports', page: 'runbook.md#contracterror' },
  ),
  api: optionalField(
    'The description of an API that is not the Report Export Service. `vendor`, `cursorIn` and `filterUntil` then have no meaning. Without it, the contract of the Report Export Service.',
    apiSchema,
    { page: 'apis.md' },
  ),
  ...networkFields,
};
/** Where the service is, and the limits of its client. */
export const serviceSettingsSchema = z.strictObject(serviceFields, {
  error: orExample('{"baseUrl": "https://reports.example.com"}'),
});
export type ServiceSettings = z.infer<typeof serviceSettingsSchema>;

/** Each run sets the lower bound of the date. */
const filterSchema = jsonObject(({ date }) => {
  if (date === undefined) return [];
  if (typeof date !== 'object' || date === null || Array.isArray(date)) {
    return [{ path: ['date'], message: 'must be an object of date conditions' }];
  }
  return 'gte' in date
    ? [{ path: ['date', 'gte'], message: 'is set by each run; use since to choose where a run starts' }]
    : [];
});

const lag = optionalField(
  'How long after its date a report may still appear: a run ends so long before it begins. It needs an upper bound of requests. Without it, none: a run has no upper bound.',
  durationSchema,
  { example: 'PT2H', page: 'parallel-and-past.md#late-reports' },
);
const sinceSchema = oneFormOf(
  [
    z.strictObject({
      initial: optionalField('Where the first run starts. Without it, with the oldest report.', instantSchema, {
        example: '2026-11-01T00:00:00Z',
      }),
      overlap: optionalField('How far a run starts before the watermark. Without it, `PT0S`.', durationSchema, {
        example: 'PT1H',
      }),
      lag,
    }),
    z
      .strictObject({
        lookbackWindow: field(
          'Instead of `initial` and `overlap`: how far before its scheduled time each run starts, or at the watermark, if that is earlier.',
          durationSchema.check(z.refine((ms) => ms > 0, 'must be longer than zero')),
          { example: 'P2D' },
        ),
        lag,
      })
      .check(
        z.refine(({ lookbackWindow, lag = 0 }) => typeof lookbackWindow !== 'number' || lookbackWindow > lag, {
          path: ['lookbackWindow'],
          error: 'must be longer than the lag: otherwise a run ends before it starts',
        }),
      ),
  ],
  'must be an object with initial and overlap, or with lookbackWindow, which takes the place of both',
);

const slicesSchema = z.strictObject(
  {
    parallel: field(
      'How many slices of a run are requested at the same time. The newest reports are then requested sooner, so late ones have less time to appear: set `since.lag`, or `since.overlap`.',
      countUpTo(maxParallel, 1),
      {
        unit: 'slices',
        example: 8,
      },
    ),
    length: optionalField(
      'How long a slice is: whole minutes, and whole days if `dates` of `api` is `date`. Without it, each run chooses it.',
      durationSchema.check(z.refine((ms) => ms > 0 && ms % minSliceMs(1) === 0, 'must be whole minutes, such as PT1H')),
      { example: 'PT1H' },
    ),
  },
  { error: orExample('{"parallel": 8}') },
);

const tokenSchema = text(/^[\x21-\x7e]{1,40}$/, 'must be 1 to 40 printable ASCII characters without spaces');

const expectSchema = z.strictObject(
  {
    minReports: optionalField(
      'A run with fewer reports fails before it is published, and the watermark does not move. The next start begins a new run. Without it, there is no check.',
      positiveInteger,
      { unit: 'reports', example: 100 },
    ),
    reportsEvery: optionalField(
      'If no completed run has had reports for so long, `status` says so and the alarm NoReports is raised. Without it, there is no such alarm.',
      durationSchema.check(z.refine((ms) => ms > 0, 'must be longer than zero')),
      { example: 'P2D' },
    ),
  },
  { error: orExample('{"minReports": 1}') },
);

const exportFields = {
  name: field(
    'The name of the export and first part of its keys: 1 to 40 letters, digits, hyphens and underscores. Unique in the file. It cannot be changed later without losing the state of the export.',
    z
      .string()
      .check(
        z.regex(
          /^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$/,
          'must be 1 to 40 letters, digits, hyphens and underscores, beginning with a letter or digit',
        ),
      ),
    { example: 'nightly' },
  ),
  since: field('Where the runs start.', z.prefault(sinceSchema, {})),
  slices: field(
    'How a run is divided into slices by the dates of its reports. Slices need an upper bound of requests: `filterUntil` of the service, or `{until}` in its `api`.',
    z.prefault(slicesSchema, {}),
    { page: 'parallel-and-past.md#slices' },
  ),
  filter: field(
    'Further fields of the filter, in addition to `date.gte`: at most 64 KiB of JSON, nested at most 32 levels deep, with numbers from -9007199254740991 to 9007199254740991.',
    z.prefault(filterSchema, {}).check(z.meta({ type: 'object' })),
    { example: { type: 'daily' }, page: 'service-contract.md#21-export-request' },
  ),
  format: field('The format of the reports. Only XML is validated.', z._default(tokenSchema, 'XML')),
  container: field('The packaging of the reports.', z._default(tokenSchema, 'NONE')),
  size: optionalField(
    "The number of reports per page, at most 10; with `api`, the value of `{size}`. Without it, the service's default, of up to 100; with 10, an export needs up to ten times the requests.",
    wholeNumber(1, 1_000_000),
    { unit: 'reports', example: 10 },
  ),
  publishEmptyRuns: field(
    'Whether a run that finds no reports is published and announced. With false it only moves the watermark.',
    z._default(flag(), true),
  ),
  expect: optionalField(
    'What runs should find, in a format whose reports are counted: XML in NONE, or any but `bytes` with `api`. It does not apply to bounded runs.',
    expectSchema,
    { page: 'alarms.md#expected-reports' },
  ),
  maxPages: optionalField('A run with more pages fails. Without it, there is no limit.', positiveInteger, {
    unit: 'pages',
    example: 100_000,
  }),
  maxEmptyPages: field(
    'A run fails after so many consecutive pages without reports: the end of its API may be described wrongly. Without effect if reports are not counted.',
    count(1_000),
    { unit: 'pages' },
  ),
  // An iteration takes 7 events, and 3 for each of up to 50 failed attempts.
  iterationsPerExecution: field(
    'The number of iterations after which a run continues in a new execution.',
    countUpTo(
      150,
      150,
      'must be at most 150: an execution holds 25,000 events, and an iteration takes up to 157 if attempts fail',
    ),
    { unit: 'iterations' },
  ),
  pagesPerInvocation: field('The maximum number of pages per invocation.', countUpTo(1_000, 1), {
    unit: 'pages',
    page: 'costs.md#pages',
  }),
  maxCursorRestarts: field(
    'How often a run starts over because the service rejected its cursor.',
    z._default(z.int('must be a whole number').check(z.minimum(0, 'must not be negative')), 1),
    { unit: 'restarts' },
  ),
  maxInlineWait: field(
    'The longest Retry-After that the function itself waits for. The state machine waits for longer ones.',
    duration('PT20S'),
  ),
  maxRetryAfter: field(
    'The longest Retry-After that a run waits for, at most P30D. A longer one fails the run.',
    duration('PT6H').check(z.refine((ms) => ms <= 30 * 86_400_000, 'must be at most P30D')),
  ),
  maxConsecutiveWaits: field(
    'The number of waits of the state machine without a page in between. One more fails the run.',
    countUpTo(100, 20),
    { unit: 'waits' },
  ),
};
/** One export: what it requests, where its runs start, and their limits. */
export const exportSettingsSchema = z.strictObject(exportFields, { error: orExample('{"name": "nightly"}') }).check(
  z.refine(({ expect, format, container }) => expect === undefined || (format === 'XML' && container === 'NONE'), {
    path: ['expect'],
    error: 'needs the format XML in NONE: other reports are not counted',
  }),
);
export type ExportSettings = z.infer<typeof exportSettingsSchema>;

/** Whether requests to `service`, which may be invalid, are authenticated: otherwise nothing needs its secret. */
export const needsSecret = (service: unknown): boolean =>
  fieldsOf(fieldsOf(fieldsOf(service).api).auth).kind !== 'none';

/** What the dates of requests to the service can express. */
export const requestDates = ({
  api,
  filterUntil,
}: {
  readonly api?: Pick<Api, 'dates' | 'request'> | undefined;
  readonly filterUntil?: string | undefined;
}): RequestDates => {
  const upperBound = api === undefined ? filterUntil : uses(api, 'until') ? '{until}' : undefined;
  return { unitMs: unitOfDates(api), ...(upperBound === undefined ? {} : { upperBound }) };
};

/** How many names of a path in a service lead to what is missing for the rules below if it is invalid. */
export const depthOfServicePart = ([name, ...inside]: readonly PropertyKey[]): number =>
  name === 'api' ? 1 + depthOfApiPart(inside) : 1;

/** What is wrong with a service and its exports although each of them is valid, by paths in an object with both. */
export function* findMismatches(
  service: Checked<ServiceSettings>,
  exports: readonly Checked<ExportSettings>[],
): Generator<SettingsProblem> {
  const { filterUntil, maxConcurrentPages } = service.valid;
  const api: ValidApi | undefined = service.valid.api;
  const written = fieldsOf(service.written);
  const isDescribed = written.api !== undefined;
  const dates = isDescribed ? api?.request && requestDates({ api: api as Api }) : requestDates({ filterUntil });
  if (isDescribed) {
    yield* within(['service', 'api'], [...findContradictions(api ?? {})]);
    const meaningless = {
      vendor: ' with api: auth and next name the headers',
      cursorIn: ' with api: next.to is where the cursor is sent',
      filterUntil: ' with api: the placeholder {until} is the upper bound',
      ...(api?.page?.format !== undefined &&
        api.page.format !== 'xml' && { rootElement: ` for pages in ${api.page.format}` }),
      ...(!needsSecret(written) && { apiKeySecret: ': api.auth is none', apiKeyEnv: ': api.auth is none' }),
    };
    for (const [name, why] of Object.entries(meaningless)) {
      if (written[name] !== undefined) yield { path: ['service', name], message: `has no meaning${why}` };
    }
  }
  for (const [index, settings] of exports.entries()) {
    yield* within(
      ['exports', index],
      [
        ...(isDescribed ? findApiProblems(api ?? {}, settings) : findContractProblems(filterUntil, settings.valid)),
        ...(dates === undefined ? [] : findSliceProblems(dates, maxConcurrentPages, settings.valid)),
      ],
    );
  }
}

/** What prevents the slices and the lag of an export. */
function* findSliceProblems(
  dates: RequestDates,
  maxConcurrentPages: number | undefined,
  { since, slices: { parallel = 1, length } = { parallel: 1 } }: Partial<ExportSettings>,
): Generator<SettingsProblem> {
  if (dates.upperBound === undefined) {
    const message =
      'needs requests with an upper bound: set filterUntil of the service, or use {since} and {until} in its api.request';
    if ((since?.lag ?? 0) > 0) yield { path: ['since', 'lag'], message };
    if (parallel > 1) yield { path: ['slices', 'parallel'], message };
    if (length !== undefined) yield { path: ['slices', 'length'], message };
  }
  if (maxConcurrentPages !== undefined && parallel > maxConcurrentPages) {
    const message = `must be at most ${maxConcurrentPages}, the maxConcurrentPages of the service: more are never requested at the same time`;
    yield { path: ['slices', 'parallel'], message };
  }
  const message = length === undefined ? undefined : findDateProblem(dates, length);
  if (message !== undefined) yield { path: ['slices', 'length'], message };
}

/** What is wrong with an export of the Report Export Service. */
function* findContractProblems(
  filterUntil: string | undefined,
  { filter, size }: Partial<ExportSettings>,
): Generator<SettingsProblem> {
  if (size !== undefined && size > 10) yield { path: ['size'], message: 'must be 1 to 10, unless the service has api' };
  const operator = filterUntil?.slice('date.'.length) ?? '';
  if (Object.hasOwn(fieldsOf(filter?.date), operator)) {
    const message = `must not be set: it is the filterUntil of the service, which runs set themselves. Start a bounded run with --since and --until`;
    yield { path: ['filter', 'date', operator], message };
  }
}

/** The canonical name of the service at `baseUrl`, the same for every spelling of the URL. Stored with runs and watermarks. */
export function sourceOf(baseUrl: string): string {
  const { origin, pathname } = new URL(baseUrl);
  return `${origin}${pathname.replace(/\/+$/, '')}`;
}

/** Those settings of a service that a definition depends on. */
type DefiningSettings = {
  readonly [Field in 'api' | 'cursorIn' | 'filterUntil' | 'headers' | 'rootElement' | 'vendor']?:
    | ServiceSettings[Field]
    | undefined;
};

/** What a run and its watermark keep of the service's settings: enough to notice that requests have changed. No secret. */
export function apiOfRequest({
  api,
  vendor,
  cursorIn,
  filterUntil,
  headers = {},
}: DefiningSettings): ExportRequest['api'] {
  const sentHeaders = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  if (api === undefined) {
    const selection = { headers: sentHeaders, vendor: vendor?.toLowerCase() };
    // The reports since a watermark do not depend on how runs end.
    return { sha256: checksumOf({ ...selection, cursorIn, filterUntil }), requestSha256: checksumOf(selection) };
  }
  const { request, dates, auth, next, page } = api;
  const selection = { headers: sentHeaders, request, dates, auth };
  return {
    pagination: `${next.from} ${isUrl(api) ? 'url' : 'cursor'}`,
    sha256: checksumOf({ ...selection, next, page }),
    requestSha256: checksumOf(selection),
  };
}

/** The definition that the steps use. `source` is `sourceOf` the service's base URL, or `simulator`; `compression` that of the store. */
export function exportDefinition(
  settings: ExportSettings,
  source: string,
  service: DefiningSettings = {},
  compression?: ExportDefinition['compression'],
): ExportDefinition {
  const { since, slices } = settings;
  const { rootElement, api } = service;
  const columns = api?.page.format === 'csv' ? api.page.columns : undefined;
  return {
    name: settings.name,
    stateName: settings.name,
    request: {
      source,
      filter: settings.filter,
      format: api === undefined ? settings.format : formatOf(api),
      container: settings.container,
      ...(settings.size === undefined ? {} : { size: settings.size }),
      api: apiOfRequest(service),
    },
    dates: requestDates(service),
    since:
      'lookbackWindow' in since
        ? { from: 'lookback', lookbackMs: since.lookbackWindow }
        : { from: 'watermark', initial: since.initial, overlapMs: since.overlap ?? 0 },
    lagMs: since.lag ?? 0,
    slicing: { parallel: slices.parallel, ...(slices.length === undefined ? {} : { lengthMs: slices.length }) },
    publishEmptyRuns: settings.publishEmptyRuns,
    expect: settings.expect && { minReports: settings.expect.minReports, reportsEveryMs: settings.expect.reportsEvery },
    documentRoot:
      columns !== undefined
        ? rootOfColumns(columns)
        : rootElement === undefined
          ? undefined
          : asDocumentRoot(rootElement),
    compression,
    limits: {
      maxPages: settings.maxPages,
      maxEmptyPages: settings.maxEmptyPages,
      iterationsPerExecution: settings.iterationsPerExecution,
      pagesPerInvocation: settings.pagesPerInvocation,
      maxCursorRestarts: settings.maxCursorRestarts,
      maxInlineWaitSeconds: settings.maxInlineWait / 1_000,
      maxRetryAfterSeconds: settings.maxRetryAfter / 1_000,
      maxConsecutiveWaits: settings.maxConsecutiveWaits,
    },
  };
}
