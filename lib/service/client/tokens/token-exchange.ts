/** Exchanges a secret for a token, as its kind of authentication says; or signs one. */

import { ExportError } from '../../../core/errors.ts';
import type { Clock } from '../../../core/ports.ts';
import { epochMsOf } from '../../../core/timestamps.ts';
import type { Assertion, IssuedToken, TokenKind, TokenProblem, TokenRequest } from '../../api/auth/kind.ts';
import { type Auth, authKindOf, credentialsOf, renewsSecret } from '../../api/auth/kinds.ts';
import type { TokenDocument } from '../../api/auth/refresh-token.ts';
import { parseSecret } from '../../api/auth/secret.ts';
import type { Send } from '../../api/auth/send.ts';
import { commonHeaders, type HeaderSettings } from '../../../settings/network-settings.ts';
import { readDocument } from '../../formats/formats.ts';
import { presentable } from '../../redaction/redact.ts';
import { type ApiKeySource, readAt, type RecentKeys } from '../api-key.ts';
import { contractError, type Server } from '../errors.ts';
import { createExchanges, type Exchange, type ExchangeOptions, type Response } from '../exchange.ts';
import { excerptOf, excerptOfText, readBeginning } from '../response/excerpt.ts';
import { peek } from '../response/peek.ts';
import { isKeyRejected, readWait, throttlingInHead } from '../response/reaction.ts';
import { headerOf } from '../response/response-headers.ts';
import { type Requested, statusError, throttledError } from '../response/response-error.ts';

/** The connection of the service. */
export interface TokenConnection extends ExchangeOptions {
  readonly base: URL;
  readonly recentKeys: RecentKeys;
  readonly headerSettings: HeaderSettings;
}

/** The time for an exchange of a refresh token, for which other processes wait. */
const maxRefreshMs = 30_000;

export interface Exchanged {
  /** The secret, with the token and what else replaces a part of it. */
  readonly document: TokenDocument;
  /** The response is wrong, but its refresh token must be stored: the one that was sent may be used up. */
  readonly problem: ExportError | undefined;
}

/** `assertMaySend` throws if a secret must no longer be sent that its use replaces. */
type ExchangeSecret = (secret: string, assertMaySend?: () => void) => Promise<Exchanged>;

export function createTokenExchange(
  auth: Auth,
  source: ApiKeySource,
  connection: TokenConnection,
): { readonly exchange: ExchangeSecret; readonly destroy: () => Promise<void> } {
  const { base, clock, recentKeys, headerSettings, timeouts } = connection;
  const kind = authKindOf(auth).token as TokenKind<Auth>;
  const isRenewed = renewsSecret({ auth });
  const { server, isService, isSelfSigned } = serverOf(kind.server(auth), base);
  // A response that is cut off would lose the refresh token in it: the timeouts of pages do not apply.
  const ofExchange = { totalTimeout: maxRefreshMs, headersTimeout: maxRefreshMs, bodyTimeout: maxRefreshMs };
  const exchanges = createExchanges(server, {
    ...connection,
    timeouts: isRenewed ? { ...timeouts, ...ofExchange } : timeouts,
  });

  async function prepare(secret: string) {
    const { parts, secrets, headers } = readAt(source.place, () => credentialsOf(auth, secret));
    recentKeys.add(...secrets);
    const request = kind.request(auth, parts);
    const { assertion } = request;
    const signed = assertion && (await signAssertion(assertion, clock.now(), source.place));
    if (signed !== undefined) recentKeys.add(signed);
    return { request, signed, headers };
  }

  async function send(exchange: Exchange, secret: string, assertMaySend?: () => void): Promise<Response> {
    const { request, signed, headers } = await prepare(secret);
    // Further headers are for the service alone, which may require those of its other requests.
    const common = isService
      ? { ...commonHeaders(headerSettings), ...headers }
      : commonHeaders({ userAgent: headerSettings.userAgent });
    const sent = httpRequestOf(request, signed, common);
    const path = `${server.base.pathname}${server.base.search}`;
    return await exchange.send({ ...sent, path }, async () => assertMaySend?.());
  }

  /** The document that the server returns for the secret, with the fields of a document that it leaves out. */
  async function exchangeAtServer(first: string, assertMaySend?: () => void): Promise<Exchanged> {
    using exchange = exchanges.begin('an access token');
    let secret = first;
    let response = await send(exchange, secret, assertMaySend);
    // The newest refresh token was read right before. Another one may be outdated, and must not be sent.
    const isRejected = response.statusCode === 400 || isKeyRejected(response.statusCode);
    if (isRejected && !isRenewed) {
      const refreshed = await source.refresh();
      if (refreshed !== secret) response = await send(exchange, (secret = refreshed));
    }
    if (!isSuccess(response.statusCode)) throw await errorOf(exchange, response, clock, requestedToken(auth, server));
    const received = await readToken(exchange, response);
    const { successor } = received;
    const issued = 'token' in received ? received : undefined;
    for (const each of [issued?.token, successor]) if (each !== undefined) recentKeys.add(each);
    const problem = 'problem' in received ? problemError(exchange, received) : undefined;
    if (problem !== undefined && successor === undefined) throw problem;
    const requestedAt = Math.floor(epochMsOf(response.timing.requestedAt) / 1_000);
    const document = isRenewed ? (parseSecret(secret).fields as TokenDocument) : {};
    return { document: withToken(document, issued, { requestedAt, successor }), problem };
  }

  async function signToken(secret: string): Promise<Exchanged> {
    const { signed: token = '' } = await prepare(secret);
    const requestedAt = Math.floor(clock.now() / 1_000);
    return { document: withToken({}, { token, seconds: assertionSeconds }, { requestedAt }), problem: undefined };
  }

  async function readToken(exchange: Exchange, response: Response): Promise<IssuedToken | QuotedProblem> {
    const { bytes } = await peek(exchange, response);
    const content = bytes && (await readDocument(bytes, kind.paths(auth)));
    if (content === undefined) return { problem: 'it is no JSON document' };
    const { value } = content;
    const header = headerOf(response.headers);
    const read = kind.read(auth, { value, seconds: (path) => readWait(value(path).text, { header }, clock.now) });
    return 'problem' in read ? { ...read, excerpt: excerptWithoutToken(exchange, bytes ?? Buffer.alloc(0)) } : read;
  }

  return { exchange: isSelfSigned ? signToken : exchangeAtServer, destroy: () => exchanges.destroy() };
}

const isSuccess = (status: number): boolean => status >= 200 && status < 300 && status !== 206;

function httpRequestOf(
  { fields, assertion, encoding, headers }: TokenRequest,
  signed: string | undefined,
  common: Send,
) {
  const accepted = { ...common, accept: 'application/json', 'accept-encoding': 'identity' };
  if (fields === undefined) {
    // A cache could return a token that was rejected.
    return { method: 'GET' as const, headers: { ...accepted, 'cache-control': 'no-cache', ...headers } };
  }
  const all = { ...fields, ...(assertion && { [assertion.as]: signed }) };
  const isJson = encoding === 'json';
  return {
    method: 'POST' as const,
    headers: {
      ...accepted,
      'content-type': isJson ? 'application/json' : 'application/x-www-form-urlencoded',
      ...headers,
    },
    body: isJson ? JSON.stringify(all) : new URLSearchParams(all as Record<string, string>).toString(),
  };
}

/** Where tokens are requested. `isSelfSigned`: nowhere, because the assertion itself is the token. */
function serverOf(place: ReturnType<TokenKind<Auth>['server']>, service: URL) {
  if (place !== undefined && 'url' in place) {
    const base = new URL(place.url);
    const server: Server = { name: `Authorization server ${base.origin}`, base, setting: place.setting };
    return { server, isService: false, isSelfSigned: false };
  }
  const base = new URL(`${service.origin}${service.pathname.replace(/\/+$/, '')}${place?.path ?? ''}`);
  const server: Server = { name: 'Report service', base, setting: place?.setting ?? 'baseUrl' };
  return { server, isService: true, isSelfSigned: place === undefined };
}

function requestedToken(auth: Auth, { base, setting }: Server): Requested {
  const { rejected, misunderstood } = authKindOf(auth).token as TokenKind<Auth>;
  const name = renewsSecret({ auth }) ? 'refresh token' : 'API key';
  return {
    credentials: { name, rejected: rejected(auth), isStored: false },
    misunderstood,
    cursor: 'none',
    cursorSettings: '',
    method: 'POST',
    path: base.pathname,
    address: setting,
  };
}

async function errorOf({ context }: Exchange, response: Response, clock: Clock, requested: Requested) {
  const excerpt = excerptOfText(context, response.headers, await readBeginning(context, response, clock));
  const head = { status: response.statusCode, header: headerOf(response.headers) };
  const throttling = throttlingInHead(head, clock.now);
  return throttling === undefined
    ? statusError(context, response, requested, excerpt)
    : throttledError(context, response, throttling.seconds, excerpt);
}

/** `excerpt` is how the response begins. */
type QuotedProblem = TokenProblem & { readonly excerpt?: string };

function problemError({ context }: Exchange, { problem, code, excerpt = '' }: QuotedProblem): ExportError {
  const isCode = code !== undefined && /^[a-z_]{1,40}$/.test(code);
  if (isCode) return contractError(context, `${problem}, but the error ${presentable(code, context.keys, 40)}`);
  return contractError(context, excerpt === '' ? problem : `${problem}. Response: ${excerpt}`);
}

const strings = /"((?:[^"\\]|\\.)*)"(\s*:)?|\d{11,}/g;
/** Nothing, a name, or a sentence: words of letters, and short numbers. */
const quotable =
  /^$|^[a-z]{1,12}(_[a-z]{1,12}){0,3}$|^(?!(bearer|basic|token) )[\p{L}\p{P}]{1,20}( ([\p{L}\p{P}]{1,20}|\d{1,6}))+$/u;

/** How the response begins. A token may be anywhere in it, so only names, sentences and short numbers are quoted. */
function excerptWithoutToken({ context }: Exchange, bytes: Uint8Array): string {
  const text = new TextDecoder().decode(bytes).replaceAll(strings, (whole, value?: string, colon?: string) => {
    return colon !== undefined || (value !== undefined && quotable.test(value)) ? whole : '"…"';
  });
  return excerptOf(Buffer.from(text), true, context.keys);
}

function withToken(
  document: TokenDocument,
  issued: IssuedToken | undefined,
  { requestedAt, successor }: { readonly requestedAt: number; readonly successor?: string | undefined },
): TokenDocument {
  const { token: access_token, seconds: expires_in } = issued ?? {};
  const expires_at = expires_in === undefined ? undefined : requestedAt + expires_in;
  return { ...document, access_token, expires_in, expires_at, refresh_token: successor ?? document.refresh_token };
}

/** Some servers accept assertions of five minutes at most. */
const assertionSeconds = 180;

/** RFC 7523, signed as RFC 7515 says. @throws ConfigurationError if the key is not one of the algorithm */
async function signAssertion(assertion: Assertion, now: number, place = 'The secret'): Promise<string> {
  const { privateKey, algorithm, keyId, claims } = assertion;
  // Only a function that needs it loads it.
  const [{ importPKCS8 }, { SignJWT }] = await Promise.all([import('jose/key/import'), import('jose/jwt/sign')]);
  const key = await importPKCS8(privateKey, algorithm).catch(() => {
    const message = `${place} contains no private key for ${algorithm}. Store it in PEM form: -----BEGIN PRIVATE KEY-----`;
    throw new ExportError('ConfigurationError', message);
  });
  const seconds = Math.floor(now / 1_000);
  return await new SignJWT(claims)
    .setProtectedHeader({ alg: algorithm, typ: 'JWT', ...(keyId !== undefined && { kid: keyId }) })
    .setIssuedAt(seconds)
    .setExpirationTime(seconds + assertionSeconds)
    .sign(key);
}
