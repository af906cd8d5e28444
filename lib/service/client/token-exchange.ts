/** Requests a token for a secret, as its kind of authentication says; or signs one. */

import { ExportError } from '../../core/errors.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import type { Assertion, IssuedToken, TokenKind, TokenProblem, TokenRequest, TokenServer } from '../api/auth/kind.ts';
import { type Auth, authKindOf, credentialsOf, renewsSecret } from '../api/auth/kinds.ts';
import type { TokenDocument } from '../api/auth/refresh-token.ts';
import { parseSecret } from '../api/auth/secret.ts';
import type { Send } from '../api/auth/send.ts';
import { readDocument } from '../formats/formats.ts';
import { presentable } from '../redaction/redact.ts';
import { commonHeaders, type HeaderSettings } from '../../settings/network-settings.ts';
import { type ApiKeySource, readAt, type RecentKeys } from './api-key.ts';
import { contractError, type Server } from './errors.ts';
import { createExchanges, type Exchange, type ExchangeOptions, type Response } from './exchange.ts';
import { excerptOfText, readBeginning } from './response/excerpt.ts';
import { readRetryAfter, readWait } from './response/reaction.ts';
import { isKeyRejected, isSuccess, statusError, throttledError } from './response/response-status.ts';
import { allValues } from './response/response-headers.ts';

const maxResponseBytes = 64 * 1024;

/** Some servers accept assertions of five minutes at most. */
const assertionSeconds = 180;

/** The time for an exchange of a refresh token, for which other processes wait. */
const maxRefreshMs = 30_000;

/** The connection of the service. */
export interface TokenConnection extends ExchangeOptions {
  readonly base: URL;
  readonly recentKeys: RecentKeys;
  readonly headerSettings: HeaderSettings;
}

/** `problem`: what is wrong with a response whose refresh token must be stored nevertheless, because the one that was sent may be used up. */
export interface Exchanged {
  /** The secret, with the token and what else replaces a part of it. */
  readonly document: TokenDocument;
  readonly problem: ExportError | undefined;
}

/** `assertMaySend` throws if a secret must no longer be sent that its use replaces. */
type ExchangeSecret = (secret: string, assertMaySend?: () => void) => Promise<Exchanged>;

export function createTokenExchange(
  auth: Auth,
  source: ApiKeySource,
  connection: TokenConnection,
): { readonly exchange: ExchangeSecret; readonly destroy: () => Promise<void> } {
  const { clock, recentKeys, timeouts } = connection;
  const kind = authKindOf(auth).token as TokenKind<Auth>;
  const isRenewed = renewsSecret({ auth });
  const place = kind.server(auth);
  const server = serverOf(place, connection.base);
  // A response that is cut off would lose the refresh token in it: the timeouts of pages do not apply.
  const ofExchange = { totalTimeout: maxRefreshMs, headersTimeout: maxRefreshMs, bodyTimeout: maxRefreshMs };
  const exchanges = createExchanges(server, {
    ...connection,
    timeouts: isRenewed ? { ...timeouts, ...ofExchange } : timeouts,
  });

  /** The request for a token, with its assertion signed; and the headers that the service requires of it, too. */
  async function prepare(secret: string): Promise<TokenRequest & { readonly signed: string | undefined }> {
    const { parts, secrets, headers } = readAt(source.place, () => credentialsOf(auth, secret));
    recentKeys.add(...secrets);
    const request = kind.request(auth, parts);
    const { assertion } = request;
    const signed = assertion && (await sign(assertion, clock.now(), source.place));
    if (signed !== undefined) recentKeys.add(signed);
    const fields = { ...request.fields, ...(assertion && { [assertion.as]: signed }) };
    const own = place !== undefined && 'path' in place ? headers : {};
    return { ...request, fields: fields as TokenRequest['fields'], headers: { ...own, ...request.headers }, signed };
  }

  async function send(exchange: Exchange, secret: string, assertMaySend?: () => void): Promise<Response> {
    const { fields, encoding, headers } = await prepare(secret);
    const isJson = encoding === 'json';
    return await exchange.send(() => {
      assertMaySend?.();
      return {
        method: 'POST',
        path: `${server.base.pathname}${server.base.search}`,
        headers: {
          ...headersOf(place, connection.headerSettings),
          accept: 'application/json',
          'accept-encoding': 'identity',
          'content-type': isJson ? 'application/json' : 'application/x-www-form-urlencoded',
          ...headers,
        },
        body: isJson ? JSON.stringify(fields) : new URLSearchParams(fields as Record<string, string>).toString(),
      };
    });
  }

  async function errorOf({ context }: Exchange, response: Response): Promise<ExportError> {
    const excerpt = excerptOfText(context, response.headers, await readBeginning(context, response, clock));
    const seconds = readRetryAfter(headerOf(response)('retry-after'), { header: headerOf(response) }, clock.now);
    const isRedirect = response.statusCode >= 300 && response.statusCode < 400;
    const isThrottled = response.statusCode === 429 || (seconds !== undefined && !isRedirect);
    if (isThrottled) return throttledError(context, response, seconds, excerpt);
    const { pathname: path } = server.base;
    const requested = {
      credentials: { name: isRenewed ? 'refresh token' : 'API key', rejected: kind.rejected(auth), isStored: false },
      misunderstood: kind.misunderstood,
      cursor: 'none',
      cursorSettings: '',
      method: 'POST',
      path,
      address: server.setting,
    } as const;
    return statusError(context, response, requested, excerpt);
  }

  /** What the server returns for the secret, with the fields of a document that it leaves out. */
  async function exchangeAtServer(first: string, assertMaySend?: () => void): Promise<Exchanged> {
    using exchange = exchanges.begin('an access token');
    let secret = first;
    let response = await send(exchange, secret, assertMaySend);
    // The newest refresh token was read right before. What is read again may be outdated, and must not be sent.
    if (isRejected(response) && !isRenewed) {
      const refreshed = await source.refresh();
      if (refreshed !== secret) response = await send(exchange, (secret = refreshed));
    }
    if (!isSuccess(response.statusCode)) throw await errorOf(exchange, response);
    const received = await read(exchange, response);
    const { successor } = received;
    const issued = 'token' in received ? received : undefined;
    for (const each of [issued?.token, successor]) if (each !== undefined) recentKeys.add(each);
    const problem = 'problem' in received ? problemError(exchange, received) : undefined;
    if (problem !== undefined && successor === undefined) throw problem;
    const requestedAt = Math.floor(epochMsOf(response.timing.requestedAt) / 1_000);
    const document = isRenewed ? (parseSecret(secret).fields as TokenDocument) : {};
    return { document: withToken(document, issued, { requestedAt, successor }), problem };
  }

  async function read(exchange: Exchange, response: Response): Promise<IssuedToken | TokenProblem> {
    const bytes = await readBytes(exchange, response);
    const content = bytes && (await readDocument(bytes, kind.paths(auth)));
    if (content === undefined) return { problem: 'it is no JSON document' };
    const { value } = content;
    const header = headerOf(response);
    return kind.read(auth, { value, seconds: (path) => readWait(value(path).text, { header }, clock.now) });
  }

  async function signToken(secret: string): Promise<Exchanged> {
    const { signed: token = '' } = await prepare(secret);
    const requestedAt = Math.floor(clock.now() / 1_000);
    return { document: withToken({}, { token, seconds: assertionSeconds }, { requestedAt }), problem: undefined };
  }

  return { exchange: place === undefined ? signToken : exchangeAtServer, destroy: () => exchanges.destroy() };
}

function serverOf(place: TokenServer | undefined, service: URL): Server {
  if (place !== undefined && 'url' in place) {
    const base = new URL(place.url);
    return { name: `Authorization server ${base.origin}`, base, setting: place.setting };
  }
  const base = new URL(`${service.origin}${service.pathname.replace(/\/+$/, '')}${place?.path ?? ''}`);
  return { name: 'Report service', base, setting: place?.setting ?? 'baseUrl' };
}

/** Further headers are for the service alone. */
const headersOf = (place: TokenServer | undefined, settings: HeaderSettings): Send =>
  commonHeaders(place !== undefined && 'path' in place ? settings : { userAgent: settings.userAgent });

/** RFC 7523, signed as RFC 7515 says. @throws ConfigurationError if the key is not one of the algorithm */
async function sign(assertion: Assertion, now: number, place = 'The secret'): Promise<string> {
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

function withToken(
  document: TokenDocument,
  issued: IssuedToken | undefined,
  { requestedAt, successor }: { readonly requestedAt: number; readonly successor?: string | undefined },
): TokenDocument {
  const { token: access_token, seconds: expires_in } = issued ?? {};
  const expires_at = expires_in === undefined ? undefined : requestedAt + expires_in;
  return { ...document, access_token, expires_in, expires_at, refresh_token: successor ?? document.refresh_token };
}

const isRejected = ({ statusCode }: Response): boolean => statusCode === 400 || isKeyRejected(statusCode);

const headerOf =
  ({ headers }: Response) =>
  (name: string): string | undefined => {
    const value = headers[name];
    return value === undefined ? undefined : allValues(value);
  };

function problemError({ context }: Exchange, { problem, code }: TokenProblem): ExportError {
  const isCode = code !== undefined && /^[a-z_]{1,40}$/.test(code);
  return contractError(context, isCode ? `${problem}, but the error ${presentable(code, context.keys, 40)}` : problem);
}

/** undefined if there are too many. */
async function readBytes(exchange: Exchange, { body }: Response): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      length += chunk.length;
      if (length > maxResponseBytes) return undefined;
    }
  } catch (error) {
    throw exchange.explain(error, length);
  }
  return Buffer.concat(chunks);
}
