/**
 * The client of the Report Export Service (docs/service-contract.md, section 4.1). Sends one request per page and rejects
 * every response that is not clearly a complete page. Retries are left to the state machine, except for a single one with
 * a refreshed API key.
 */

import type { Dispatcher } from 'undici';
import sendRequest from 'undici/lib/api/api-request.js';
import { asDocumentRoot, rootOfColumns } from '../../core/document-root.ts';
import { ExportError } from '../../core/errors.ts';
import type { PageTiming } from '../../core/model.ts';
import { instantOf } from '../../core/timestamps.ts';
import type { Clock, FetchOptions, PageRequest, ReceivedPage, ReportService } from '../../core/ports.ts';
import type { ServiceSettings } from '../../settings/settings.ts';
import { directNetwork, type NetworkSource } from '../network/network.ts';
import { mediaTypesOf } from '../../settings/api-settings.ts';
import { type CreatePageCheck, classifyPage, loadPageCheck, type PageCheck, showsEnd } from '../formats/formats.ts';
import { containsKey, presentable } from '../redaction/redact.ts';
import { createTokenSource, credentialHeaders, partsOfSecret } from './auth.ts';
import { type ApiKeySource, assertValidApiKey, createRecentKeys } from './api-key.ts';
import { type Attempt, type CreatePool, createConnections, sendOver, withinDeadline } from './connection-pool.ts';
import { type CreateInflate, readContentEncoding } from './content-encoding.ts';
import { startDeadline, type Timeouts } from './deadline.ts';
import { readExcerpt } from './error-body.ts';
import { contractError, type ErrorContext } from './errors.ts';
import {
  assertCursorAccepted,
  assertNoNextPage,
  nextCursorInBody as readNextCursor,
  nextCursorInHeaders,
  type NextPageContext,
  nextHeader,
} from './next-page.ts';
import {
  acceptedEncodings,
  apiFor,
  authOf,
  firstCursor,
  headerNames,
  httpRequest,
  partsOf,
  type RequestedApi,
  type RequestSettings,
} from './request.ts';
import { readBody } from './response-body.ts';
import {
  assertFraming,
  assertNoLateCursor,
  assertNoOtherCursor,
  readContentType,
  readServiceTime,
  withRequestId,
} from './response-headers.ts';
import { isKeyRejected, isSuccess, statusError } from './response-status.ts';
import { transportError } from './transport-errors.ts';

export type ClientSettings = Timeouts & RequestSettings & Pick<ServiceSettings, 'baseUrl' | 'maxPageBytes'>;

export interface ClientOptions {
  readonly apiKey: ApiKeySource;
  /** Proxy and certificates; by default a direct connection. */
  readonly network?: NetworkSource;
  readonly clock: Clock;
  /** Opens the connections; by default undici's pool. */
  readonly createPool?: CreatePool;
  /** Decompresses pages in gzip; by default zlib, in its threads. */
  readonly inflate?: CreateInflate;
}

/** Disposing of it closes every connection immediately. A body that is still being read fails. */
export type ReportServiceClient = ReportService & AsyncDisposable;

/** One call of `fetch`: at most one request for each set of credentials, under one deadline. */
interface Exchange extends Attempt {
  readonly request: PageRequest;
  readonly subject: ErrorContext;
  /** The keys that this call has sent. */
  readonly triedKeys: Set<string>;
}

interface Response extends Dispatcher.ResponseData {
  readonly api: RequestedApi;
  /** Path and query of the request. */
  readonly path: string;
  readonly timing: PageTiming;
  /** What the request was sent with. */
  readonly pool: Dispatcher;
}

/**
 * The client in the functions, in local runs and for the commands of operators.
 *
 * Errors of `apiKey` and `network` are rethrown unchanged, and so is the reason of an aborted signal. Only a Retry-After that has
 * arrived is thrown although the signal is aborted: it binds the caller's other requests, too.
 *
 * @example
 * const service = serviceClient(settings, { apiKey: fixedApiKey(key), clock: systemRuntime });
 * const sink = async (body) => { for await (const chunk of body) await file.write(chunk); };
 * const { nextCursor } = await service.fetch({ request, since, begunAt, cursor: null, label: 'page 1' }, { sink });
 */
export function serviceClient(
  settings: ClientSettings,
  { apiKey, network = directNetwork, clock, createPool, inflate }: ClientOptions,
): ReportServiceClient {
  const { maxPageBytes } = settings;
  const base = parseBaseUrl(settings.baseUrl);
  const isTls = base.protocol === 'https:';
  const auth = authOf(settings);
  const cursorName = headerNames(settings.vendor).cursor;
  const recentKeys = createRecentKeys();
  const connections = createConnections(base, settings, network, createPool);
  const tokens =
    auth.kind === 'oauth2'
      ? createTokenSource({ auth, clientSecret: apiKey, settings, network, clock, recentKeys, createPool })
      : undefined;
  const keys = tokens ?? apiKey;

  async function fetch(request: PageRequest, options: FetchOptions): Promise<ReceivedPage> {
    const { signal } = options;
    signal?.throwIfAborted();
    const deadline = startDeadline(settings.totalTimeout, signal, clock);
    const triedKeys = new Set<string>();
    const exchangeOf = (subject: ErrorContext): Exchange => ({
      request,
      subject,
      triedKeys,
      deadline,
      translate: (error, bytesRead) =>
        transportError(subject, error, { callerSignal: signal, deadline, timeouts: settings, isTls, bytesRead }),
    });
    const subject = { label: request.label, keys: recentKeys.keys };
    let response: Response | undefined;
    try {
      const createCheck = await loadPageCheck(apiFor(settings, request.request));
      response = await requestWithFreshCredentials(exchangeOf(subject));
      const received = exchangeOf(withRequestId(subject, response.headers));
      if (isSuccess(response.statusCode)) return await receivePage(received, response, createCheck, options);
      const error = await rejection(received, response);
      if (error.retryAfterSeconds === undefined) signal?.throwIfAborted();
      throw error;
    } finally {
      response?.body.destroy();
      deadline.release();
    }
  }

  /** The error for a response without success. */
  async function rejection({ request, subject }: Exchange, response: Response): Promise<ExportError> {
    const excerpt = await readExcerpt(subject, response, clock);
    const sentCursor = request.cursor !== null;
    const { api, path: target } = response;
    const [path = ''] = target.split('?');
    return statusError(subject, response, {
      auth: auth.kind,
      sentCursor,
      now: clock.now(),
      base,
      address: settings.api === undefined ? 'the base URL' : 'baseUrl and api.request.path',
      method: api.request.method,
      path,
      excerpt,
      sent: sentCursor ? undefined : partsOf(base, api, request),
    });
  }

  /**
   * The response; if it rejects the API key, and there is a newer key or client certificate, the response to a second
   * request with these.
   */
  async function requestWithFreshCredentials(exchange: Exchange): Promise<Response> {
    const response = await send(exchange, await fetchKey(exchange, () => keys.get()));
    if (!isKeyRejected(response.statusCode)) return response;
    try {
      const refreshedKey = await fetchKey(exchange, () => keys.refresh());
      const refreshedPool = await withinDeadline(exchange, () => connections.refresh());
      if (exchange.triedKeys.has(refreshedKey) && refreshedPool === response.pool) return response;
      response.body.destroy();
      return await send(exchange, refreshedKey);
    } catch (error) {
      response.body.destroy();
      throw error;
    }
  }

  async function fetchKey(exchange: Exchange, readKey: () => Promise<string>): Promise<string> {
    if (auth.kind === 'none') return '';
    const key = await withinDeadline(exchange, readKey);
    assertValidApiKey(key);
    return key;
  }

  const send = (exchange: Exchange, key: string): Promise<Response> =>
    sendOver(connections, exchange, (pool) => sendPageRequest(pool, exchange, key));

  async function sendPageRequest(
    pool: Dispatcher,
    { request, triedKeys, deadline }: Exchange,
    key: string,
  ): Promise<Response> {
    triedKeys.add(key);
    for (const part of partsOfSecret(auth, key)) recentKeys.add(part);
    const api = apiFor(settings, request.request);
    request.assertMaySend?.();
    const parts = httpRequest(base, api, request, settings, credentialHeaders(auth, key));
    const requestedAt = instantOf(clock.now());
    const sentAt = clock.monotonicNow();
    const response = await deadline.race(
      sendRequest.call(pool, { ...parts, origin: base.origin, signal: deadline.signal }),
    );
    // A body that is destroyed before it is read emits an error, which would end the process without a listener.
    response.body.on('error', () => {});
    const timing = { requestedAt, latencyMs: Math.round(clock.monotonicNow() - sentAt) };
    return { ...response, api, path: parts.path, timing, pool };
  }

  /** @throws ContractError if the response is not a complete page */
  async function receivePage(
    { request, translate, subject }: Exchange,
    response: Response,
    createCheck: CreatePageCheck,
    { sink, onNextCursor }: FetchOptions,
  ): Promise<ReceivedPage> {
    const { api, path, statusCode, headers, trailers, body, timing } = response;
    // 202, for example, says that the reports are not ready yet, perhaps with an empty list.
    const hasNoContent = statusCode === 204 && 'status' in (api.page.empty ?? {}) && request.cursor === null;
    if (settings.api !== undefined && statusCode !== 200 && !hasNoContent)
      throw contractError(subject, `status ${statusCode}, which is not that of a page`);
    const place = {
      subject,
      api,
      requested: new URL(`${base.origin}${path}`),
      sent: request.cursor ?? firstCursor(api, request),
    };
    if (hasNoContent) assertNoNextPage(place, headers);
    const encoding = hasNoContent
      ? undefined
      : readContentEncoding(subject, headers['content-encoding'], acceptedEncodings(settings));
    const contentType = hasNoContent
      ? (mediaTypesOf(api.page)[0] ?? 'application/octet-stream')
      : readContentType(subject, headers, api.page);
    const isFramed = hasNoContent || encoding !== undefined || showsEnd(api.page);
    assertFraming(subject, headers, isFramed, maxPageBytes);
    /** Undefined: the body has it. */
    const announcedCursor = hasNoContent ? null : nextCursorInHeaders(place, headers);
    const assertNoOther = (where: 'header' | 'trailer', names: readonly string[]) => {
      if (settings.api === undefined && announcedCursor === null)
        assertNoOtherCursor(subject, where, names, cursorName);
    };
    assertNoOther('header', Object.keys(headers));
    if (announcedCursor !== undefined) onNextCursor?.(announcedCursor);

    const present = (text: string) => presentable(text, subject.keys, 150);
    const check = hasNoContent ? undefined : createCheck(present);
    const { transferredBytes, excerpt } = await readBody(body, {
      subject,
      sink,
      encoding,
      inflate,
      maxPageBytes,
      check,
      translate,
    });
    assertNoLateCursor(subject, Object.keys(trailers), nextHeader(api));
    assertNoOther('trailer', Object.keys(trailers));
    const isEmpty = check === undefined ? hasNoContent : assertPage(place, check, request).isEmpty;
    const nextCursor =
      announcedCursor === undefined && check !== undefined
        ? readNextCursor(place, check, { isEmpty })
        : (announcedCursor ?? null);
    if (announcedCursor === undefined) onNextCursor?.(nextCursor);
    const { rootName = null } = check ?? {};
    const toRoot = api.page.format === 'csv' ? rootOfColumns : asDocumentRoot;
    return {
      nextCursor,
      serviceTime: readServiceTime(headers.date, timing.latencyMs),
      timing,
      contentType,
      transferredBytes: encoding === undefined ? undefined : transferredBytes,
      reports: isEmpty ? 0 : (check?.reports ?? null),
      documentRoot: rootName === null ? null : toRoot(rootName),
      documentRootText: () => presentable(rootName ?? '', subject.keys, 200),
      excerpt,
    };
  }

  return {
    fetch,
    [Symbol.asyncDispose]: () => Promise.all([connections.destroy(), tokens?.destroy()]).then(() => {}),
  };
}

/** @throws ContractError if the document is no page, CursorRejectedError if it says that the cursor is not valid any more */
function assertPage(
  place: NextPageContext,
  document: PageCheck,
  { cursor }: PageRequest,
): { readonly isEmpty: boolean } {
  const { subject, api } = place;
  // The name is stored with the page.
  if (containsKey(document.rootName ?? '', subject.keys)) {
    const what = api.page.format === 'csv' ? 'first row' : 'name of the root element';
    throw contractError(subject, `the ${what} contains the API key`);
  }
  // Before anything else: such a document is no page.
  if (cursor !== null) assertCursorAccepted(place, document);
  const present = (text: string) => presentable(text, subject.keys, 150);
  const judged = classifyPage(api, document, present, { isFirst: cursor === null });
  if (judged.problem !== undefined) throw contractError(subject, judged.problem);
  return judged;
}

function parseBaseUrl(baseUrl: string): URL {
  const base = URL.parse(baseUrl);
  if (base !== null && /^https?:$/.test(base.protocol)) return base;
  throw new ExportError('ConfigurationError', 'baseUrl: must be a URL, such as https://reports.example.com');
}
