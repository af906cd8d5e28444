/**
 * A report job before the first page: a request creates it, polls ask for it, and its result is downloaded in files, or
 * requested in pages like any other list, with `{job}` in the requests. For example, a report of a marketplace:
 *
 *     {
 *       "create": { "path": "/reports", "body": { "reportType": "SALES", "dataStartTime": "{since}" } },
 *       "id": "/reportId",
 *       "poll": { "path": "/reports/{job}", "every": "PT30S" },
 *       "when": {
 *         "waiting": { "at": "/status", "is": ["IN_QUEUE", "IN_PROGRESS"] },
 *         "done": { "at": "/status", "is": "DONE" },
 *         "failed": { "at": "/status", "is": "FATAL" }
 *       },
 *       "result": {
 *         "request": { "path": "/documents/{poll:/documentId}" },
 *         "at": "/url",
 *         "hosts": ["*.s3.amazonaws.com"]
 *       }
 *     }
 *
 * A status that no condition names fails the run: taken for "waiting", it would be polled for hours, and taken for
 * "done", reports would be missing.
 */

import * as z from 'zod/mini';
import {
  checkedText,
  field,
  findBroken,
  object,
  oneTypeOf,
  optionalField,
  type Rule,
  text,
  withoutProblems,
} from '../../core/schema/fields.ts';
import { durationSchema } from '../../core/timestamps.ts';
import { conditionSchema, type ConditionPart, partsOf, valuesOf } from './condition.ts';
import { responseHeaderName } from './header-names.ts';
import { jsonPath, xmlPath } from './paths.ts';
import { type FurtherRequest, jobRequestFields, resultRequestFields, uses } from './request.ts';

const pathProblem = 'must be a path, such as /status or /items/*';
const path = text(/^\/.{0,998}$/, pathProblem);

const idPlace = object({
  at: optionalField('The path of a value in the body.', path, { example: '/detail' }),
  header: optionalField('In place of `at`: the name of a header.', responseHeaderName, { example: 'Content-Location' }),
  after: optionalField(
    'The ID is what follows this text, where it occurs last in the value.',
    z.string().check(z.minLength(1, 'must not be empty'), z.maxLength(100, 'must have at most 100 characters')),
    { example: '/jobs/' },
  ),
  status: optionalField(
    'The status of the response. Without it, any from 200 to 299.',
    z.int('must be a status, such as 425').check(z.minimum(200), z.maximum(499)),
    { example: 425 },
  ),
}).check(
  withoutProblems(({ at, header }) =>
    findBroken([[[], (at === undefined) === (header === undefined), 'must have either at or header']]),
  ),
  z.meta({ id: 'api.job.id' }),
);
const idSchema = oneTypeOf(
  [path, idPlace, z.readonly(z.array(idPlace).check(z.minLength(1, 'must not be empty')))],
  'must be a path, an object with at or header, or a list of these objects',
);
type IdPlace = z.infer<typeof idPlace>;

const method = (none: 'GET' | 'POST') =>
  optionalField(`The method. Without it, \`${none}\`.`, z.enum(['GET', 'POST'], 'must be GET or POST'));

/** A duration as a text: a description is parsed once for its service, and again for each export. */
const duration = (minMs: number, maxMs: number, problem: string) =>
  checkedText((value) => {
    const { data, error } = durationSchema.safeParse(value);
    if (data === undefined) return error?.issues[0]?.message;
    return data < minMs || data > maxMs ? problem : undefined;
  });
const msOf = (value: string | undefined, otherwise: number): number =>
  value === undefined ? otherwise : durationSchema.parse(value);

const createFields = { ...jobRequestFields, method: method('POST'), path: z.nonoptional(jobRequestFields.path) };
const pollFields = {
  ...jobRequestFields,
  path: z.nonoptional(jobRequestFields.path),
  id: optionalField('Where the response that says `done` has another ID for `{job}`.', path, {
    example: '/response/reportResult',
  }),
  every: optionalField(
    'How long to wait between two polls. Without it, `PT30S`.',
    duration(1_000, 3_600_000, 'must be from PT1S to PT1H'),
    { example: 'PT1M' },
  ),
  within: optionalField(
    'How long a job may take before the run fails. Without it, `PT6H`.',
    duration(60_000, 30 * 86_400_000, 'must be from PT1M to P30D'),
    { example: 'P1D' },
  ),
};

export const jobWhenFields = {
  waiting: optionalField('The job is not over. It is polled again.', conditionSchema, {
    example: { at: '/status', is: ['IN_QUEUE', 'IN_PROGRESS'] },
  }),
  failed: optionalField('The job has failed, and so does the run.', conditionSchema, {
    example: { at: '/status', is: 'FATAL' },
  }),
  empty: optionalField('The job is over, and there are no reports.', conditionSchema, {
    example: { at: '/status', is: 'CANCELLED' },
  }),
  done: optionalField('The job is over, and its result can be requested.', conditionSchema, {
    example: { at: '/status', is: 'DONE' },
  }),
};

const hostPattern = /^(\*\.)?([a-z0-9]([a-z0-9-]*[a-z0-9])?)(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*(:\d{1,5})?$/;

const resultFields = {
  request: optionalField(
    'The request after the last poll. With `{item}`, its response is a file of the result; otherwise `at` is in it.',
    object({ ...resultRequestFields, path: z.nonoptional(resultRequestFields.path) }),
    { example: { path: '/documents/{poll:/documentId}' } },
  ),
  at: field('The path of the URL of the file, or of its ID for `{item}`. `*` stands for each item of a list.', path),
  hosts: optionalField(
    'The hosts of the files, which get no credentials. Without it, the origin of `baseUrl`, which gets them.',
    z.readonly(
      z
        .array(text(hostPattern, 'must be a host in lower case, such as files.example.com or *.s3.amazonaws.com'))
        .check(z.minLength(1, 'must not be empty')),
    ),
    { example: ['*.s3.eu-west-1.amazonaws.com'] },
  ),
  compression: optionalField('The files may be in gzip.', z.literal('gzip', 'must be gzip')),
};

export const jobSchema = object({
  create: field('The request that creates the job.', object(createFields)),
  id: field('Where its response has the ID of the job, for `{job}`.', idSchema, {
    example: '/reportId',
  }),
  poll: optionalField(
    'The request that asks for the job. Without it, there is nothing to wait for.',
    object(pollFields),
    { example: { path: '/reports/{job}', every: 'PT30S' } },
  ),
  start: optionalField(
    'The request that starts the job, once it is created.',
    object({
      when: field('What the poll says.', conditionSchema, { example: { at: '/status', is: 'Created' } }),
      request: field('The request that starts the job.', object(createFields)),
    }),
  ),
  when: optionalField('What responses to polls say. Asked in the order of this table.', object(jobWhenFields)),
  result: optionalField(
    'Where the files of the result are, each a page. Without it, the result has pages like any list.',
    object(resultFields),
  ),
}).check(z.meta({ id: 'api.job' }));
export type Job = z.infer<typeof jobSchema>;

const defaultEveryMs = 30_000;
const defaultWithinMs = 6 * 3_600_000;

/** How long to wait between polls, and for how long; undefined: the job is not polled. */
export const pollTimesOf = ({ poll }: Job) =>
  poll && { everyMs: msOf(poll.every, defaultEveryMs), withinMs: msOf(poll.within, defaultWithinMs) };

export const idPlacesOf = ({ id }: Job): readonly IdPlace[] =>
  typeof id === 'string' ? [{ at: id }] : ([id].flat() as readonly IdPlace[]);

/** Whether the result consists of IDs, each of which `result.request` requests. */
export const hasItems = ({ result }: Job): boolean => result?.request !== undefined && uses(result.request, 'item');

/** The parts of the conditions on responses to polls. */
export const partsOfJob = ({ when = {}, start }: Job): readonly ConditionPart[] =>
  [start?.when, ...Object.values(when)].flatMap((each) => partsOf(each));

interface Around {
  readonly job?: Job | undefined;
  readonly request: FurtherRequest;
  readonly next: { readonly from: string; readonly request?: FurtherRequest | undefined };
}

const usesJob = (request: FurtherRequest | undefined): boolean =>
  request !== undefined && (uses(request, 'job') || uses(request, '+job'));

/** Rules of a description whose fields are valid. */
export function jobRules({ job, request, next }: Around): readonly Rule[] {
  const isRequested = usesJob(request) || usesJob(next.request);
  if (job === undefined) return [[['request'], isRequested, 'has {job}, which needs job']];
  const { create, poll, when, result } = job;
  const parts = partsOfJob(job);
  const wrongPath = parts.find(({ at }) => at !== undefined && at !== '' && !jsonPath.test(at) && !xmlPath.test(at));
  return [
    [['job', 'create'], usesJob(create), 'has {job}, which is known only after it'],
    [['job', 'poll'], poll !== undefined && !usesJob(poll), 'must have {job}'],
    [['job', 'when'], (poll === undefined) !== (when === undefined), 'must be there with poll, and not without it'],
    [
      ['job', 'when', 'done'],
      when !== undefined && when.done === undefined,
      'is required: it says when there is a result',
    ],
    [
      ['job', 'start'],
      job.start !== undefined && poll === undefined,
      'needs poll, which says whether the job has started',
    ],
    [['job', 'result'], result !== undefined && poll === undefined, 'needs poll: files are known once the job is over'],
    [['job', 'when'], wrongPath !== undefined, `${wrongPath?.at}: ${pathProblem}`],
    [
      ['job', 'when'],
      parts.some((part) => part.parameter !== undefined || part.reports !== undefined),
      'can ask for at, header and status only: a poll has neither reports nor a next page',
    ],
    [
      ['job', 'when', 'empty'],
      when?.waiting === undefined && partsOf(when?.empty).some((part) => valuesOf(part).includes(null)),
      'needs waiting beside it: a job that is not over has no result, either',
    ],
    [
      ['next'],
      result !== undefined && next.from !== 'none',
      'must be {"from": "none"}: each file of the result is a page',
    ],
    [
      ['job', 'result', 'hosts'],
      result?.hosts !== undefined && hasItems(job),
      'has no meaning with {item}: these requests go to baseUrl',
    ],
    [
      ['request'],
      result === undefined && !isRequested,
      'must have {job}, or job must have result: otherwise the result of the job is never requested',
    ],
  ];
}
