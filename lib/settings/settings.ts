/**
 * The settings of a service and of its exports. The command line and the deployment use the same schemas, which report
 * every problem at once, each with its path.
 */

import * as z from 'zod/mini';
import { findDateProblem } from '../core/bounded-runs.ts';
import { asDocumentRoot, rootOfColumns } from '../core/document-root.ts';
import type { ExportDefinition, ExportRequest, ReportsAt } from '../core/model.ts';
import { longestStepMs, maxParallel } from '../core/slices.ts';
import type { RateLimit } from '../core/slots/request-rate.ts';
import { checksumOf } from '../core/storage/stored-records.ts';
import { durationSchema, instantSchema } from '../core/timestamps.ts';
import { orExample } from '../core/validation-errors.ts';
import {
  checkedText,
  field,
  fieldsOf,
  findBroken,
  flag,
  httpsUrl,
  jsonObject,
  object,
  optionalField,
  type Rule,
  type SettingsProblem,
  text,
  variableName,
  wholeNumber,
  withoutProblems,
} from '../core/schema/fields.ts';
import { type Auth, findAuthProblems, needsSecret, sendOf, tokenUrlOf } from '../service/api/auth/kinds.ts';
import { sendSchema } from '../service/api/auth/send.ts';
import {
  type Description,
  exportApiSchema,
  hasSince,
  requestDates,
  selectingRequests,
  serviceApiSchema,
} from '../service/api/description.ts';
import { pollTimesOf } from '../service/api/job.ts';
import { kindOf, provedBy } from '../service/api/next/kinds.ts';
import { placeOf, type WithTarget } from '../service/api/next/target.ts';
import { countsReports, formatOf, reportsIn } from '../service/api/page.ts';
import { uses } from '../service/api/request.ts';
import { networkFields, secretIdPattern, secretIdProblem } from './network-settings.ts';
import { goneAtMostPercent, type GivenParents, parentsOf, parentsSchema, selectionOfParents } from './parents.ts';
import { scheduleSettingsSchema } from './schedule-settings.ts';

const mebibyte = 1024 * 1024;

const longerThanZero = durationSchema.check(z.refine((ms) => ms > 0, 'must be longer than zero'));
const timeout = (defaultValue: string) =>
  // Timers of Node.js hold at most 24 days, and fire at once if it is more.
  z.prefault(longerThanZero.check(z.refine((ms) => ms <= 86_400_000, 'must be at most P1D')), defaultValue);
const positiveInteger = z.int('must be a whole number').check(z.minimum(1, 'must be at least 1'));
const countUpTo = (max: number, defaultValue: number) => z._default(wholeNumber(1, max), defaultValue);

export const defaultApiKeyEnv = 'REPORT_EXPORT_API_KEY';

/** CDK looks constructs up in a plain object, so a name such as `constructor` would be found there. */
export const isNotReserved = z.refine<string>((name) => !(name in {}), 'is reserved by CDK');

const rateSchema = object(
  {
    requests: field('The most requests in a period.', wholeNumber(1, 1_000_000), {
      unit: 'requests',
      example: 100,
    }),
    per: field(
      'The length of a period, from PT1S to P1D.',
      durationSchema.check(z.refine((ms) => ms >= 1_000 && ms <= 86_400_000, 'must be from PT1S to P1D')),
      { example: 'PT1M' },
    ),
    burst: field(
      'How many requests may be sent at once, no more than `requests`. The others are spread evenly over the period.',
      countUpTo(1_000, 1),
      { unit: 'requests', example: 10 },
    ),
  },
  { error: orExample('{"requests": 100, "per": "PT1M"}') },
).check(
  withoutProblems(({ requests, burst }) =>
    findBroken([[['burst'], burst > requests, 'must not be more than requests']]),
  ),
);

const serviceFields = {
  baseUrl: field(
    'The address: https, or http to the loopback interface.',
    checkedText((address) => httpsUrl(address, 'https://reports.example.com', ['search', 'hash'])),
    {
      example: 'https://reports.example.com',
    },
  ),
  vendor: optionalField(
    "The vendor's part of the header names `X-…-API-KEY` and `X-…-CURSOR`. Without it, `SERVICE`.",
    text(/^[A-Za-z0-9]+(-[A-Za-z0-9]+)*$/, 'must be letters, digits and single hyphens, as in the header names'),
    { example: 'ACME' },
  ),
  send: optionalField(
    'The headers with the secret: `{secret}`, or a field of its JSON, `{secret.apiKey}`. Without it, the header of `vendor` with `{secret}`.',
    sendSchema,
    { example: { 'X-ACME-API-KEY': '{secret.apiKey}', 'X-Gateway-Key': '{secret.gateway}' } },
  ),
  cursorIn: optionalField(
    'Where a request carries the cursor. Without it, `query`.',
    z.enum(['query', 'body'], 'must be query or body'),
  ),
  compression: field(
    'Whether responses may be in gzip. With false, a compressed page is refused.',
    z._default(flag(), true),
    { page: 'service-contract.md#23-export-response' },
  ),
  connectTimeout: field('The time to connect, at most P1D.', timeout('PT10S')),
  headersTimeout: field('The time from the request to the response headers, at most P1D.', timeout('PT1M')),
  bodyTimeout: field('The time between two parts of the body, at most P1D.', timeout('PT30S')),
  totalTimeout: field('The time for a whole request, at most P1D.', timeout('PT4M')),
  maxPageBytes: field('The maximum size of a page.', z._default(positiveInteger, 256 * mebibyte), { unit: 'bytes' }),
  maxConcurrentPages: optionalField(
    'How many of its pages are requested at the same time; on this machine, by each process. Without it, there is no limit.',
    wholeNumber(1, 100),
    { unit: 'pages', page: 'aws.md#politeness' },
  ),
  rate: optionalField(
    'The most requests in a period, over all exports; on this machine, of each directory. Without it, there is no limit.',
    rateSchema,
    { page: 'aws.md#politeness' },
  ),
  filterUntil: optionalField(
    'The condition of the filter that excludes a date and later ones. Slices, a lag and bounded runs need it.',
    z.string().check(
      z.regex(/^date\.[A-Za-z][A-Za-z0-9_]{0,39}$/, 'must be a condition on the date, such as date.lt'),
      z.refine((name) => name !== 'date.gte' && name !== 'date.gt', 'must be an upper bound, such as date.lt'),
      z.refine((name) => name !== 'date.lte', 'must exclude the date itself, such as date.lt: slices must not overlap'),
    ),
    { example: 'date.lt', page: 'parallel-and-past.md#requirements' },
  ),
  rootElement: optionalField(
    'The root element of every page, for XML: `reports`, or `{namespace}reports`, without a prefix. Without it, that of earlier pages and runs.',
    text(
      /^(\{[^{}\s]{1,1000}\})?(?![-.0-9])[^{}\s<>&'"/=]{1,1000}$/,
      'must be the name of an element, such as reports, or {namespace}reports',
    ),
    { example: 'reports', page: 'runbook.md#contracterror' },
  ),
  api: optionalField(
    'The description of another API: what its exports have in common. Without it, the contract of the Report Export Service.',
    serviceApiSchema,
    { page: 'apis.md' },
  ),
  ...networkFields,
  apiKeySecret: optionalField(
    'The secret on AWS that `send` or `api.auth` needs.',
    object({
      existing: optionalField(
        'The name or complete ARN of an existing secret. Without it, one is created.',
        text(secretIdPattern, secretIdProblem),
        { example: 'acme/api-key' },
      ),
    }),
  ),
  apiKeyEnv: optionalField(
    'The environment variable with the secret, for runs on this machine. Without it, `REPORT_EXPORT_API_KEY`.',
    variableName('key'),
    { example: 'ACME_API_KEY' },
  ),
  memoryMebibytes: field(
    'The memory of ExportPage. CPU is in proportion to it.',
    z._default(wholeNumber(512, 10_240), 512),
    { unit: 'MiB', example: 1024 },
  ),
};
/** Where the service is, and the limits of its client. */
export const serviceSettingsSchema = object(serviceFields, {
  error: orExample('{"baseUrl": "https://reports.example.com"}'),
});
export type GivenService = z.infer<typeof serviceSettingsSchema>;
/** What the exports of a service have in common. The description of the API is that of each export. */
export type ServiceSettings = Omit<GivenService, 'api'> & { readonly auth: Auth };

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
  'How long after its date a report may still appear: a run ends so long before it begins. Without it, a run has no upper bound.',
  durationSchema,
  { example: 'PT2H', page: 'parallel-and-past.md#late-reports' },
);
const sinceSchema = object(
  {
    initial: optionalField('Where the first run starts. Without it, with the oldest report.', instantSchema, {
      example: '2026-11-01T00:00:00Z',
    }),
    overlap: optionalField('How far a run starts before the watermark. Without it, `PT0S`.', durationSchema, {
      example: 'PT1H',
    }),
    lookbackWindow: optionalField(
      'In place of `initial` and `overlap`: how far before its scheduled time a run starts, or at the watermark, if that is earlier. Without it, runs start at the watermark.',
      longerThanZero,
      { example: 'P2D' },
    ),
    lag,
  },
  { error: orExample('{"initial": "2026-11-01T00:00:00Z"}') },
);

const slicesSchema = object(
  {
    parallel: field('How many slices of a run are requested at the same time.', countUpTo(maxParallel, 1), {
      unit: 'slices',
      example: 8,
    }),
    length: optionalField(
      'How long a slice is: whole minutes; whole days if the `dates` of the API have no time, or a `zone`. Without it, each run chooses it.',
      durationSchema.check(z.refine((ms) => ms > 0 && ms % 60_000 === 0, 'must be whole minutes, such as PT1H')),
      { example: 'PT1H' },
    ),
  },
  { error: orExample('{"parallel": 8}') },
);

const tokenSchema = text(/^[\x21-\x7e]{1,40}$/, 'must be 1 to 40 printable ASCII characters without spaces');

const expectSchema = object(
  {
    minReports: optionalField(
      'A run with fewer reports fails before it is published. Without it, there is no check.',
      positiveInteger,
      { unit: 'reports', example: 100 },
    ),
    reportsEvery: optionalField(
      'How long completed runs may have no reports before the alarm NoReports. Without it, for ever.',
      longerThanZero,
      { example: 'P2D' },
    ),
  },
  { error: orExample('{"minReports": 1}') },
);

const exportFields = {
  name: field(
    '1 to 40 letters, digits, hyphens and underscores. With another name, the export begins from the start.',
    z
      .string()
      .check(
        z.regex(
          /^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$/,
          'must be 1 to 40 letters, digits, hyphens and underscores, beginning with a letter or digit',
        ),
        isNotReserved,
      ),
    { example: 'nightly' },
  ),
  since: field('Where the runs start.', z.prefault(sinceSchema, {})),
  slices: field(
    'How a run is cut by the dates of its reports. Needs `filterUntil` of the service, or `{until}` in its `api`.',
    z.prefault(slicesSchema, {}),
    { page: 'parallel-and-past.md#slices' },
  ),
  parents: optionalField(
    'Parents of the reports, each with requests of its own that have `{parent}`: values, or the reports of another export.',
    parentsSchema,
    { page: 'apis.md#parents' },
  ),
  filter: field(
    'Further fields of the filter beside `date.gte`: at most 64 KiB of JSON and 32 levels.',
    z.prefault(filterSchema, {}).check(z.meta({ type: 'object' })),
    { example: { type: 'daily' }, page: 'service-contract.md#21-export-request' },
  ),
  format: optionalField('The format of the reports. Only XML is validated. Without it, `XML`.', tokenSchema),
  container: optionalField('The packaging of the reports. Without it, `NONE`.', tokenSchema),
  size: optionalField(
    "Reports per page, at most 10; with `api`, the value of `{size}`. Without it, the service's default.",
    wholeNumber(1, 1_000_000),
    { unit: 'reports', example: 10 },
  ),
  publishEmptyRuns: field(
    'Whether a run without reports is published. With false, it only moves the watermark.',
    z._default(flag(), true),
  ),
  expect: optionalField('What runs should find, except bounded ones. Reports must be counted.', expectSchema, {
    page: 'aws.md#expected-reports',
  }),
  maxPages: optionalField('A run with more pages fails. Without it, there is no limit.', positiveInteger, {
    unit: 'pages',
    example: 100_000,
  }),
  maxEmptyPages: field(
    'A run fails after so many pages without reports in a row.',
    z._default(positiveInteger, 1_000),
    { unit: 'pages' },
  ),
  // An execution holds 25,000 events. An iteration takes 7, and 3 for each of up to 50 failed attempts.
  iterationsPerExecution: field('How many iterations an execution has.', countUpTo(150, 150), { unit: 'iterations' }),
  pagesPerInvocation: field('How many pages an invocation exports at most.', countUpTo(1_000, 1), {
    unit: 'pages',
    page: 'costs.md#pages',
  }),
  maxCursorRestarts: field(
    'How often a run starts over, as its cursor was rejected, counted pages do not add up, or two passes differ.',
    z._default(z.int('must be a whole number').check(z.minimum(0, 'must not be negative')), 1),
    { unit: 'restarts' },
  ),
  maxRetryAfter: field(
    'The longest Retry-After that a run waits for, at most P30D.',
    z.prefault(durationSchema.check(z.refine((ms) => ms <= 30 * 86_400_000, 'must be at most P30D')), 'PT6H'),
  ),
  maxConsecutiveWaits: field('A run fails after more waits than this without a page in between.', countUpTo(100, 20), {
    unit: 'waits',
  }),
  schedule: optionalField('When runs start on AWS. Without it, they are started manually.', scheduleSettingsSchema),
  service: optionalField('The name of its service. Without it, the only service.', z.string(), { example: 'acme' }),
  api: optionalField('What differs from the `api` of the service. `null` removes a part.', exportApiSchema, {
    page: 'apis.md',
  }),
};
/** One export: what it requests, where its runs start, and their limits. */
export const exportSettingsSchema = object(exportFields, { error: orExample('{"name": "nightly"}') });
export type GivenExport = z.infer<typeof exportSettingsSchema>;
/** With the complete description of its API, and what its parents need of that of another export. */
export type ExportSettings = Omit<GivenExport, 'api' | 'service' | 'parents'> & {
  readonly api: Description;
  readonly parents?: GivenParents | undefined;
};

/** The problems of a service whose fields are valid by themselves. */
export function findServiceProblems(service: GivenService, auth: Auth): readonly SettingsProblem[] {
  const isDescribed = service.api !== undefined;
  const format = service.api?.page?.format;
  const isUnused = (name: keyof typeof service, isBroken: boolean, why: string): Rule => [
    [name],
    isBroken && service[name] !== undefined,
    `has no meaning${why}`,
  ];
  return findBroken([
    isUnused('vendor', isDescribed, ' with api: auth and next name the headers'),
    isUnused('send', isDescribed, ' with api: set send of api.auth'),
    isUnused('cursorIn', isDescribed, ' with api: next.to is where the cursor is sent'),
    isUnused('filterUntil', isDescribed, ' with api: the placeholder {until} is the upper bound'),
    isUnused('rootElement', typeof format === 'string' && format !== 'xml', ` for pages in ${format}`),
    isUnused('apiKeySecret', !needsSecret({ auth }), ': api.auth is none'),
    isUnused('apiKeyEnv', !needsSecret({ auth }), ': api.auth is none'),
    ...rulesOfHeaders(service, auth),
    ...(isDescribed ? [] : findAuthProblems(auth)).map(({ path, message }): Rule => [path, true, message]),
  ]);
}

/** Headers that requests have of `auth`, and of a login at the service. In another spelling, both would be sent. */
function rulesOfHeaders({ headers = {}, api }: GivenService, auth: Auth): readonly Rule[] {
  const ofLogin = 'headers' in auth && tokenUrlOf(auth) === undefined ? auth.headers : {};
  const place = api === undefined ? '' : 'api.auth.';
  const own = Object.entries({ send: sendOf(auth), headers: ofLogin }).flatMap(([field, each = {}]) =>
    Object.keys(each).map((name) => ({ name, problem: `must not be set: ${place}${field} has ${name}, too` })),
  );
  return Object.keys(headers).flatMap((header) =>
    own
      .filter(({ name }) => name.toLowerCase() === header.toLowerCase())
      .map(({ problem }): Rule => [['headers', header], true, problem]),
  );
}

/** The problems of the description of an export beside the settings of its service. */
export function findHeaderProblems(
  { headers = {} }: Pick<GivenService, 'headers'>,
  { auth, next, request }: Description,
): readonly SettingsProblem[] {
  const names = [...Object.keys(sendOf(auth)), ...Object.keys(headers)].map((name) => name.toLowerCase());
  const { header } = placeOf(next as WithTarget);
  const isSent = (name: string) => names.includes(name.toLowerCase());
  const other = 'must be another header: auth or headers of the service send this one';
  return findBroken([
    [['next', 'to', 'header'], header !== undefined && isSent(header), other],
    ...Object.keys(request.headers ?? {}).map((name): Rule => [['request', 'headers', name], isSent(name), other]),
  ]);
}

/** The problems of an export whose fields are valid by themselves. */
export const findExportProblems = (
  service: GivenService,
  settings: GivenExport,
  api: Description,
): readonly SettingsProblem[] => [
  ...(service.api === undefined
    ? findContractProblems(service, settings)
    : findApiProblems(api, settings, service.api.request ?? undefined)),
  ...findSinceProblems(settings),
  ...findParallelProblems(service, settings),
  ...findSliceProblems(settings, api),
];

const findSinceProblems = ({ since: { lookbackWindow, initial, overlap } }: GivenExport) =>
  findBroken([
    [
      ['since', 'lookbackWindow'],
      lookbackWindow !== undefined && (initial ?? overlap) !== undefined,
      'takes the place of initial and overlap: set only one of them',
    ],
  ]);

const findParallelProblems = (
  { maxConcurrentPages = maxParallel }: GivenService,
  { slices: { parallel } }: GivenExport,
): readonly SettingsProblem[] =>
  findBroken([
    [
      ['slices', 'parallel'],
      parallel > maxConcurrentPages,
      `must be at most ${maxConcurrentPages}, the maxConcurrentPages of the service: more are never requested at the same time`,
    ],
  ]);

/** Whether the total of counted pages proves them. */
const hasTotal = ({ next }: Pick<Description, 'next'>): boolean =>
  kindOf(next).sends === 'count' && provedBy(next) === undefined;

/** What prevents the slices and the lag of an export. */
function findSliceProblems(
  { since: { lag = 0, lookbackWindow }, slices: { parallel: atOnce, length }, parents }: GivenExport,
  api: Description,
): readonly SettingsProblem[] {
  // Parents need no bounds to be requested at the same time.
  const parallel = parents === undefined ? atOnce : 1;
  const dates = requestDates(api);
  const isUnbounded = dates.upperBound === undefined;
  const unbounded =
    'needs requests with an upper bound: set filterUntil of the service, or use {since} and {until} in its api.request';
  const withoutZone =
    'needs dates.zone in the api: it is not known in which time zone the API reads dates, so that reports would be in two slices';
  const ofLength = length === undefined ? undefined : findDateProblem(dates, length);
  const step = longestStepMs(dates);
  const isTooShort = lookbackWindow !== undefined && lag > 0 && lookbackWindow < lag + step;
  const distance =
    step === 60_000 ? 'a minute' : step === 86_400_000 ? 'a day' : `${Math.ceil(step / 3_600_000)} hours`;
  return findBroken([
    [['since', 'lag'], isUnbounded && lag > 0, unbounded],
    [
      ['since', 'lag'],
      lag === 0 && hasTotal(api),
      `is required with next.from: ${api.next.from}. Set how long after its date a report may still appear or change, for example PT1H`,
    ],
    [
      ['since', 'lookbackWindow'],
      isTooShort,
      `must be longer than the lag by at least ${distance}: the end of a run is rounded down so far, so a shorter one may end before it starts`,
    ],
    [['slices', 'parallel'], isUnbounded && parallel > 1, unbounded],
    [['slices', 'length'], isUnbounded && length !== undefined, unbounded],
    [['slices'], dates.zone === undefined && (parallel > 1 || length !== undefined), withoutZone],
    [['slices', 'length'], ofLength !== undefined, ofLength ?? ''],
  ]);
}

/** The problems of an export of the Report Export Service. */
function findContractProblems(
  { filterUntil }: GivenService,
  { filter, size = 1, expect, format = 'XML', container = 'NONE', api }: GivenExport,
): readonly SettingsProblem[] {
  const operator = filterUntil?.slice('date.'.length) ?? '';
  const isCounted = format === 'XML' && container === 'NONE';
  return findBroken([
    [['api'], api !== undefined, 'needs api in its service, with what its exports have in common, and auth'],
    [['size'], size > 10, 'must be 1 to 10, unless the service has api'],
    [['expect'], expect !== undefined && !isCounted, 'needs the format XML in NONE: other reports are not counted'],
    [
      ['filter', 'date', operator],
      Object.hasOwn(fieldsOf(filter.date), operator),
      'must not be set: it is the filterUntil of the service, which runs set themselves. Start a bounded run with --since and --until',
    ],
  ]);
}

/** The problems of an export of a service with this description. */
function findApiProblems(
  api: Description,
  { filter, size, since, expect, format, container }: GivenExport,
  ofService: NonNullable<GivenService['api']>['request'],
): readonly SettingsProblem[] {
  const { page, next, dates } = api;
  const further = 'request' in next && next.request !== undefined ? next.request : {};
  const requests = [...selectingRequests(api), further];
  const isUsed = (...names: readonly string[]) => names.some((name) => requests.some((each) => uses(each, name)));
  const unused = (name: string) => {
    const given = Object.entries(ofService ?? {}).filter(([, value]) => value !== null);
    const field = given.find(([key, value]) => uses({ [key]: value }, name))?.[0];
    const replaced = `. ${field} of the service has it, but ${field} of the export replaces that as a whole`;
    return `has no effect: api.request has no placeholder {${name}}${field === undefined ? '' : replaced}`;
  };
  const isFromOldest = since.initial === undefined && since.lookbackWindow === undefined;
  const ofPage = 'has no meaning for a service with api: api.page.format is the format of its pages';
  return findBroken([
    ...Object.keys(filter).map((name): Rule => [
      ['filter', name],
      !isUsed('filter', `filter.${name}`),
      unused(`filter.${name}`),
    ]),
    [['size'], size !== undefined && !isUsed('size'), unused('size')],
    [
      ['since', 'initial'],
      isFromOldest && (dates === 'epoch' || dates === 'epoch-ms') && isUsed('since-1'),
      `is required with {since-1} and dates in ${JSON.stringify(dates)}: the first run would send -1. Set where it starts, for example 2020-01-01T00:00:00Z`,
    ],
    [
      ['expect'],
      expect !== undefined && !countsReports(page),
      'needs a format whose reports are counted, not zip or bytes',
    ],
    [['format'], format !== undefined, ofPage],
    [['container'], container !== undefined, ofPage],
  ]);
}

/** The rate of a service; undefined if it has none. */
export const rateLimitOf = ({ rate }: Pick<ServiceSettings, 'rate'>): RateLimit | undefined =>
  rate && { requests: rate.requests, perMs: rate.per, burst: rate.burst };

/** The canonical name of the service at `baseUrl`, for every spelling of it. Stored with runs and watermarks. */
export function sourceOf(baseUrl: string): string {
  const { origin, pathname } = new URL(baseUrl);
  return `${origin}${pathname.replace(/\/+$/, '')}`;
}

/**
 * The part of the description that a run and its watermark keep: enough to notice that requests have changed. No
 * secret. How a response is read is not in it: once that is corrected, the run continues.
 */
export function apiOfRequest(
  api: Description,
  headers: ServiceSettings['headers'] = {},
  parents?: GivenParents,
): ExportRequest['api'] {
  const { request, dates, auth, job, next, page, filterUntil, pagination } = api;
  const selecting = { request, dates, auth: withLowerCaseHeader(auth), create: job?.create };
  const selection = { headers: withLowerCaseNames(headers), ...selecting };
  const { format } = page;
  const single = 'single' in page ? page.single : undefined;
  const listed = parents?.values && selectionOfParents(parents);
  const result = job?.result && { request: job.result.request, at: job.result.at };
  const pages = { next, page: { format, reports: reportsIn(page), single }, filterUntil, result };
  return {
    ...(pagination !== undefined && { pagination, ...(!hasSince(api) && { full: true as const }) }),
    // The reports since a watermark do not depend on how runs end.
    sha256: checksumOf({ ...selection, ...pages, parents: parents && selectionOfParents(parents) }),
    // The watermark is not that of a value which is added.
    requestSha256: checksumOf({ ...selection, parents: hasSince(api) ? listed : undefined }),
  };
}

const withLowerCaseNames = (headers: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
const withLowerCaseHeader = (auth: Auth): Auth =>
  'send' in auth && auth.send !== undefined ? { ...auth, send: withLowerCaseNames(auth.send) } : auth;

function reportsAtOf({ page }: Description): ReportsAt {
  switch (page.format) {
    case 'xml':
      return { kind: 'xml', path: page.reports ?? '/*/*' };
    case 'json':
      return { kind: 'json', list: page.reports.slice(0, -'/*'.length) };
    case 'ndjson':
      return { kind: 'ndjson' };
    case 'csv':
      return { kind: 'csv', header: page.reports === undefined };
    case 'zip':
    case 'bytes':
      return { kind: 'unknown' };
  }
}

/** The definition that the steps use. `source` is `sourceOf` the base URL, or `simulator`. */
export function exportDefinition(
  settings: ExportSettings,
  source: string,
  service: Partial<ServiceSettings> = {},
  compression?: ExportDefinition['compression'],
): ExportDefinition {
  const { since, slices, api } = settings;
  const { rootElement, headers } = service;
  const columns = api.page.format === 'csv' ? api.page.columns : undefined;
  return {
    name: settings.name,
    stateName: settings.name,
    request: {
      source,
      filter: settings.filter,
      format: settings.format ?? (api.pagination === undefined ? 'XML' : formatOf(api)),
      container: settings.container ?? 'NONE',
      reportsAt: reportsAtOf(api),
      ...(settings.size === undefined ? {} : { size: settings.size }),
      api: apiOfRequest(api, headers, settings.parents),
    },
    dates: requestDates(api),
    since:
      since.lookbackWindow !== undefined
        ? { from: 'lookback', lookbackMs: since.lookbackWindow }
        : { from: 'watermark', initial: since.initial, overlapMs: since.overlap ?? 0 },
    lagMs: since.lag ?? 0,
    slicing: {
      parallel: slices.parallel,
      lengthMs: slices.length,
      maxConcurrentPages: service.maxConcurrentPages,
    },
    parents: parentsOf(settings.parents, api),
    publishEmptyRuns: settings.publishEmptyRuns,
    expect: settings.expect && { minReports: settings.expect.minReports, reportsEveryMs: settings.expect.reportsEvery },
    documentRoot:
      columns !== undefined
        ? rootOfColumns(columns)
        : rootElement === undefined
          ? undefined
          : asDocumentRoot(rootElement),
    provedBy: provedBy(api.next),
    compression,
    job: api.job && { poll: pollTimesOf(api.job) },
    limits: limitsOf(settings),
  };
}

/** A Retry-After of up to so many seconds is waited out by the function itself. */
export const maxInlineWaitSeconds = 20;

const limitsOf = (settings: ExportSettings): ExportDefinition['limits'] => ({
  maxPages: settings.maxPages,
  maxEmptyPages: settings.maxEmptyPages,
  iterationsPerExecution: settings.iterationsPerExecution,
  pagesPerInvocation: settings.pagesPerInvocation,
  // The second pass is no restart.
  maxCursorRestarts: settings.maxCursorRestarts + (provedBy(settings.api.next) === undefined ? 0 : 1),
  maxInlineWaitSeconds,
  maxRetryAfterSeconds: settings.maxRetryAfter / 1_000,
  goneAtMostPercent: settings.parents?.gone?.atMost ?? goneAtMostPercent,
  maxConsecutiveWaits: settings.maxConsecutiveWaits,
});
