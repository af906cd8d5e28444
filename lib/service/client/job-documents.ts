/**
 * Sends the requests for a job, and reads what their responses say. Polls and everything about results are quoted in
 * messages by the values that conditions name only: their bodies have URLs that give access to the reports.
 */

import type { Instant } from '../../core/model.ts';
import type { Clock, CreatedJob, JobService, PageRequest, PolledJob, ReceivedEnd } from '../../core/ports.ts';
import type { Condition, ConditionPart } from '../api/condition.ts';
import { evaluate, partsOf, statusesOf } from '../api/condition.ts';
import type { Description } from '../api/description.ts';
import { idPlacesOf, type Job, jobWhenFields, partsOfJob } from '../api/job.ts';
import type { PageFacts } from '../api/next/kind.ts';
import type { FurtherRequest } from '../api/request.ts';
import { isSomething } from '../api/response-facts.ts';
import { keysOf } from '../api/request.ts';
import { pathsIn } from '../api/when.ts';
import { readDocument } from '../formats/formats.ts';
import { presentable } from '../redaction/redact.ts';
import { contractError, type ErrorContext, failure } from './errors.ts';
import type { DescribedRequest } from './request.ts';
import { type BeginningOptions, readBeginning } from './response/excerpt.ts';
import { asContractError, factsOf, type RequestedPage } from './response/facts.ts';
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
  /** Whether it says that the parent no longer exists. */
  readonly isGone: boolean;
}

interface Asked {
  /** The request, as the description has it. */
  readonly template: FurtherRequest & { readonly method: 'GET' | 'POST' };
  /** The paths of values that are asked for. */
  readonly paths: readonly string[];
  /** The setting that has the request. */
  readonly setting: string;
  /** Whether messages may have its URL and its body. */
  readonly isQuoted?: boolean;
}

export interface JobDocuments extends JobService {
  /** The response to the newest poll. */
  readonly pollDocument: (request: PageRequest, options: Options) => Promise<JobDocument>;
  /** The response to `result.request`. */
  readonly resultDocument: (request: DescribedRequest, options: Options) => Promise<JobDocument>;
}

export interface DocumentDependencies {
  readonly described: Described;
  readonly job: Job;
  readonly exchanges: ReturnType<typeof createExchanges>;
  readonly send: Send;
  readonly clock: Clock;
  readonly reading: Pick<BeginningOptions, 'createGunzip' | 'sleep'>;
}

/** Sends the request, and reads its response. @throws the error of a response that says that it has failed */
async function ask(
  { described, job, exchanges, send, clock, reading }: DocumentDependencies,
  request: DescribedRequest,
  { signal }: Options,
  asked: Asked,
): Promise<JobDocument> {
  const own = { ...described, api: apiOfDocuments(described.api, asked.template, job) };
  const { isQuoted = false } = asked;
  using exchange = exchanges.begin(request.label, signal);
  const { response, reaction, facts: ofHead, excerpt, page, errorOf } = await send(exchange, own, request, { signal });
  const { context } = exchange;
  const assertNoError = (found: Reaction, facts: PageFacts, quoted: string) => {
    const describe = (requested: Requested) => requestedOf(requested, asked);
    const error = errorOf(found, facts, { describe, excerpt: isQuoted ? quoted : '' });
    if (error === undefined) return;
    // The service says that it has not done what was requested.
    throw found.kind === 'error' && isQuoted ? failure(context, 'RequestRejectedError', error.message) : error;
  };
  const serviceTime = readServiceTime(ofHead.header('date'), response.timing.latencyMs);
  const isUnknown = reaction.kind === 'status' && !isQuoted && [404, 410].includes(response.statusCode);
  if (isUnknown || reaction.kind === 'gone') {
    return { facts: ofHead, context, json: undefined, serviceTime, isGone: !isUnknown };
  }
  assertNoError(reaction, ofHead, excerpt);
  const { bytes, isWhole } = await readBeginning(context, response, { ...reading, limit: maxDocumentBytes });
  if (!isWhole) throw contractError(context, `it is cut off, or has more than ${maxDocumentBytes} bytes`);
  const facts = await factsOfDocument(context, page, response, { bytes, paths: asked.paths });
  const found = asContractError(context, () => reactionTo(facts, own.api, clock.now));
  assertNoError(found, facts, '');
  return { facts, context, json: parseJson(bytes), serviceTime, isGone: found.kind === 'gone' };
}

/** The request in messages. */
const requestedOf = (requested: Requested, { setting, isQuoted }: Asked): Requested => ({
  ...requested,
  address: `baseUrl and ${setting}`,
  fields: setting,
  isDescribed: false,
  ...(isQuoted !== true && { path: '' }),
});

export function createJobDocuments(deps: DocumentDependencies): JobDocuments {
  const { job } = deps;
  const parts = partsOfJob(job);

  const pollDocument: JobDocuments['pollDocument'] = (request, options) =>
    ask(deps, request, options, {
      template: { method: 'GET', ...job.poll },
      paths: [...pathsIn(parts), ...(job.poll?.id === undefined ? [] : [job.poll.id])],
      setting: 'api.job.poll',
    });

  return {
    pollDocument,
    resultDocument: (request, options) =>
      ask(deps, request, options, {
        template: { method: 'GET', ...job.result?.request },
        paths: [],
        setting: 'api.job.result',
      }),

    async create(request, options): Promise<CreatedJob | ReceivedEnd> {
      const places = idPlacesOf(job);
      const { facts, context, serviceTime, isGone } = await ask(deps, request, options, {
        template: { method: 'POST', ...job.create },
        paths: places.flatMap(({ at }) => at ?? []),
        setting: 'api.job.create',
        isQuoted: true,
      });
      if (isGone) return { kind: 'end', reason: 'gone', status: facts.status };
      const id = idIn(places, facts);
      if (id !== undefined && isValidId(id) && !facts.hasSecret(id)) {
        return { kind: 'created', id, serviceTime };
      }
      const found = id === undefined ? 'no ID' : 'an ID that requests cannot have';
      const message = `${context.server.name} responded with ${facts.status} for ${context.label}, with ${found} at api.job.id`;
      throw failure(context, 'ConfigurationError', `${message}. It may have created the job. Correct the description`);
    },

    async poll(request, options): Promise<PolledJob> {
      const document = await pollDocument(request, options);
      if (job.start === undefined || evaluate(job.start.when, document.facts).part === undefined) {
        return polledJob(job, document);
      }
      const template = { ...job.start.request, method: job.start.request.method ?? 'POST' };
      await ask(deps, request, options, { template, paths: [], setting: 'api.job.start' });
      return { kind: 'waiting', status: statusIn(parts, document.facts) };
    },
  };
}

/** What the response to a poll says. @throws ConfigurationError if no condition holds */
export function polledJob(job: Job, { facts, context, json }: JobDocument): PolledJob {
  const retryAfter = readWait(facts.header('retry-after'), facts, Date.now);
  const retryAfterMs = retryAfter === undefined ? undefined : Math.min(retryAfter, 3_600) * 1_000;
  const kind = kindOfPoll(job, facts);
  const status = statusIn(partsOfJob(job), facts);
  const { id } = job.poll ?? {};
  if (kind === 'done' && id !== undefined) return { kind, status, resultId: resultIdIn(context, facts, id) };
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

/** Responses about jobs are documents of their own. Of `when`, what all responses of the service may say counts. */
function apiOfDocuments(api: Description, template: Asked['template'], job: Job): Description {
  const { throttled, tokenExpired, error, gone } = api.when ?? {};
  const named = [...partsOfJob(job).flatMap(statusesOf), ...idPlacesOf(job).flatMap(({ status }) => status ?? [])];
  const status = [...new Set([200, 201, 202, 203, 204, ...named])];
  return {
    ...api,
    request: template as Description['request'],
    next: { from: 'none' },
    last: undefined,
    when: { throttled, tokenExpired, error, gone },
    page: { format: 'json', reports: '/*', status: status as readonly number[] as (200 | 201 | 203 | 206)[] },
    headers: { ...api.headers, accept: 'application/json' },
  };
}

async function factsOfDocument(
  context: ErrorContext,
  page: RequestedPage,
  response: Parameters<typeof factsOf>[2],
  { bytes, paths }: { readonly bytes: Uint8Array; readonly paths: readonly string[] },
): Promise<PageFacts> {
  const ofService = pathsIn(
    Object.values(page.api.when ?? {}).flatMap((each) => partsOf(each as Condition | undefined)),
  );
  return factsOf(context, page, response, await readDocument(bytes, [...new Set([...paths, ...ofService])]));
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

/** @throws ContractError if it is missing */
function resultIdIn(context: ErrorContext, facts: PageFacts, at: string): string {
  const { text: id } = facts.value(at);
  if (id !== undefined && isValidId(id) && !facts.hasSecret(id)) return id;
  throw contractError(context, `the job is over, and its response has no ID at ${at} (api.job.poll.id)`);
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
const isValidId = (id: string): boolean =>
  id !== '' &&
  id.length <= maxIdLength &&
  !/\p{Cc}/u.test(id) &&
  id.isWellFormed() &&
  !id.split('/').some((part) => part === '.' || part === '..');

/** The texts at a JSON Pointer, in which `*` is every item of a list; undefined: nothing is there. */
export function textsAt(document: unknown, pointer: string): readonly string[] | undefined {
  let found: readonly unknown[] = [document];
  for (const key of keysOf(pointer)) {
    found = found.flatMap((value): readonly unknown[] => {
      if (key === '*' && Array.isArray(value)) return value;
      const isObject = typeof value === 'object' && value !== null && Object.hasOwn(value, key);
      return isObject ? [(value as Readonly<Record<string, unknown>>)[key]] : [undefined];
    });
  }
  const isText = (value: unknown): value is string | number => ['string', 'number'].includes(typeof value);
  return found.every((value) => isText(value) && value !== '') ? found.map(String) : undefined;
}

/** A host in messages. */
export const hostOf = (url: URL, keys: ReadonlySet<string>): string => presentable(url.host, keys, 200);
