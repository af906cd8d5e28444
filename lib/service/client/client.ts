/**
 * The client of the Report Export Service (docs/service-contract.md, section 4.1). Sends one request per page and rejects
 * every response that is not clearly a complete page. Retries are left to the state machine, except for a single one with
 * a refreshed API key.
 */

import { asDocumentRoot, rootOfColumns } from '../../core/document-root.ts';
import { ExportError } from '../../core/errors.ts';
import type { Clock, FetchOptions, PageRequest, ReceivedPage, ReportService } from '../../core/ports.ts';
import { isUrl, mediaTypesOf } from '../../settings/api-settings.ts';
import type { ServiceSettings } from '../../settings/settings.ts';
import { type CreatePageCheck, loadPageCheck, showsEnd } from '../formats/formats.ts';
import { directNetwork, type NetworkSource, type Timeouts } from '../network/network.ts';
import { presentable } from '../redaction/redact.ts';
import { type ApiKeySource, assertValidApiKey, createRecentKeys } from './api-key.ts';
import { createTokenSource, credentialHeaders, partsOfSecret } from './auth.ts';
import { contractError } from './errors.ts';
import { createExchanges, type CreatePool, type Exchange, type Response } from './exchange.ts';
import { type CreateGunzip, isInGzip } from './gzip.ts';
import { assertNoNextPage, nextCursorInBody, nextCursorInHeaders, nextHeader } from './paging/next-page.ts';
import { type RequestedPage, saysEmpty } from './paging/page-document.ts';
import { apiFor, authOf, firstCursor, headerNames, httpRequest, type RequestSettings } from './request.ts';
import { readBody } from './response-body.ts';
import {
  assertFraming,
  assertNoLateCursor,
  assertNoOtherCursor,
  readContentType,
  readServiceTime,
} from './response-headers.ts';
import { isKeyRejected, isSuccess, statusError } from './response-status.ts';

export type ClientSettings = Timeouts & RequestSettings & Pick<ServiceSettings, 'baseUrl' | 'maxPageBytes'>;

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
  { apiKey, network = directNetwork, clock, createPool, createGunzip }: ClientOptions,
): ReportServiceClient {
  const { maxPageBytes } = settings;
  const base = parseBaseUrl(settings.baseUrl);
  const auth = authOf(settings);
  const cursorName = headerNames(settings.vendor).cursor;
  const recentKeys = createRecentKeys();
  const connection = { timeouts: settings, network, clock, keys: recentKeys.keys, createPool };
  const exchanges = createExchanges({ name: 'Report service', base, setting: 'baseUrl' }, connection);
  const { userAgent } = settings;
  const tokens =
    'tokenUrl' in auth ? createTokenSource(auth, apiKey, { ...connection, recentKeys, userAgent }) : undefined;
  const keys = tokens ?? apiKey;

  async function fetch(request: PageRequest, options: FetchOptions): Promise<ReceivedPage> {
    const { signal } = options;
    signal?.throwIfAborted();
    using exchange = exchanges.begin(request.label, signal);
    const api = apiFor(settings, request.request);
    const createCheck = await loadPageCheck(api);
    const parts = httpRequest(base, api, request, settings);
    const response = await sendWithFreshCredentials(exchange, parts, request);
    const { statusCode } = response;
    const { context } = exchange;
    const isFirst = request.cursor === null;
    if (!isSuccess(statusCode)) {
      const error = await statusError(context, response, clock, {
        credentials: auth.kind,
        cursor: isFirst ? 'none' : isUrl(api) ? 'url' : api.next.from === 'count' ? 'number' : 'text',
        cursorSettings: settings.api === undefined ? 'cursorIn' : 'next.at and next.to',
        secretPlace: apiKey.place,
        method: parts.method,
        path: parts.path.replace(/\?.*/, ''),
        address: settings.api === undefined ? 'baseUrl' : 'baseUrl and api.request.path',
        fields: settings.api === undefined ? 'filter and size' : 'api.request and filter',
      });
      if (error.retryAfterSeconds === undefined) signal?.throwIfAborted();
      throw error;
    }
    const requested = new URL(`${base.origin}${parts.path}`);
    const page = { context, api, requested, isFirst, sent: request.cursor ?? firstCursor(api, request) };
    return await receivePage(exchange, response, page, createCheck, options);
  }

  /**
   * The response; if it rejects the API key, and there is a newer key or client certificate, the response to a second
   * request with these.
   */
  async function sendWithFreshCredentials(
    exchange: Exchange,
    parts: ReturnType<typeof httpRequest>,
    { assertMaySend }: PageRequest,
  ): Promise<Response> {
    const triedKeys = new Set<string>();
    const send = (key: string) =>
      exchange.send(() => {
        triedKeys.add(key);
        for (const part of partsOfSecret(auth, key)) recentKeys.add(part);
        const headers = { ...parts.headers, ...credentialHeaders(auth, key) };
        assertMaySend?.();
        return { ...parts, headers };
      });
    const readKey = async (read: () => Promise<string>): Promise<string> => {
      if (auth.kind === 'none') return '';
      // A refresh token that is being exchanged is stored before this request may end, and the process with it.
      const key = await (apiKey.update === undefined ? exchange.within(read) : read());
      assertValidApiKey(key);
      return key;
    };
    const key = await readKey(() => keys.get());
    const response = await send(key);
    if (!isKeyRejected(response.statusCode)) return response;
    const refreshedKey = await readKey(() => keys.refresh(key));
    const isRefreshed = await exchange.refreshNetwork();
    return isRefreshed || !triedKeys.has(refreshedKey) ? await send(refreshedKey) : response;
  }

  /** @throws ContractError if the response is neither a complete page nor, for the first one, the status without reports */
  async function receivePage(
    exchange: Exchange,
    response: Response,
    page: RequestedPage,
    createCheck: CreatePageCheck,
    { sink, onNextCursor }: FetchOptions,
  ): Promise<ReceivedPage> {
    const { context, api, isFirst } = page;
    const { statusCode, headers, trailers, timing } = response;
    // 202, for example, says that the reports are not ready yet, perhaps with an empty list.
    const hasContent = settings.api === undefined || statusCode === 200;
    if (!hasContent && !(statusCode === 204 && isFirst && 'status' in (api.page.empty ?? {}))) {
      throw contractError(context, `status ${statusCode}, which is not that of a page`);
    }
    const isGzip = hasContent && isInGzip(context, headers['content-encoding'], settings.compression);
    const [ownType = 'application/octet-stream'] = mediaTypesOf(api.page);
    const contentType = hasContent ? readContentType(context, headers, api.page) : ownType;
    assertFraming(context, headers, !hasContent || isGzip || showsEnd(api.page), maxPageBytes);
    if (!hasContent) assertNoNextPage(page, headers);
    /** Undefined: the body has it. */
    const announcedCursor = hasContent ? nextCursorInHeaders(page, headers) : null;
    const assertNoOther = (where: 'header' | 'trailer', names: readonly string[]) => {
      if (settings.api === undefined && announcedCursor === null)
        assertNoOtherCursor(context, where, names, cursorName);
    };
    assertNoOther('header', Object.keys(headers));
    if (announcedCursor !== undefined) onNextCursor?.(announcedCursor);

    const check = hasContent ? createCheck((text) => presentable(text, context.keys, 150)) : undefined;
    const body = await readBody(exchange, response, { sink, isGzip, createGunzip, maxPageBytes, check });
    assertNoLateCursor(context, Object.keys(trailers), nextHeader(api));
    assertNoOther('trailer', Object.keys(trailers));
    const { content } = body;
    const isEmpty = !hasContent || (content !== undefined && saysEmpty(page, content));
    const nextCursor =
      announcedCursor === undefined && content !== undefined
        ? nextCursorInBody(page, { content, isEmpty, headers })
        : (announcedCursor ?? null);
    if (announcedCursor === undefined) onNextCursor?.(nextCursor);
    const { rootName = null, reports = null } = content ?? {};
    const toRoot = api.page.format === 'csv' ? rootOfColumns : asDocumentRoot;
    return {
      nextCursor,
      serviceTime: readServiceTime(headers.date, timing.latencyMs),
      timing,
      contentType,
      transferredBytes: isGzip ? body.transferredBytes : undefined,
      reports: isEmpty ? 0 : reports,
      documentRoot: rootName === null ? null : toRoot(rootName),
      documentRootText: () => presentable(rootName ?? '', context.keys, 200),
      excerpt: body.excerpt,
    };
  }

  return {
    fetch,
    [Symbol.asyncDispose]: () => Promise.all([exchanges.destroy(), tokens?.destroy()]).then(() => {}),
  };
}

function parseBaseUrl(baseUrl: string): URL {
  const base = URL.parse(baseUrl);
  if (base !== null && /^https?:$/.test(base.protocol)) return base;
  throw new ExportError('ConfigurationError', 'baseUrl: must be a URL, such as https://reports.example.com');
}
