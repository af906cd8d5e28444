/**
 * The description of an API: how a page is requested, where the next page is, and what responses say. For example, an
 * audit log with JSON pages:
 *
 *     {
 *       "request": { "path": "/api/v1/logs", "query": { "since": "{since}", "until": "{until}", "limit": "{size}" } },
 *       "auth": { "kind": "bearer" },
 *       "next": { "from": "body", "at": "/meta/next", "to": { "query": "cursor" } },
 *       "last": { "at": "/meta/has_more", "is": false },
 *       "page": { "format": "json", "reports": "/data/*" },
 *       "when": { "error": { "at": "/error" } }
 *     }
 *
 * A description that cannot be true is refused with the reason: a run could miss reports, or end at an error.
 */

import * as z from 'zod/mini';
import {
  field,
  findBroken,
  object,
  optionalField,
  type Rule,
  type SettingsProblem,
  within,
} from '../../core/schema/fields.ts';
import { authSchema, findAuthProblems, queryOf } from './auth/kinds.ts';
import { conditionSchema } from './condition.ts';
import { datesSchema, unitOfDates } from './dates.ts';
import { type Job, jobRules, jobSchema } from './job.ts';
import { formOfNext, kindOf, nextSchema } from './next/kinds.ts';
import { mediaTypesOf, pageFields, pageRules, pageSchema } from './page.ts';
import { problemOfPath } from './paths.ts';
import { placeOf, type WithTarget } from './next/target.ts';
import {
  type FurtherRequest,
  parametersIn,
  requestFields,
  requestRules,
  requestSchema,
  uses,
  usesBound,
} from './request.ts';
import { conditionRules, pathsOfConditions, whenFields, whenSchema } from './when.ts';

/** A description, with the defaults of a service and what its export changes. */
export const apiSchema = object({
  request: requestSchema,
  dates: z._default(datesSchema, 'iso'),
  auth: authSchema,
  job: z.optional(jobSchema),
  next: nextSchema,
  last: z.optional(conditionSchema),
  page: pageSchema,
  when: z.optional(whenSchema),
});
/** With the defaults of all fields. */
export type Api = z.infer<typeof apiSchema>;

const nullable = <Fields extends Readonly<Record<string, z.ZodMiniType>>>(fields: Fields) =>
  Object.fromEntries(Object.entries(fields).map(([name, schema]) => [name, orNull(schema)])) as {
    [Name in keyof Fields]: z.ZodMiniNullable<Fields[Name]>;
  };

/** The same schema with the same description, or null. */
const orNull = <Schema extends z.ZodMiniType>(schema: Schema) =>
  z.nullable(schema).check(z.meta(z.globalRegistry.get(schema) ?? {}));

/** The fields that a service has for all its exports, and of which each export may change some. */
const sharedFields = {
  request: optionalField(
    'What every request is.',
    object(nullable(requestFields)).check(z.meta({ id: 'api.request' })),
  ),
  dates: z.optional(orNull(datesSchema)),
  job: optionalField('A report job, whose result the pages are.', z.nullable(jobSchema), { page: 'apis.md#jobs' }),
  next: optionalField('Where the next page is, and how it is requested.', z.nullable(nextSchema)),
  last: optionalField(
    'What only the last page says. Without it, the last page has no next page.',
    z.nullable(conditionSchema),
    { example: { at: '/has_more', is: false } },
  ),
  page: optionalField('What a page is.', object(nullable(pageFields)).check(z.meta({ id: 'api.page' }))),
  when: optionalField('What other responses say.', object(nullable(whenFields)).check(z.meta({ id: 'api.when' }))),
};

/** The description of a service. */
const { request, dates, ...others } = sharedFields;
export const serviceApiSchema = object({
  request,
  dates,
  auth: field('How requests are authenticated.', authSchema),
  ...others,
});
/** The description of an export. Fields of `request`, `page` and `when` replace the service's; `null` removes one. */
export const exportApiSchema = object(sharedFields).check(z.meta({ id: 'exports.api' }));
export type ExportApi = z.infer<typeof exportApiSchema>;

/** The description of an export, as requests and responses use it. */
export interface Description extends Api {
  /** Headers of every request that `request.headers` does not set. */
  readonly headers: Readonly<Record<string, string>>;
  /** Where responses have the next page, and what is there, for the manifest. Absent: the Report Export Service. */
  readonly pagination?: string;
  /** The condition that excludes a date and all later ones. Only the Report Export Service has bounds in its filter. */
  readonly filterUntil?: string | undefined;
  /** The settings that messages name. */
  readonly settings: { readonly address: string; readonly fields: string; readonly cursorSettings: string };
}

export function describeApi(api: Api): Description {
  const { page } = api;
  return {
    ...api,
    headers: { accept: mediaTypesOf(page).join(', '), 'cache-control': 'no-cache' },
    pagination: paginationOf(api),
    settings: {
      address: 'baseUrl and api.request.path',
      fields: 'api.request, api.dates and filter',
      cursorSettings: 'next.at and next.to',
    },
  };
}

function paginationOf(api: Api): string {
  const { sends } = kindOf(api.next);
  if (sends !== undefined) return sends === 'count' ? 'counted' : 'none';
  return `${api.next.from} ${formOfNext(api) === 'url' ? 'url' : 'cursor'}`;
}

/** The requests that select the reports: with a job, the one that creates it, too. */
export const selectingRequests = ({ request, job }: Pick<Api, 'request' | 'job'>): readonly FurtherRequest[] =>
  job === undefined ? [request] : [job.create, request];

/** A request about a job, by the field of the description that has it. */
export type JobRequest = 'create' | 'poll' | 'start' | 'result';

/** In place of the request for pages. */
export const requestAbout = ({ create, poll, start, result }: Job, about: JobRequest) =>
  ({
    create: { method: 'POST', ...create },
    poll: { method: 'GET', ...poll },
    start: { method: 'POST', ...start?.request },
    result: { method: 'GET', ...result?.request },
  })[about] as Description['request'];

const hasBound = (api: Pick<Api, 'request' | 'job'>, bound: 'since' | 'until'): boolean =>
  selectingRequests(api).some((each) => usesBound(each, bound));

export const hasSince = (api: Pick<Api, 'request' | 'job'>): boolean => hasBound(api, 'since');

export const requestDates = ({
  dates,
  filterUntil,
  ...requests
}: Pick<Description, 'request' | 'job' | 'dates' | 'filterUntil'>) => ({
  ...unitOfDates(dates),
  upperBound: filterUntil ?? (hasBound(requests, 'until') ? '{until}' : undefined),
});

/** The paths at which the check of a page finds values. */
export const pathsOf = (api: Pick<Api, 'next' | 'page' | 'last' | 'when'>): readonly string[] => [
  ...new Set([
    ...kindOf(api.next)
      .paths(api.next)
      .map(([, value]) => value),
    ...pathsOfConditions(api),
  ]),
];

/** The paths whose objects and lists are cursors, or have parameters of the next request. */
export const pathsOfWhole = (api: Pick<Api, 'next' | 'page'>): readonly string[] =>
  ['json', 'parameters'].includes(formOfNext(api))
    ? kindOf(api.next)
        .paths(api.next)
        .map(([, value]) => value)
    : [];

/** A parameter with a key is in no other place: that value would not be sent. */
function keyRules({ auth, request, next, job }: Api): readonly Rule[] {
  const { to, request: further } = next as WithTarget;
  const requests: readonly (readonly [Rule[0], FurtherRequest | undefined])[] = [
    [['request'], request],
    [['next', 'request'], further],
    [['job', 'create'], job?.create],
    [['job', 'poll'], job?.poll],
    [['job', 'start', 'request'], job?.start?.request],
    [['job', 'result', 'request'], job?.result?.request],
  ];
  return Object.keys(queryOf(auth)).flatMap((name) => {
    const problem = `must not have ${name}, which query of auth sends`;
    const rulesOf = (path: Rule[0], { query = {}, path: template = '' }: FurtherRequest): readonly Rule[] => [
      [[...path, 'query'], Object.hasOwn(query, name), problem],
      [[...path, 'path'], parametersIn(template).some(([each]) => each === name), problem],
    ];
    return [
      ...requests.flatMap(([path, each]) => rulesOf(path, each ?? {})),
      [
        ['next', 'to', 'query'],
        placeOf({ to }).query === name,
        'must be another parameter: query of auth sends this one',
      ],
    ];
  });
}

export function findContradictions(api: Api): readonly SettingsProblem[] {
  const { request, auth, next, page } = api;
  const kind = kindOf(next);
  return [
    ...within(['request'], findBroken(requestRules(request))),
    ...within(['auth'], findAuthProblems(auth)),
    ...within(['page'], findBroken(pageRules(page))),
    ...findBroken([
      [
        ['request'],
        hasBound(api, 'until') && !hasSince(api),
        'must have {since} beside {until}: with an upper bound alone, each part of a period would have all earlier reports',
      ],
      ...kind.paths(next).map(([path, value]): Rule => {
        const message = problemOfPath(value, page.format);
        return [path, message !== undefined, message ?? ''];
      }),
      [
        ['request'],
        selectingRequests(api).some((each) => uses(each, 'until-1')) && unitOfDates(api.dates).unitMs <= 1_000,
        'must not have {until-1} with dates in seconds or less: a report between both would be in no run. Send {until}: a report dated exactly then may come twice, and none is missed',
      ],
      [
        ['request'],
        kind.valueInRequest === undefined && uses(api.request, 'cursor'),
        'must not have {cursor}: the cursor is described in next.to or next.request. Only next.from: count has it here',
      ],
      ...kind.rules(api),
      ...keyRules(api),
      ...conditionRules(api),
      ...jobRules(api),
    ]),
  ];
}
