/**
 * Sends the requests for a job, and reads what their responses say. Polls and everything about results are quoted in
 * messages by the values that conditions name only: their bodies have URLs that give access to the reports.
 */

import type { Instant } from '../../core/model.ts';
import type { Clock, CreatedJob, JobService, PolledJob, ReceivedEnd } from '../../core/ports.ts';
import type { Condition, ConditionPart } from '../api/condition.ts';
import { evaluate, partsOf, statusesOf } from '../api/condition.ts';
import { type Description, type JobRequest, requestAbout } from '../api/description.ts';
import { idPlacesOf, type Job, jobWhenFields, partsOfJob } from '../api/job.ts';
import type { PageFacts } from '../api/next/kind.ts';
import { isSomething } from '../api/response-facts.ts';
import { pathsIn } from '../api/when.ts';
import { readDocument } from '../formats/formats.ts';
import { contractError, type ErrorContext, failure } from './errors.ts';
import type { DescribedRequest } from './request.ts';
import { type BeginningOptions, readBeginning } from './response/excerpt.ts';
import { asContractError, factsOf } from './response/facts.ts';
import { type Reaction, reactionTo, readWait } from './response/reaction.ts';
import { readServiceTime } from './response/response-headers.ts';
import type { Requested } from './response/response-error.ts';
import type { createExchanges } from './exchange.ts';
import type { Described, Send } from './send.ts';

/** A longer response says more than where the files of a result are. */
const maxDocumentBytes = 1024 * 1024;
const maxIdLength = 4_096;

type Options = Parameters<JobService['poll']>[1];

/** A response about a job. */
export interface JobDocument {
  readonly facts: PageFacts;
  readonly context: ErrorContext;
  /** As JSON; undefined: it is none. */
  readonly json: unknown;
  /** When the service responded, less the latency; null: it does not say. */
  readonly serviceTime: Instant | null;
  /** From its Retry-After. */
  readonly retryAfterMs: number | undefined;
  /** Whether it says that the parent no longer exists. */
  readonly isGone: boolean;
}

export interface JobDocuments extends JobService {
  /** Sends the request, and reads its response. @throws the error of a response that says that it has failed */
  readonly ask: (about: JobRequest, request: DescribedRequest, options: Options) => Promise<JobDocument>;
}

export interface DocumentDependencies {
  readonly described: Described;
  readonly job: Job;
  readonly exchanges: ReturnType<typeof createExchanges>;
  readonly send: Send;
  readonly clock: Clock;
  readonly reading: Pick<BeginningOptions, 'createGunzip' | 'sleep'>;
}

export function createJobDocuments(deps: DocumentDependencies): JobDocuments {
  const { job } = deps;
  const ask: JobDocuments['ask'] = (about, request, options) => receiveDocument(deps, about, request, options);

  return {
    ask,

    async create(request, options): Promise<CreatedJob | ReceivedEnd> {
      const { facts, context, serviceTime, isGone } = await ask('create', request, options);
      if (isGone) return { kind: 'end', reason: 'gone', status: facts.status };
      const id = idIn(idPlacesOf(job), facts);
      if (isUsableId(id, facts)) return { kind: 'created', id, serviceTime };
      const found = id === undefined ? 'no ID' : 'an ID that requests cannot have';
      const message = `${context.server.name} responded with ${facts.status} for ${context.label}, with ${found} at api.job.id`;
      throw failure(context, 'ConfigurationError', `${message}. It may have created the job. Correct the description`);
    },

    async poll(request, options): Promise<PolledJob> {
      const document = await ask('poll', request, options);
      const mustStart = job.start !== undefined && evaluate(job.start.when, document.facts).part !== undefined;
      if (!mustStart) return polledJob(job, document);
      await ask('start', request, options);
      return { kind: 'waiting', status: statusIn(partsOfJob(job), document.facts) };
    },
  };
}

async function receiveDocument(
  { described, job, exchanges, send, clock, reading }: DocumentDependencies,
  about: JobRequest,
  request: DescribedRequest,
  { signal }: Options,
): Promise<JobDocument> {
  const own = { ...described, api: apiOfDocuments(described.api, job, about) };
  const isCreate = about === 'create';
  using exchange = exchanges.begin(request.label, signal);
  const { response, reaction, facts: ofHead, excerpt, page, errorOf } = await send(exchange, own, request, { signal });
  const { context } = exchange;
  const assertNoError = (found: Reaction, facts: PageFacts, quoted: string) => {
    const describe = (requested: Requested) => requestedOf(requested, about);
    const error = errorOf(found, facts, { describe, excerpt: isCreate ? quoted : '' });
    if (error === undefined) return;
    // The service says that it has not done what was requested.
    throw found.kind === 'error' && isCreate ? failure(context, 'RequestRejectedError', error.message) : error;
  };
  const common = {
    context,
    serviceTime: readServiceTime(ofHead.header('date'), response.timing.latencyMs),
    retryAfterMs: retryAfterIn(ofHead, clock),
  };
  const isUnknown = reaction.kind === 'status' && !isCreate && [404, 410].includes(response.statusCode);
  const isGone = reaction.kind === 'gone';
  if (isUnknown || isGone) return { ...common, facts: ofHead, json: undefined, isGone };
  assertNoError(reaction, ofHead, excerpt);
  const { bytes, isWhole } = await readBeginning(context, response, { ...reading, limit: maxDocumentBytes });
  if (!isWhole) throw contractError(context, `it is cut off, or has more than ${maxDocumentBytes} bytes`);
  const document = await readDocument(bytes, pathsOf(own.api, job, about));
  const facts = factsOf(context, page, response, document);
  const found = asContractError(context, () => reactionTo(facts, own.api, clock.now));
  assertNoError(found, facts, '');
  return { ...common, facts, json: parseJson(bytes), isGone: found.kind === 'gone' };
}

/** Responses about jobs are documents of their own. Of `when`, what all responses of the service may say counts. */
function apiOfDocuments(api: Description, job: Job, about: JobRequest): Description {
  const { throttled, tokenExpired, error, gone } = api.when ?? {};
  const named = [...partsOfJob(job).flatMap(statusesOf), ...idPlacesOf(job).flatMap(({ status }) => status ?? [])];
  const status = [...new Set([200, 201, 202, 203, 204, ...named])];
  return {
    ...api,
    request: requestAbout(job, about),
    next: { from: 'none' },
    last: undefined,
    when: { throttled, tokenExpired, error, gone },
    page: { format: 'json', reports: '/*', status: status as readonly number[] as (200 | 201 | 203 | 206)[] },
    headers: { ...api.headers, accept: 'application/json' },
  };
}

/** The request in messages. */
const requestedOf = (requested: Requested, about: JobRequest): Requested => ({
  ...requested,
  address: `baseUrl and api.job.${about}`,
  fields: `api.job.${about}`,
  isDescribed: false,
  ...(about !== 'create' && { path: '' }),
});

/** The paths of the values that the response is asked for. One that makes no sense there would hide the others. */
function pathsOf({ when = {} }: Description, job: Job, about: JobRequest): readonly string[] {
  const ofService = pathsIn(Object.values(when).flatMap((each) => partsOf(each as Condition | undefined)));
  const own: Readonly<Record<JobRequest, readonly (string | undefined)[]>> = {
    create: idPlacesOf(job).map(({ at }) => at),
    poll: [...pathsIn(partsOfJob(job)), job.poll?.id],
    start: [],
    result: [],
  };
  return [...new Set([...ofService, ...own[about].filter((path) => path !== undefined)])];
}

function retryAfterIn(facts: PageFacts, { now }: Clock): number | undefined {
  const seconds = readWait(facts.header('retry-after'), facts, now);
  return seconds === undefined ? undefined : Math.min(seconds, 3_600) * 1_000;
}

/** What the response to a poll says. @throws ConfigurationError if no condition holds; ContractError */
export function polledJob(job: Job, { facts, context, json, retryAfterMs }: JobDocument): PolledJob {
  const kind = kindOfPoll(job, facts);
  const status = statusIn(partsOfJob(job), facts);
  const { id: at } = job.poll ?? {};
  if (kind === 'done' && at !== undefined) {
    const { text: resultId } = facts.value(at);
    if (isUsableId(resultId, facts)) return { kind, status, resultId };
    throw contractError(context, `the job is over, and its response has no ID at ${at} (api.job.poll.id)`);
  }
  if (kind !== undefined) return { kind, status, retryAfterMs };
  if ([404, 410].includes(facts.status)) return { kind: 'unknown', status };
  if (json === undefined) throw contractError(context, 'it is no JSON, and no condition of api.job.when holds');
  throw failure(
    context,
    'ConfigurationError',
    `${context.server.name} says ${status} for ${context.label}, which no condition of api.job.when names. ` +
      'Add it there, and start again: the run continues with the same job',
  );
}

function parseJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch {
    return undefined;
  }
}

/** The first condition that holds, in the order of their table. */
function kindOfPoll({ when = {} }: Job, facts: PageFacts): PolledJob['kind'] | undefined {
  const names = Object.keys(jobWhenFields) as (keyof typeof jobWhenFields)[];
  // Other documents, too, lack what an empty result lacks.
  return names.find((name) => evaluate(when[name], facts, name === 'empty').part !== undefined);
}

/** The value that conditions ask for: `IN_PROGRESS`; else the status of the response. */
function statusIn(parts: readonly ConditionPart[], facts: PageFacts): string {
  for (const { at, header } of parts) {
    const value = at === undefined ? undefined : facts.value(at);
    const text = value !== undefined && isSomething(value) ? value.text : header && facts.header(header);
    if (text !== undefined && text !== '') return facts.quote(text, 100);
  }
  return `status ${facts.status}`;
}

function idIn(places: ReturnType<typeof idPlacesOf>, facts: PageFacts): string | undefined {
  for (const { at, header, after, status } of places) {
    const isAsked = status === undefined ? facts.status < 300 : facts.status === status;
    const found = at === undefined ? facts.header(header ?? '') : facts.value(at).text;
    // An ID at the end of a URL, whose query a service may repeat.
    const text = found && facts.withoutKeys(found);
    const begin = after === undefined ? 0 : (text?.lastIndexOf(after) ?? -1);
    if (isAsked && text !== undefined && begin >= 0) return text.slice(begin + (after?.length ?? 0)).trim();
  }
  return undefined;
}

/** The ID is part of paths, and of messages. */
const isUsableId = (id: string | undefined, { hasSecret }: PageFacts): id is string =>
  id !== undefined &&
  id !== '' &&
  id.length <= maxIdLength &&
  !/\p{Cc}/u.test(id) &&
  id.isWellFormed() &&
  !id.split('/').some((part) => part === '.' || part === '..') &&
  !hasSecret(id);
