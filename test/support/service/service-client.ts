/** The client under test, with an API key that is hard to recognize and with default settings. */

import { expect } from 'vitest';
import { systemRuntime } from '../../../lib/core/clock.ts';
import { type ErrorName, ExportError } from '../../../lib/core/errors.ts';
import { asCursor, type Cursor, type ExportRequest, type Instant } from '../../../lib/core/model.ts';
import type { Clock, PageRequest, ReportService } from '../../../lib/core/ports.ts';
import { type ApiKeySource, fixedApiKey } from '../../../lib/service/client/api-key.ts';
import { renewsSecret } from '../../../lib/service/api/auth/kinds.ts';
import { type Api, describeApi } from '../../../lib/service/api/description.ts';
import { reportExportService } from '../../../lib/service/api/report-export-service.ts';
import { anExportRequest, fetchPage } from '../builders.ts';
import { searchForSecrets } from '../secret-search.ts';
import { type RawReply, startRawServer } from './raw-server.ts';
import type { ErrorContext } from '../../../lib/service/client/errors.ts';
import {
  type ClientOptions,
  type ClientSettings,
  createServiceClient,
  type ReportServiceClient,
} from '../../../lib/service/client/client.ts';

type ClientParts = Partial<ClientSettings & ClientOptions> & {
  /** The API; by default the Report Export Service, with these settings. */
  readonly api?: Api | undefined;
  readonly vendor?: string | undefined;
  readonly cursorIn?: 'query' | 'body' | undefined;
  readonly filterUntil?: string | undefined;
  readonly now?: () => number;
  readonly monotonicNow?: () => number;
};

/** Its characters are escaped differently in JSON, in URLs, in HTML and by `inspect`. */
export const trickyApiKey = 'S3cr3t/key+with="odd"&<chars>  \\%42';

/** Longer than any test. */
const endlessMs = 600_000;

/** The client's own limits, of two seconds and more, never expire: a slow machine must not change an outcome. */
export const patientClock: Clock = {
  ...systemRuntime,
  sleep: (ms, signal) => systemRuntime.sleep(ms < 2_000 ? ms : endlessMs, signal),
};

export function clientFor(
  service: { readonly url: string },
  {
    apiKey,
    network,
    clock,
    createPool,
    now,
    monotonicNow,
    api,
    vendor,
    cursorIn,
    filterUntil,
    ...settings
  }: ClientParts = {},
): ReportServiceClient {
  const contract = (request?: ExportRequest) => reportExportService({ vendor, cursorIn, filterUntil, ...request });
  const client = createServiceClient(
    {
      baseUrl: service.url,
      auth: (api ?? contract()).auth,
      compression: true,
      connectTimeout: endlessMs,
      headersTimeout: endlessMs,
      bodyTimeout: endlessMs,
      totalTimeout: endlessMs,
      maxPageBytes: 1024 * 1024,
      ...settings,
    },
    {
      apiKey: apiKey ?? fixedApiKey(trickyApiKey),
      network,
      clock: clock ?? { ...patientClock, ...(now && { now }), ...(monotonicNow && { monotonicNow }) },
      createPool,
    },
  );
  /** As an invocation, which describes the service once. */
  const described = new Map<string, ReportService>();
  const describedFor = (request: ExportRequest): ReportService => {
    const key = JSON.stringify([request.format, request.container, request.size]);
    const service = described.get(key) ?? client.describedBy(api === undefined ? contract(request) : describeApi(api));
    described.set(key, service);
    return service;
  };
  return {
    fetch: (request, options) => describedFor(request.request).fetch(request, options),
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
}

/** The secret of an API that one process uses. With a refresh token, what takes its place is kept. */
export function secretOf(api: Api | undefined, apiKey: string): ApiKeySource {
  if (api === undefined || !renewsSecret(api)) return fixedApiKey(apiKey);
  const fields = apiKey.startsWith('{') ? (JSON.parse(apiKey) as object) : { client_secret: apiKey };
  let secret = JSON.stringify({ refresh_token: 'a-refresh-token', ...fields });
  const get = async () => secret;
  return { get, refresh: get, update: async (change) => (secret = await change(secret, () => {})) };
}

export const anErrorContext = (...keys: readonly string[]): ErrorContext => ({
  label: 'page 1 of run R',
  server: { name: 'Report service', base: new URL('https://reports.example.com'), setting: 'baseUrl' },
  keys: new Set(keys),
});

export const aCursor = asCursor('1588888888888,550e8400-e29b-41d4-a716-446655440000');

export function pageRequest({
  cursor = null,
  ...request
}: Partial<ExportRequest> & { readonly cursor?: Cursor | null } = {}): PageRequest {
  return {
    request: anExportRequest({ source: 'test', ...request }),
    since: '2026-11-20T02:00:00Z' as Instant,
    begunAt: '2026-11-20T03:00:00Z' as Instant,
    cursor,
    label: cursor === null ? 'page 1 of run R' : 'page 2 of run R',
  };
}

/** The page that a client with these options makes of a response. */
export async function pageFrom(
  response: RawReply,
  request = pageRequest(),
  options: ClientParts = {},
): ReturnType<typeof fetchPage> {
  await using server = await startRawServer(response);
  await using client = clientFor(server, options);
  return await fetchPage(client, request);
}

/** Does not wait for the rest of an error response, which may take two seconds. */
export const impatientClock: Clock = {
  ...systemRuntime,
  sleep: (ms, signal) => patientClock.sleep(ms === 2_000 ? 10 : ms, signal),
};

export const failureFrom = (...args: Parameters<typeof pageFrom>): Promise<ExportError> => failureOf(pageFrom(...args));

type Fetched = Awaited<ReturnType<typeof fetchPage>>;

export const readPage = async (page: Fetched | Promise<Fetched>): Promise<string> => (await page).body.toString();

/** The expectations of an error. */
export const anError = (name: ErrorName, text: string | RegExp) => ({
  name,
  message: typeof text === 'string' ? expect.stringContaining(text) : expect.stringMatching(text),
});

/** For `expect.poll`: a short interval. */
export const backoff = { interval: 5 };

/** The ExportError with which `act` rejects. Expects it not to contain the API key in any known encoding. */
export async function failureOf(act: Promise<unknown>): Promise<ExportError> {
  const error: unknown = await act.then(
    () => expect.fail('it did not reject'),
    (reason: unknown) => reason,
  );
  expectNoKey(error);
  if (error instanceof ExportError) return error;
  throw error;
}

export function expectNoKey(error: unknown, key = trickyApiKey): void {
  expect(searchForSecrets({ error }, { key })).toEqual([]);
}
