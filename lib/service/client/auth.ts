/** How requests are authenticated with the secret of the service (docs/apis.md, "Authentication"). */

import { ExportError } from '../../core/errors.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import type { Api } from '../../settings/api-settings.ts';
import { commonHeaders, type HeaderSettings } from '../../settings/network-settings.ts';
import { type ApiKeySource, assertValidApiKey, type RecentKeys } from './api-key.ts';
import { contractError } from './errors.ts';
import { createExchanges, type Exchange, type ExchangeOptions, type Response } from './exchange.ts';
import { isKeyRejected, isSuccess, statusError } from './response-status.ts';

type Auth = Api['auth'];
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

interface TokenResponse {
  readonly access_token: string;
  readonly token_type: string;
  /** In seconds. Some servers write it as text. With 0, a token is used once. */
  readonly expires_in?: number | string | null;
}

function isToken(value: unknown): value is TokenResponse {
  if (typeof value !== 'object' || value === null) return false;
  const { access_token: token, token_type: type, expires_in: seconds } = value as Partial<TokenResponse>;
  const isHeaderValue = typeof token === 'string' && /^[\x21-\x7e]+$/.test(token);
  return isHeaderValue && /^bearer$/i.test(String(type)) && /^\d+(\.\d+)?$/.test(String(seconds ?? 0));
}

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
   */
  oauth2({ clientId, clientAuthentication, scope }, secret) {
    const form = { grant_type: 'client_credentials', ...(scope !== undefined && { scope }) };
    if (clientAuthentication === 'body') return { form: { ...form, client_id: clientId, client_secret: secret } };
    const client = [clientId, secret].map(formEncoded).join(':');
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

/**
 * The access token as the key of requests. The secret is exchanged for it, as `grants` says.
 *
 * It lives in memory only, is shared by all requests of a client, and is replaced before it expires. `refresh` reads the client secret
 * again, and requests another token. At most one token is requested at a time.
 * @throws what `ReportService.fetch` throws; ConfigurationError if the server rejects the client
 */
export function createTokenSource(
  auth: TokenAuth,
  clientSecret: ApiKeySource,
  connection: ExchangeOptions & { readonly recentKeys: RecentKeys; readonly userAgent: HeaderSettings['userAgent'] },
): ApiKeySource & { destroy(): Promise<void> } {
  const { clock, recentKeys, userAgent } = connection;
  const base = new URL(auth.tokenUrl);
  const server = { name: `Authorization server ${base.origin}`, base, setting: 'auth.tokenUrl' };
  const exchanges = createExchanges(server, connection);
  let token: { readonly value: string; readonly replacedAt: number } | undefined;
  let pending: Promise<string> | undefined;

  /** The result of the request that is under way, or of a new one. */
  const once = (request: () => Promise<string>): Promise<string> => {
    pending ??= request().finally(() => {
      pending = undefined;
    });
    return pending;
  };

  async function requestToken(): Promise<string> {
    using exchange = exchanges.begin('an access token');
    const secret = await clientSecret.get();
    let response = await send(exchange, secret);
    if (isRejected(response)) {
      const refreshed = await clientSecret.refresh();
      if (refreshed !== secret) response = await send(exchange, refreshed);
    }
    if (!isSuccess(response.statusCode)) {
      throw await statusError(exchange.context, response, clock, {
        credentials: auth.kind === 'jwt' ? 'private key' : 'client secret',
        sentCursor: false,
        method: 'POST',
        path: base.pathname,
        address: server.setting,
      });
    }
    const received = await readJson(exchange, response);
    if (!isToken(received)) {
      throw contractError(exchange.context, 'the response is not a bearer token (RFC 6749, section 5.1)');
    }
    const { access_token: value, expires_in: seconds } = received;
    recentKeys.add(value);
    const lifeMs = seconds === undefined || seconds === null ? Number.POSITIVE_INFINITY : Number(seconds) * 1_000;
    const requestedAt = epochMsOf(response.timing.requestedAt);
    token = { value, replacedAt: requestedAt + lifeMs - Math.min(marginMs, lifeMs / 4) };
    return value;
  }

  async function send(exchange: Exchange, secret: string): Promise<Response> {
    if (auth.kind === 'oauth2') assertValidApiKey(secret);
    recentKeys.add(secret);
    const grant = grants[auth.kind] as (auth: TokenAuth, secret: string, now: number) => Promise<TokenRequest>;
    const { form, headers } = await grant(auth, secret, clock.now());
    if (form.assertion !== undefined) recentKeys.add(form.assertion);
    const body = new URLSearchParams({ ...form, ...auth.parameters }).toString();
    return await exchange.send(() => ({
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
    }));
  }

  return {
    get: async () => (token !== undefined && clock.now() < token.replacedAt ? token.value : await once(requestToken)),
    refresh: () =>
      once(async () => {
        await clientSecret.refresh();
        return await requestToken();
      }),
    destroy: () => exchanges.destroy(),
  };
}

const isRejected = ({ statusCode }: Response): boolean => statusCode === 400 || isKeyRejected(statusCode);

/** Undefined if it is not JSON, or too long. */
async function readJson(exchange: Exchange, { body }: Response): Promise<unknown> {
  let text = '';
  try {
    for await (const chunk of body.setEncoding('utf8') as AsyncIterable<string>) {
      text += chunk;
      if (text.length > maxResponseBytes) return undefined;
    }
  } catch (error) {
    throw exchange.explain(error, text.length);
  }
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** RFC 6749, section 2.3.1. */
const formEncoded = (text: string): string => new URLSearchParams([['', text]]).toString().slice(1);
