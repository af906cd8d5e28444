/**
 * The client of a described API, of which the Report Export Service is one (docs/service-contract.md, section 4.1).
 * Sends one request per page and rejects every response that is not clearly a complete page. Retries are left to the
 * state machine, except for a single one with refreshed credentials.
 */

import type { Clock, ReportService } from '../../core/ports.ts';
import type { Description } from '../api/description.ts';
import type { Job } from '../api/job.ts';
import type { ServiceSettings } from '../../settings/settings.ts';
import { loadPageCheck } from '../formats/formats.ts';
import { directNetwork, type NetworkSource, type Timeouts } from '../network/network.ts';
import { type ApiKeySource, createRecentKeys } from './api-key.ts';
import { createCredentials } from './credentials.ts';
import { createExchanges } from './exchange.ts';
import { createJobDocuments, type DocumentDependencies } from './job-documents.ts';
import type { CreatePool } from './pools.ts';
import type { CreateGunzip } from './response/gzip.ts';
import { fetchPage } from './response/receive-page.ts';
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
 * const received = await service.fetch({ request, since, begunAt, cursor: null, label: 'page 1' }, { sink });
 * const nextCursor = received.kind === 'page' ? received.nextCursor : null;
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
  const pages = { exchanges, send, clock, compression, reading };

  return {
    describedBy(api) {
      let pageCheck: ReturnType<typeof loadPageCheck> | undefined;
      const described: Described = { api, pageCheck: () => (pageCheck ??= loadPageCheck(api)), renewals: {} };
      const fetch: ReportService['fetch'] = (request, options) => fetchPage({ described, ...pages }, request, options);
      return api.job === undefined
        ? { fetch }
        : serviceWithJobs(api.job, { described, base, fileHosts, ...pages }, fetch);
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
