/**
 * Downloads the files of a job's result, each as a page. Their URLs give access to the reports, so they are in no
 * message, and are not stored: a later download polls the job again.
 *
 * A host other than that of the service gets no credentials: the URL is one. Nothing but its host is trusted.
 */

import { createHash } from 'node:crypto';
import { ExportError } from '../../core/errors.ts';
import { asCursor, type Cursor } from '../../core/model.ts';
import type { Clock, FetchOptions, PageRequest, Received } from '../../core/ports.ts';
import { isLoopback } from '../../core/schema/fields.ts';
import { type Description, requestAbout } from '../api/description.ts';
import { hasItems, type Job } from '../api/job.ts';
import { keysOf, placeholdersIn } from '../api/request.ts';
import type { NetworkSource } from '../network/network.ts';
import { presentable } from '../redaction/redact.ts';
import { contractError, type ErrorContext, failure } from './errors.ts';
import { createExchanges, type Exchange, type ExchangeOptions, type Response } from './exchange.ts';
import { type JobDocument, type JobDocuments, polledJob } from './job-documents.ts';
import type { RequestedPage } from './response/facts.ts';
import { type PageOptions, receivePage } from './response/receive-page.ts';
import { throttlingInHead } from './response/reaction.ts';
import { headerOf } from './response/response-headers.ts';
import type { Described, Send } from './send.ts';

/** The files of a result, as the newest poll lists them. */
interface Files {
  /** URLs, or the IDs of items. */
  readonly places: readonly string[];
  /** A digest of what identifies each file. */
  readonly digest: string;
}

/** The client of all hosts with files. It shares nothing with that of the service except the proxy. */
export function createFileHosts(options: ExchangeOptions) {
  const { network } = options;
  const proxyOnly = async (read: NetworkSource['get']) => {
    const { proxy } = await read();
    return proxy === undefined ? {} : { proxy };
  };
  const own = { get: () => proxyOnly(() => network.get()), refresh: () => proxyOnly(() => network.refresh()) };
  const hosts = new Map<string, ReturnType<typeof createExchanges>>();
  return {
    exchangesWith({ origin, host }: URL) {
      const name = `The host ${host}, which has the result,`;
      const server = { name, base: new URL(origin), setting: 'api.job.result.hosts' };
      const exchanges = hosts.get(origin) ?? createExchanges(server, { ...options, network: own });
      hosts.set(origin, exchanges);
      return exchanges;
    },
    destroy: () => Promise.all([...hosts.values()].map((each) => each.destroy())).then(() => {}),
  };
}

export interface FileDependencies {
  readonly described: Described;
  readonly job: Job & { readonly result: NonNullable<Job['result']> };
  readonly base: URL;
  readonly documents: JobDocuments;
  readonly exchanges: ReturnType<typeof createExchanges>;
  readonly send: Send;
  readonly fileHosts: ReturnType<typeof createFileHosts>;
  readonly clock: Clock;
  readonly reading: Pick<PageOptions, 'maxPageBytes' | 'createGunzip' | 'sleep'>;
}

/** The jobs whose files a client remembers, so that each of them needs no poll of its own. */
const maxRemembered = 32;

/** Asks for the job, and lists the files of its result. @throws CursorRejectedError if there are none */
async function listFiles(
  { job, base, documents }: FileDependencies,
  request: PageRequest,
  options: FetchOptions,
): Promise<Files> {
  const { result } = job;
  const polled = await documents.ask('poll', request, options);
  const { kind, status } = polledJob(job, polled);
  // It was over before. A list of files may not be complete until it says so again.
  if (kind !== 'done') throw missing(polled.context, `the job says ${status} now`);
  const polledText = (path: string) => textsAt(polled.json, path)?.[0];
  const needed = placeholdersIn(result.request?.path ?? '').flatMap((name) => /^poll:(.+)/.exec(name)?.[1] ?? []);
  const absent = needed.find((path) => polledText(path) === undefined);
  if (absent !== undefined)
    throw missing(polled.context, `the job is over, and its last poll has nothing at ${absent}`);
  const hasFiles = result.request === undefined || hasItems(job);
  const document = hasFiles ? polled : await documents.ask('result', { ...request, polled: polledText }, options);
  const texts = textsAt(document.json, result.at);
  if (texts === undefined || texts.length === 0) {
    const advice = 'If that means that there are no reports, describe it in api.job.when.empty';
    throw missing(document.context, `the job is over, and it has no file at api.job.result.at. ${advice}`);
  }
  // Services repeat the query of the request, with the key, which is added again for a file of their own.
  const isOwn = !hasItems(job) && result.hosts === undefined;
  const places = isOwn ? texts.map(document.facts.withoutKeys) : texts;
  if (places.some(document.facts.hasSecret))
    throw contractError(document.context, 'it has the API key in a URL or an ID at api.job.result.at');
  return { places, digest: digestOf(identitiesOf(places, document, hasItems(job) ? undefined : base)) };
}

/** The texts at a JSON Pointer, in which `*` is every item of a list; undefined: nothing is there. */
function textsAt(document: unknown, pointer: string): readonly string[] | undefined {
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

/** IDs, or the paths of URLs without their queries, which change from poll to poll, unless only queries differ. */
function identitiesOf(places: readonly string[], { context }: JobDocument, base: URL | undefined): readonly string[] {
  const isEachOnce = (texts: readonly string[]) => new Set(texts).size === texts.length;
  if (!isEachOnce(places)) throw contractError(context, 'it has the same file twice at api.job.result.at');
  if (base === undefined) return places;
  const paths = places.map((place) => {
    const url = URL.parse(place, base.href);
    if (url === null || url.host === '') throw contractError(context, 'it has no URL of a file at api.job.result.at');
    return `${url.host}${url.pathname}`;
  });
  return isEachOnce(paths) ? paths : places;
}

export function createResultFiles(deps: FileDependencies) {
  const { described, job, base, exchanges, send, fileHosts, clock, reading } = deps;
  const { result } = job;
  const api: Description = { ...described.api, next: { from: 'none' }, last: undefined };
  const remembered = new Map<string, Promise<Files>>();

  function filesOf(request: PageRequest, options: FetchOptions): Promise<Files> {
    const { job: id = '' } = request;
    const listed = remembered.get(id) ?? listFiles(deps, request, options);
    remembered.delete(id);
    remembered.set(id, listed);
    listed.catch(() => remembered.delete(id));
    for (const oldest of [...remembered.keys()].slice(0, -maxRemembered)) remembered.delete(oldest);
    return listed;
  }

  /** The file, received as a page. */
  async function receive(
    exchange: Exchange,
    response: Response,
    page: RequestedPage,
    { sink }: FetchOptions,
  ): Promise<Received> {
    assertFile(exchange.context, response, { isOwn: result.hosts === undefined, now: clock.now });
    const createCheck = await described.pageCheck();
    const file = { compression: result.compression };
    const options = { ...reading, sink, createCheck, file, compression: true, reactionToPage: () => 'page' as const };
    return await receivePage(exchange, response, { ...page, size: undefined }, options);
  }

  /** Downloads a file from the service, with its credentials. */
  async function fromService(asked: PageRequest, options: FetchOptions, place: string): Promise<Received> {
    const isItem = hasItems(job);
    const request = isItem ? requestAbout(job, 'result') : api.request;
    const url = isItem ? undefined : assertAllowed(place, base, result.hosts);
    const path = url && `${url.pathname}${url.search}`;
    const { signal } = options;
    using exchange = exchanges.begin(asked.label, signal);
    const first = { ...asked, cursor: null, item: place };
    const own = { ...described, api: { ...api, request } };
    const { response, page } = await send(exchange, own, first, { signal, path });
    return await receive(exchange, response, page, options);
  }

  /** Downloads a file from another host. */
  async function fromHost({ label }: PageRequest, options: FetchOptions, place: string): Promise<Received> {
    const requested = assertAllowed(place, base, result.hosts);
    using exchange = fileHosts.exchangesWith(requested).begin(label, options.signal);
    const headers = { accept: '*/*', 'accept-encoding': 'identity' };
    const response = await exchange.send({ method: 'GET', path: `${requested.pathname}${requested.search}`, headers });
    const page = { requested, isFirst: true, mayBeGone: false, sent: undefined, size: undefined };
    return await receive(exchange, response, { ...page, api: { ...api, when: undefined } }, options);
  }

  return async function fetchFile(request: PageRequest, options: FetchOptions): Promise<Received> {
    const isRemembered = remembered.has(request.job ?? '');
    const files = await filesOf(request, options);
    const number = numberIn(request.cursor, files);
    const next = number === files.places.length ? null : cursorOf(number + 1, files);
    options.onNextCursor?.(next);
    try {
      const download = result.hosts === undefined ? fromService : fromHost;
      const received = await download(request, options, files.places[number - 1] ?? '');
      return received.kind === 'page' ? { ...received, nextCursor: next } : received;
    } catch (error) {
      if (!(error instanceof MissingFile)) throw error;
      remembered.delete(request.job ?? '');
      // The URL may have expired since the job was asked for it.
      if (isRemembered) return await fetchFile(request, { sink: options.sink, signal: options.signal });
      throw error;
    }
  };
}

/** The file does not exist, or its URL has expired. */
class MissingFile extends ExportError {}

const missing = ({ label }: ErrorContext, problem: string): ExportError =>
  new MissingFile('CursorRejectedError', `The result of the job is missing for ${label}: ${problem}`);

/** The place of a file in the list: `2 of 3`, and which list it is. */
const cursorOf = (number: number, { places, digest }: Files): Cursor =>
  asCursor(`${number} of ${places.length} ${digest}`);

/** @throws CursorRejectedError if the place is that of another list */
function numberIn(cursor: Cursor | null, files: Files): number {
  if (cursor === null) return 1;
  const number = Number.parseInt(cursor, 10);
  if (cursor === cursorOf(number, files)) return number;
  const message =
    'The result of the job has other files than those that were exported so far. The chain starts over with the same job';
  throw new ExportError('CursorRejectedError', message, { isOtherResult: true });
}

const digestOf = (paths: readonly string[]): string =>
  createHash('sha256').update(JSON.stringify(paths)).digest('hex').slice(0, 16);

/** @throws ConfigurationError if the host may not be asked */
function assertAllowed(place: string, base: URL, hosts: readonly string[] | undefined): URL {
  const url = URL.parse(place, base.href) as URL;
  const host = presentable(url.host, new Set(), 200);
  const refused = (problem: string) => new ExportError('ConfigurationError', problem);
  if (hosts === undefined) {
    if (url.origin === base.origin) return url;
    const remedy = `If it belongs to the vendor, set it in api.job.result.hosts: it gets no credentials then`;
    throw refused(`The result of the job is on ${host}, not on that of baseUrl. ${remedy}`);
  }
  const isListed = hosts.some((each) => (each.startsWith('*.') ? url.host.endsWith(each.slice(1)) : url.host === each));
  if (!isListed) {
    const remedy = 'Add it if it belongs to the vendor';
    throw refused(`The result of the job is on ${host}, which api.job.result.hosts does not list. ${remedy}`);
  }
  const isEncrypted = url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname));
  if (isEncrypted && url.username === '' && url.password === '') return url;
  throw refused(`The URL of the result on ${host} is not https, or has a user. It is not requested`);
}

/** @throws MissingFile if the URL has expired; the error of any other response that is no file */
function assertFile(
  context: ErrorContext,
  { statusCode: status, headers }: Response,
  { isOwn, now }: { readonly isOwn: boolean; readonly now: () => number },
): void {
  if (status === 200) return;
  if (status === 404 || status === 410 || (status === 403 && !isOwn))
    throw missing(context, `its host responded with ${status}`);
  const message = `${context.server.name} responded with ${status} for ${context.label}`;
  const throttling = throttlingInHead({ status, header: headerOf(headers) }, now);
  if (throttling !== undefined) {
    const { seconds = 60 } = throttling;
    // Another host holds back its own chain alone.
    const wait = isOwn ? { retryAfterSeconds: seconds } : { parkSeconds: seconds };
    throw failure(context, 'ServiceThrottledError', message, wait);
  }
  if (status === 401 || status === 403)
    throw failure(context, 'ConfigurationError', `${message}: the credentials of the service are not accepted there`);
  if (status === 408 || status >= 500) throw failure(context, 'ServiceUnavailableError', message);
  const isRedirect = status >= 300 && status < 400;
  throw failure(context, 'RequestRejectedError', `${message}${isRedirect ? ': redirects are not followed' : ''}`);
}
