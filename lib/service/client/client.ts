/**
 * The client of a described API, of which the Report Export Service is one (docs/service-contract.md, section 4.1).
 * Sends one request per page and rejects every response that is not clearly a complete page. Retries are left to the
 * state machine, except for a single one with refreshed credentials.
 */

import type { Clock, FetchOptions, PageRequest, Received, ReportService } from '../../core/ports.ts';
import { type Auth, authKindOf, needsSecret } from '../api/auth/kinds.ts';
import type { Description } from '../api/description.ts';
import type { Job } from '../api/job.ts';
import { formOfNext, kindOf, provedBy } from '../api/next/kinds.ts';
import type { PageFacts } from '../api/next/kind.ts';
import type { ServiceSettings } from '../../settings/settings.ts';
import { directNetwork, type NetworkSource, type Timeouts } from '../network/network.ts';
import { type ApiKeySource, createRecentKeys } from './api-key.ts';
import { createCredentials } from './credentials.ts';
import { type Described, type SendDescribed, withPageCheck } from './described.ts';
import { type ErrorContext, failure } from './errors.ts';
import { createExchanges } from './exchange.ts';
import { createJobDocuments } from './job-documents.ts';
import type { CreatePool } from './pools.ts';
import { sendWithFreshCredentials } from './response/answer.ts';
import { asContractError, type RequestedPage } from './response/facts.ts';
import type { CreateGunzip } from './response/gzip.ts';
import { errorOfReaction } from './response/reaction-error.ts';
import { type Reaction, reactionTo } from './response/reaction.ts';
import { receiveEmptyPage, receiveEnd, receiveGone, receivePage } from './response/receive-page.ts';
import { httpRequest, pathOfRequest, type RequestSettings, sentCursor } from './request.ts';
import { createFileHosts, createResultFiles, type FileDependencies } from './result-files.ts';
import type { Requested } from './response/response-status.ts';
import { createThrottle } from './throttle.ts';

export type ClientSettings = Timeouts & RequestSettings & Pick<ServiceSettings, 'auth' | 'baseUrl' | 'maxPageBytes'>;

export interface ClientOptions {
  readonly apiKey: ApiKeySource;
  /** Proxy and certificates; by default a direct connection. */
  readonly network?: NetworkSource;
  readonly clock: Clock;
  /** Opens the connections; by default undici's pool. */
  readonly createPool?: CreatePool;
  /** Decompresses pages in gzip; by default zlib, in its threads. */
  readonly createGunzip?: CreateGunzip;
}

/** Disposing of it closes every connection immediately. A body that is still being read fails. */
export type ReportServiceClient = ReportService & AsyncDisposable;

/** The client of a service, whose exports share its connections, its tokens, and a Retry-After. */
export interface ServiceClient extends AsyncDisposable {
  /** The service as an export with this description uses it, in one invocation or local run. */
  readonly describedBy: (api: Description) => ReportService;
}

/**
 * The client of one export, in local runs and for the commands of operators.
 *
 * Errors of `apiKey` and `network` are rethrown unchanged, and so is the reason of an aborted signal. Only a
 * Retry-After that has arrived is thrown although the signal is aborted: it binds the caller's other requests, too.
 *
 * @example
 * const service = serviceClient({ ...settings, api }, { apiKey: fixedApiKey(key), clock: systemRuntime });
 * const sink = async (body) => { for await (const chunk of body) await file.write(chunk); };
 * const { nextCursor } = await service.fetch({ request, since, begunAt, cursor: null, label: 'page 1' }, { sink });
 */
export function serviceClient(
  { api, ...settings }: ClientSettings & { readonly api: Description },
  options: ClientOptions,
): ReportServiceClient {
  const client = createServiceClient(settings, options);
  return { ...client.describedBy(api), [Symbol.asyncDispose]: () => client[Symbol.asyncDispose]() };
}

export function createServiceClient(
  settings: ClientSettings,
  { apiKey, network = directNetwork, clock, createPool, createGunzip }: ClientOptions,
): ServiceClient {
  const { auth, compression, maxPageBytes } = settings;
  const base = new URL(settings.baseUrl);
  const recentKeys = createRecentKeys();
  const connection = { timeouts: settings, network, clock, keys: recentKeys.keys, createPool };
  const exchanges = createExchanges({ name: 'Report service', base, setting: 'baseUrl' }, connection);
  const credentials = createCredentials(auth, apiKey, { ...connection, base, recentKeys, headerSettings: settings });
  const throttle = createThrottle(clock);
  const fileHosts = createFileHosts(connection);

  const send: SendDescribed = async (described, request, { signal, path }, use) => {
    const { api, renewals } = described;
    signal?.throwIfAborted();
    using exchange = exchanges.begin(request.label, signal);
    await throttle.pass(exchange.context, signal);
    const parts = { ...httpRequest(base, api, request, settings), ...(path !== undefined && { path }) };
    const page = requestedPage(api, request, new URL(`${base.origin}${parts.path}`));
    const deps = { exchange, credentials, apiKey, clock, createGunzip };
    const answer = await sendWithFreshCredentials(deps, parts, { page, beforeSend: request.beforeSend, renewals });
    const describeRequest = () => ({
      ...requestedOf(page, settings, pathOfRequest(base, api, request)),
      secretPlace: apiKey.place,
      method: parts.method,
      path: parts.path.replace(/\?.*/, ''),
    });
    return await use({ answer, page, exchange, clock, throttle, createGunzip, describeRequest });
  };

  async function fetch(described: Described, request: PageRequest, options: FetchOptions): Promise<Received> {
    const { api } = described;
    const { signal } = options;
    signal?.throwIfAborted();
    const createCheck = await described.pageCheck();
    return await send(described, request, { signal }, async ({ answer, page, exchange, describeRequest }) => {
      const { context } = exchange;
      const assertNoError = (found: Reaction, facts: PageFacts, excerpt: string) => {
        if (found.kind === 'throttled' && found.seconds !== undefined) throttle.close(found.seconds);
        const error = errorOfReaction(context, found, facts, { requested: describeRequest, excerpt });
        if (error !== undefined && error.retryAfterSeconds === undefined) signal?.throwIfAborted();
        if (error !== undefined) throw error;
      };
      const { response, reaction } = answer;
      if (reaction.kind === 'status' && request.job !== undefined) assertHasResult(context, response.statusCode);
      assertNoError(reaction, answer.facts, answer.excerpt);
      if (reaction.kind === 'end') return receiveEnd(context, response, answer.facts, page);
      if (reaction.kind === 'gone') return receiveGone(response);
      if (reaction.kind !== 'page') return await receiveEmptyPage(context, response, page, options);
      const reactionToPage = (facts: PageFacts, quoted: () => string) => {
        const found = asContractError(context, () => reactionTo(facts, api, clock.now));
        if (found.kind !== 'page') assertNoError(found, facts, quoted());
        return found.kind;
      };
      const reading = { compression, maxPageBytes, createGunzip, createCheck, reactionToPage, sleep: clock.sleep };
      return await receivePage(exchange, response, page, { ...options, ...reading });
    });
  }

  const reading = { maxPageBytes, createGunzip, sleep: clock.sleep };

  return {
    describedBy(api) {
      const described = withPageCheck(api);
      const fetchPage: ReportService['fetch'] = (request, options) => fetch(described, request, options);
      return api.job === undefined
        ? { fetch: fetchPage }
        : serviceWithJobs(api.job, { described, base, send, fileHosts, reading }, fetchPage);
    },
    [Symbol.asyncDispose]: () =>
      Promise.all([exchanges.destroy(), credentials.destroy(), fileHosts.destroy()]).then(() => {}),
  };
}

/** The request in messages. `firstPath` is the path of the first request. */
function requestedOf(page: RequestedPage, { auth }: Pick<ClientSettings, 'auth'>, firstPath: string) {
  const { api } = page;
  return {
    credentials: { name: 'API key', ...rejectionOf(auth) },
    cursor: kindOfSent(page),
    isDescribed: api.pagination !== undefined,
    // The cursor was a URL of the service with another path than that of the first request.
    isOtherPath: kindOfSent(page) === 'url' && page.requested.pathname !== firstPath,
    ...api.settings,
  };
}

/** The service of an export whose pages are the result of a job: requested by `fetch`, or downloaded in files. */
function serviceWithJobs(
  job: Job,
  deps: Omit<FileDependencies, 'job' | 'documents'>,
  fetch: ReportService['fetch'],
): ReportService {
  const documents = createJobDocuments(deps.described, job, deps.send);
  const { result } = job;
  const fetchFile = result && createResultFiles({ ...deps, job: { ...job, result }, documents });
  return { fetch: fetchFile ?? fetch, jobs: documents };
}

/** @throws CursorRejectedError if the service does not have the result of the job, or no longer */
function assertHasResult(context: ErrorContext, status: number): void {
  if (status !== 404 && status !== 410) return;
  const message = `${context.server.name} responded with ${status} for ${context.label}: the result of its report job is missing`;
  throw failure(context, 'CursorRejectedError', message);
}

const requestedPage = (api: Description, request: PageRequest, requested: URL): RequestedPage => ({
  api,
  requested,
  isFirst: request.cursor === null,
  // The first request for a parent creates its job, if it has one.
  mayBeGone: request.cursor === null && request.parent !== undefined && request.job === undefined,
  sent: sentCursor(api, request),
  size: request.request.size,
});

/** The advice if the service rejects the credentials. If they are tokens, new ones have been rejected, too. */
function rejectionOf(auth: Auth) {
  const { rejected, token } = authKindOf(auth);
  return { rejected, isStored: token === undefined && needsSecret({ auth }) };
}

/** The kind of cursor that the request sent. */
function kindOfSent({ api, isFirst, sent = '' }: RequestedPage): Requested['cursor'] {
  if (isFirst) return 'none';
  const { sends, isAfterLast } = kindOf(api.next);
  if (provedBy(api.next) !== undefined) return 'inPass';
  if (sends === 'count') return isAfterLast?.(sent) === true ? 'afterLast' : 'count';
  return formOfNext(api) === 'url' ? 'url' : 'text';
}
