/**
 * The client of a described API, of which the Report Export Service is one (docs/service-contract.md, section 4.1).
 * Sends one request per page and rejects every response that is not clearly a complete page. Retries are left to the
 * state machine, except for a single one with refreshed credentials.
 */

import type { Clock, FetchOptions, PageRequest, Received, ReportService } from '../../core/ports.ts';
import type { Description } from '../api/description.ts';
import type { Job } from '../api/job.ts';
import type { PageFacts } from '../api/next/kind.ts';
import type { ServiceSettings } from '../../settings/settings.ts';
import { loadPageCheck } from '../formats/formats.ts';
import { directNetwork, type NetworkSource, type Timeouts } from '../network/network.ts';
import { type ApiKeySource, createRecentKeys } from './api-key.ts';
import { createCredentials } from './credentials.ts';
import { type ErrorContext, failure } from './errors.ts';
import { createExchanges } from './exchange.ts';
import { createJobDocuments, type DocumentDependencies } from './job-documents.ts';
import type { CreatePool } from './pools.ts';
import { asContractError } from './response/facts.ts';
import type { CreateGunzip } from './response/gzip.ts';
import { reactionTo } from './response/reaction.ts';
import { receiveEmptyPage, receiveEnd, receiveGone, receivePage } from './response/receive-page.ts';
import type { RequestSettings } from './request.ts';
import { createFileHosts, createResultFiles, type FileDependencies } from './result-files.ts';
import { createSend, type Described } from './send.ts';

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

/** The client of a service, whose exports share its connections and its tokens. */
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
  const send = createSend({ base, settings, credentials, apiKey, clock, createGunzip });
  const fileHosts = createFileHosts(connection);
  const reading = { maxPageBytes, createGunzip, sleep: clock.sleep };

  async function fetch(described: Described, request: PageRequest, options: FetchOptions): Promise<Received> {
    const { signal } = options;
    signal?.throwIfAborted();
    const createCheck = await described.pageCheck();
    using exchange = exchanges.begin(request.label, signal);
    const { response, reaction, facts, excerpt, page, errorOf } = await send(exchange, described, request, { signal });
    const { context } = exchange;
    const assertNoError = (...found: Parameters<typeof errorOf>) => {
      const error = errorOf(...found);
      if (error !== undefined) throw error;
    };
    if (reaction.kind === 'status' && request.job !== undefined) assertHasResult(context, response.statusCode);
    assertNoError(reaction, facts, { excerpt });
    if (reaction.kind === 'end') return receiveEnd(context, response, facts, page);
    if (reaction.kind === 'gone') return receiveGone(response);
    if (reaction.kind !== 'page') return await receiveEmptyPage(context, response, page, options);
    const reactionToPage = (ofPage: PageFacts, quoted: () => string) => {
      const found = asContractError(context, () => reactionTo(ofPage, described.api, clock.now));
      if (found.kind !== 'page') assertNoError(found, ofPage, { excerpt: quoted() });
      return found.kind;
    };
    return await receivePage(exchange, response, page, {
      ...options,
      ...reading,
      compression,
      createCheck,
      reactionToPage,
    });
  }

  return {
    describedBy(api) {
      let pageCheck: ReturnType<typeof loadPageCheck> | undefined;
      const described: Described = { api, pageCheck: () => (pageCheck ??= loadPageCheck(api)), renewals: {} };
      const fetchPage: ReportService['fetch'] = (request, options) => fetch(described, request, options);
      return api.job === undefined
        ? { fetch: fetchPage }
        : serviceWithJobs(api.job, { described, base, exchanges, send, fileHosts, reading, clock }, fetchPage);
    },
    [Symbol.asyncDispose]: () =>
      Promise.all([exchanges.destroy(), credentials.destroy(), fileHosts.destroy()]).then(() => {}),
  };
}

/** The service of an export whose pages are the result of a job: requested by `fetch`, or downloaded in files. */
function serviceWithJobs(
  job: Job,
  deps: Omit<FileDependencies & DocumentDependencies, 'job' | 'documents'>,
  fetch: ReportService['fetch'],
): ReportService {
  const documents = createJobDocuments({ ...deps, job });
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
