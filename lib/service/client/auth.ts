/** How requests are authenticated with the secret of the service (docs/apis.md, "Authentication"). */

import { ExportError } from '../../core/errors.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import type { Auth } from '../api/auth.ts';
import { commonHeaders, type HeaderSettings } from '../../settings/network-settings.ts';
import {
  type ApiKeySource,
  assertValidApiKey,
  parseTokenDocument,
  type RecentKeys,
  type TokenDocument,
} from './api-key.ts';
import { contractError, type ErrorContext } from './errors.ts';
import { presentable } from '../redaction/redact.ts';
import { createExchanges, type Exchange, type ExchangeOptions, type Response } from './exchange.ts';
import { excerptOfText, readBeginning } from './response/excerpt.ts';
import { readRetryAfter } from './response/reaction.ts';
import { isKeyRejected, isSuccess, type Requested, statusError, throttledError } from './response/response-status.ts';
import { allValues } from './response/response-headers.ts';

type Headers = Readonly<Record<string, string>>;

/**
 * The header that authenticates a request:
 *
 *     {"kind": "header", "name": "Authorization", "prefix": "SSWS "}    Authorization: SSWS s3cret
 *     {"kind": "basic"}                                                 authorization: Basic dXNlcjpzM2NyZXQ=
 *     {"kind": "bearer"}                                                authorization: Bearer s3cret
 *     {"kind": "oauth2", "tokenUrl": …, "clientId": …}                  authorization: Bearer eyJh…
 *
 * With OAuth 2, `secret` is the access token.
 * @throws ConfigurationError if the secret is not what the kind of authentication needs
 */
export function credentialHeaders(auth: Auth, secret: string, encodeBasic = userAndPassword): Headers {
  switch (auth.kind) {
    case 'none':
      return {};
    case 'header':
      return { [auth.name]: `${auth.prefix ?? ''}${secret}` };
    case 'basic':
      return { authorization: `Basic ${encodeBasic(secret)}` };
    case 'bearer':
    case 'oauth2':
    case 'jwt':
      return { authorization: `Bearer ${secret}` };
  }
}

function userAndPassword(secret: string): string {
  if (secret.includes(':')) return Buffer.from(secret).toString('base64');
  const message = 'The secret of basic authentication must be a user and a password: user:password';
  throw new ExportError('ConfigurationError', message);
}

/** The same header for a person, with `source` in place of the secret. */
export const shownCredentials = (auth: Auth, source: string): Headers =>
  credentialHeaders(auth, 'tokenUrl' in auth ? `(access token from ${auth.tokenUrl})` : source, (text) => text);

/** What of the secret must not be shown: of basic authentication, also the password alone. */
export const partsOfSecret = ({ kind }: Auth, secret: string): readonly string[] =>
  kind === 'none' ? [] : kind === 'basic' ? [secret, secret.slice(secret.indexOf(':') + 1)] : [secret];

type TokenResponse = Pick<TokenDocument, 'expires_in'> & {
  readonly [Field in 'access_token' | 'refresh_token' | 'token_type' | 'error']?: unknown;
};
type ValidTokenResponse = Pick<TokenDocument, 'expires_in'> & { readonly access_token: string };

function isValid(response: TokenResponse): response is ValidTokenResponse {
  const { access_token, token_type, expires_in } = response;
  const isHeaderValue = typeof access_token === 'string' && /^[\x21-\x7e]+$/.test(access_token);
  const isNumber = /^\d+(\.\d+)?$/.test(String(expires_in ?? 0));
  return isHeaderValue && isNumber && /^bearer$/i.test(String(token_type));
}

/** The refresh token that replaces the one that was sent; undefined if that remains valid. */
const successorIn = ({ refresh_token: token }: TokenResponse): string | undefined =>
  typeof token === 'number' || (typeof token === 'string' && token !== '') ? String(token) : undefined;

/** So long before it expires, a token is replaced; of a token that lives for less than four minutes, a quarter of its life. */
const marginMs = 60_000;
const maxResponseBytes = 64 * 1024;

type TokenAuth = Extract<Auth, { readonly tokenUrl: string }>;
interface TokenRequest {
  readonly form: Readonly<Record<string, string>>;
  readonly headers?: Headers;
}

/** How a secret is exchanged for a token: one entry per kind. */
const grants: {
  readonly [Kind in TokenAuth['kind']]: (
    auth: Extract<TokenAuth, { readonly kind: Kind }>,
    secret: string,
    now: number,
  ) => TokenRequest | Promise<TokenRequest>;
} = {
  /**
   * RFC 6749, section 4.4, client credentials:
   *
   *     POST /oauth2/token with grant_type=client_credentials&scope=reports.read
   *     {"access_token": "eyJh…", "token_type": "Bearer", "expires_in": 3600}
   *
   * Section 6, refresh tokens: grant_type=refresh_token&refresh_token=8xLO…, to which the response may have the successor.
   */
  oauth2({ clientId, clientAuthentication, scope, grant = 'client_credentials' }, secret) {
    const { client_secret: clientSecret, refresh_token: refreshToken } =
      grant === 'refresh_token' ? parseTokenDocument(secret) : { client_secret: secret };
    const form = {
      grant_type: grant,
      ...(scope !== undefined && { scope }),
      ...(refreshToken !== undefined && { refresh_token: refreshToken }),
    };
    if (clientAuthentication === 'none') return { form: { ...form, client_id: clientId } };
    if (clientSecret === undefined) {
      const message =
        'The secret contains no client_secret. Store it, or set "clientAuthentication": "none" if the client has none';
      throw new ExportError('ConfigurationError', message);
    }
    if (clientAuthentication === 'body') return { form: { ...form, client_id: clientId, client_secret: clientSecret } };
    const client = [clientId, clientSecret].map(formEncoded).join(':');
    return { form, headers: { authorization: `Basic ${Buffer.from(client).toString('base64')}` } };
  },
  /** RFC 7523, section 2.1: `grant_type=urn:ietf:params:oauth:grant-type:jwt-bearer&assertion=eyJh…`, signed with the secret. */
  async jwt({ issuer, subject, audience, algorithm = 'RS256', keyId, scope, tokenUrl }, secret, now) {
    // Only a function that needs it loads it.
    const [{ importPKCS8 }, { SignJWT }] = await Promise.all([import('jose/key/import'), import('jose/jwt/sign')]);
    const seconds = Math.floor(now / 1_000);
    const claims = { iss: issuer, sub: subject, aud: audience ?? tokenUrl, scope };
    const key = await importPKCS8(pemOf(secret), algorithm).catch(() => {
      const message = `The secret is no private key for ${algorithm}. Store it in PEM form: -----BEGIN PRIVATE KEY-----`;
      throw new ExportError('ConfigurationError', message);
    });
    const assertion = await new SignJWT(claims)
      .setProtectedHeader({ alg: algorithm, typ: 'JWT', ...(keyId !== undefined && { kid: keyId }) })
      .setIssuedAt(seconds)
      .setExpirationTime(seconds + assertionSeconds)
      .sign(key);
    return { form: { grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer', assertion } };
  },
};

/** Some servers accept five minutes at most. */
const assertionSeconds = 180;

/** In an environment variable and in JSON, line breaks are often written as `\n`. */
const pemOf = (secret: string): string => secret.replaceAll(String.raw`\n`, '\n');

/** The time for an exchange of a refresh token, for which other processes wait. */
const maxRefreshMs = 30_000;

interface Token {
  readonly value: string;
  /** In milliseconds since the epoch. */
  readonly replacedAt: number;
}

/** `problem`: what is wrong with a response whose refresh token must be stored nevertheless, because the one that was sent may be used up. */
interface Exchanged {
  readonly document: TokenDocument;
  readonly problem: ExportError | undefined;
}

/** The access token in a document. Without an end, it is used until the service rejects it. */
function tokenIn({ access_token: value = '', expires_in: seconds, expires_at: end }: TokenDocument): Token {
  const lifeMs = Number(seconds ?? Number.POSITIVE_INFINITY) * 1_000;
  return {
    value,
    replacedAt: end === undefined ? Number.POSITIVE_INFINITY : end * 1_000 - Math.min(marginMs, lifeMs / 4),
  };
}

/**
 * The access token as the key of requests. The secret is exchanged for it, as `grants` says.
 *
 * It is shared by all requests of a client, and is replaced before it expires. `refresh` reads the secret again, and requests another
 * token. At most one token is requested at a time. It lives in memory only, unless the secret is a refresh token: then it is stored
 * with that, for other processes, and before it is used.
 * @throws what `ReportService.fetch` throws; ConfigurationError if the server rejects the client
 */
export function createTokenSource(
  auth: TokenAuth,
  source: ApiKeySource,
  connection: ExchangeOptions & { readonly recentKeys: RecentKeys; readonly userAgent: HeaderSettings['userAgent'] },
): ApiKeySource & { destroy(): Promise<void> } {
  const { clock, recentKeys, userAgent, timeouts } = connection;
  const base = new URL(auth.tokenUrl);
  const server = { name: `Authorization server ${base.origin}`, base, setting: 'auth.tokenUrl' };
  const isRenewed = auth.kind === 'oauth2' && auth.grant === 'refresh_token';
  // A response that is cut off would lose the refresh token in it: the timeouts of pages do not apply.
  const ofExchange = { totalTimeout: maxRefreshMs, headersTimeout: maxRefreshMs, bodyTimeout: maxRefreshMs };
  const exchanges = createExchanges(server, {
    ...connection,
    timeouts: isRenewed ? { ...timeouts, ...ofExchange } : timeouts,
  });
  const credentials: Requested['credentials'] =
    auth.kind === 'jwt' ? 'private key' : isRenewed ? 'refresh token' : 'client secret';
  let token: Token | undefined;
  let pending: Promise<string> | undefined;
  /** The result of an exchange of the secret `from`, until it is stored. */
  let unstored: (Exchanged & { readonly from: string }) | undefined;

  const isUsable = (known: Token, rejected?: string): boolean =>
    known.value !== '' && known.value !== rejected && clock.now() < known.replacedAt;

  /** The result of the request that is under way, or of a new one. */
  const once = (request: () => Promise<Token>): Promise<string> => {
    pending ??= request()
      .then((received) => (token = received).value)
      .finally(() => {
        pending = undefined;
      });
    return pending;
  };

  async function requestToken(rejected?: string): Promise<Token> {
    if (!isRenewed) return tokenIn((await exchangeSecret(await source.get())).document);
    if (rejected === undefined) {
      const stored = tokenIn(readDocument(await source.get()));
      if (isUsable(stored)) return stored;
    }
    if (source.update === undefined) {
      const stored = tokenIn(readDocument(await source.refresh()));
      if (isUsable(stored, rejected)) return stored;
      const message =
        'No access token is stored that is valid, and only the function may replace the refresh token. It does so when a run requests a ' +
        'page, and when doctor checks it: then repeat the command';
      throw new ExportError('ConfigurationError', message);
    }
    const renewed = await source.update(async (newest, assertMaySend) => {
      // A result that could not be stored takes effect first. It is worthless once the secret is another one.
      if (unstored?.from === newest) return JSON.stringify(unstored.document);
      unstored = undefined;
      // Another process may have replaced it.
      if (isUsable(tokenIn(readDocument(newest)), rejected)) return newest;
      unstored = { from: newest, ...(await exchangeSecret(newest, assertMaySend)) };
      return JSON.stringify(unstored.document);
    });
    const problem = unstored?.problem;
    unstored = undefined;
    if (problem !== undefined) throw problem;
    return tokenIn(parseTokenDocument(renewed));
  }

  function readDocument(secret: string): TokenDocument {
    const document = parseTokenDocument(secret, source.place);
    for (const part of [document.client_secret, document.access_token, document.refresh_token]) {
      if (part !== undefined) recentKeys.add(part);
    }
    return document;
  }

  /** What the server returns for the secret, with the fields of a document that it leaves out. */
  async function exchangeSecret(first: string, assertMaySend?: () => void): Promise<Exchanged> {
    using exchange = exchanges.begin('an access token');
    let secret = first;
    let response = await send(exchange, secret, assertMaySend);
    // The newest refresh token was read right before. What is read again may be outdated, and must not be sent.
    if (isRejected(response) && !isRenewed) {
      const refreshed = await source.refresh();
      if (refreshed !== secret) response = await send(exchange, (secret = refreshed));
    }
    if (!isSuccess(response.statusCode)) {
      throw await errorOf(exchange, response);
    }
    const received = await readJson(exchange, response);
    const successor = isRenewed ? successorIn(received) : undefined;
    const { access_token, expires_in }: Partial<ValidTokenResponse> = isValid(received) ? received : {};
    for (const token of [access_token, successor]) if (token !== undefined) recentKeys.add(token);
    const problem = access_token === undefined ? notBearer(exchange.context, received) : undefined;
    if (problem !== undefined && successor === undefined) throw problem;
    const requestedAt = Math.floor(epochMsOf(response.timing.requestedAt) / 1_000);
    const expires_at = expires_in === undefined || expires_in === null ? undefined : requestedAt + Number(expires_in);
    const document = isRenewed ? parseTokenDocument(secret) : undefined;
    const refresh_token = successor ?? document?.refresh_token;
    return { document: { ...document, access_token, expires_in, expires_at, refresh_token }, problem };
  }

  async function errorOf({ context }: Exchange, response: Response): Promise<ExportError> {
    const excerpt = excerptOfText(context, response.headers, await readBeginning(context, response, clock));
    const header = (name: string) => response.headers[name] && allValues(response.headers[name]);
    const seconds = readRetryAfter(header('retry-after'), { header }, clock.now);
    const isRedirect = response.statusCode >= 300 && response.statusCode < 400;
    const isThrottled = response.statusCode === 429 || (seconds !== undefined && !isRedirect);
    if (isThrottled) return throttledError(context, response, seconds, excerpt);
    const requested: Requested = {
      credentials,
      cursor: 'none',
      cursorSettings: '',
      method: 'POST',
      path: base.pathname,
      address: server.setting,
    };
    return statusError(context, response, requested, excerpt);
  }

  async function send(exchange: Exchange, secret: string, assertMaySend?: () => void): Promise<Response> {
    if (isRenewed) readDocument(secret);
    else recentKeys.add(secret);
    if (auth.kind === 'oauth2' && !isRenewed) assertValidApiKey(secret);
    const grant = grants[auth.kind] as (auth: TokenAuth, secret: string, now: number) => Promise<TokenRequest>;
    const { form, headers } = await grant(auth, secret, clock.now());
    if (form.assertion !== undefined) recentKeys.add(form.assertion);
    const body = new URLSearchParams({ ...form, ...auth.parameters }).toString();
    return await exchange.send(() => {
      assertMaySend?.();
      return {
        method: 'POST',
        path: `${base.pathname}${base.search}`,
        headers: {
          ...commonHeaders({ userAgent }),
          accept: 'application/json',
          'accept-encoding': 'identity',
          'content-type': 'application/x-www-form-urlencoded',
          ...headers,
        },
        body,
      };
    });
  }

  return {
    get: async () => (token !== undefined && isUsable(token) ? token.value : await once(() => requestToken())),
    refresh: async (rejected) => {
      // Another request may have replaced it.
      if (isRenewed && token !== undefined && isUsable(token, rejected)) return token.value;
      return await once(async () => {
        if (!isRenewed) await source.refresh();
        return await requestToken(rejected);
      });
    },
    async destroy() {
      if (isRenewed) await pending?.catch(() => {});
      await exchanges.destroy();
    },
  };
}

const isRejected = ({ statusCode }: Response): boolean => statusCode === 400 || isKeyRejected(statusCode);

function notBearer(context: ErrorContext, { error }: TokenResponse): ExportError {
  const code = typeof error === 'string' && /^[a-z_]{1,40}$/.test(error) ? presentable(error, context.keys, 40) : '';
  const problem = 'the response is not a bearer token (RFC 6749, section 5.1)';
  return contractError(context, code === '' ? problem : `${problem}, but the error ${code}`);
}

/** Without fields if it is not JSON, no object, or too long. */
async function readJson(exchange: Exchange, { body }: Response): Promise<TokenResponse> {
  let text = '';
  try {
    for await (const chunk of body.setEncoding('utf8') as AsyncIterable<string>) {
      text += chunk;
      if (text.length > maxResponseBytes) return {};
    }
  } catch (error) {
    throw exchange.explain(error, text.length);
  }
  try {
    return Object(JSON.parse(text)) as TokenResponse;
  } catch {
    return {};
  }
}

/** RFC 6749, section 2.3.1. */
const formEncoded = (text: string): string => new URLSearchParams([['', text]]).toString().slice(1);
