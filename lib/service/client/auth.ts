/** How requests are authenticated with the secret of the service (docs/apis.md, "Authentication"): one codec per kind. */

import sendRequest from 'undici/lib/api/api-request.js';
import { ExportError } from '../../core/errors.ts';
import type { Clock } from '../../core/ports.ts';
import type { Api } from '../../settings/api-settings.ts';
import { commonHeaders, type HeaderSettings } from '../../settings/network-settings.ts';
import type { NetworkSource } from '../network/network.ts';
import { type ApiKeySource, assertValidApiKey, type RecentKeys } from './api-key.ts';
import { type CreatePool, createConnections, sendOver } from './connection-pool.ts';
import { startDeadline, type Timeouts } from './deadline.ts';
import { readExcerpt } from './error-body.ts';
import { contractError, failure, nameOf, type ErrorContext } from './errors.ts';
import { isSuccess, statusError } from './response-status.ts';
import { transportError } from './transport-errors.ts';

type Auth = Api['auth'];
type OAuth2 = Extract<Auth, { readonly kind: 'oauth2' }>;

/** How requests are authenticated with a secret. */
interface Codec<Kind extends Auth> {
  /** The header, with what stands for the secret: the secret as `encode` has it, or for a person, its source. */
  readonly header: (auth: Kind, secret: string) => Readonly<Record<string, string>>;
  /** The secret in the header. Absent: as it is. @throws ConfigurationError if it is not what this kind needs */
  readonly encode?: (secret: string) => string;
  /** What is in the header, for a person. Absent: the source of the secret. */
  readonly shown?: (auth: Kind) => string;
}

const authorization = (value: string) => ({ authorization: value });

const codecs: { readonly [Kind in Exclude<Auth['kind'], 'none'>]: Codec<Extract<Auth, { readonly kind: Kind }>> } = {
  /** `{"kind": "header", "name": "Authorization", "prefix": "SSWS "}`: `Authorization: SSWS s3cret` */
  header: { header: ({ name, prefix = '' }, key) => ({ [name]: `${prefix}${key}` }) },
  /** `{"kind": "basic"}`: `authorization: Basic dXNlcjpzM2NyZXQ=` */
  basic: {
    header: (_, credentials) => authorization(`Basic ${credentials}`),
    encode(secret) {
      if (secret.includes(':')) return Buffer.from(secret).toString('base64');
      const message = 'The secret of basic authentication must be a user and a password: user:password';
      throw new ExportError('ConfigurationError', message);
    },
  },
  /** `{"kind": "bearer"}`: `authorization: Bearer s3cret` */
  bearer: { header: (_, token) => authorization(`Bearer ${token}`) },
  /**
   * `{"kind": "oauth2", "tokenUrl": …, "clientId": …}`: `authorization: Bearer eyJh…`. The secret is exchanged for access tokens
   * (RFC 6749, section 4.4, client credentials). A token lives in memory only, is shared by all requests of a client, and is replaced
   * before it expires.
   *
   *     POST /oauth2/token with grant_type=client_credentials&scope=reports.read
   *     {"access_token": "eyJh…", "token_type": "Bearer", "expires_in": 3600}
   */
  oauth2: {
    header: (_, token) => authorization(`Bearer ${token}`),
    shown: ({ tokenUrl }) => `(access token from ${tokenUrl})`,
  },
};

const codecOf = (kind: keyof typeof codecs) => codecs[kind] as Codec<Auth>;

/**
 * The header that authenticates a request. With OAuth 2, `secret` is the access token.
 * @throws ConfigurationError if the secret is not what the kind of authentication needs
 */
export function credentialHeaders(auth: Auth, secret: string): Readonly<Record<string, string>> {
  if (auth.kind === 'none') return {};
  const { header, encode } = codecOf(auth.kind);
  return header(auth, encode?.(secret) ?? secret);
}

/** The same header for a person, with `source` in place of the secret. */
export function shownCredentials(auth: Auth, source: string): Readonly<Record<string, string>> {
  if (auth.kind === 'none') return {};
  const { header, shown } = codecOf(auth.kind);
  return header(auth, shown?.(auth) ?? source);
}

/** What of the secret must not be shown: of basic authentication, also the password alone. */
export const partsOfSecret = ({ kind }: Auth, secret: string): readonly string[] =>
  kind === 'none' ? [] : kind === 'basic' ? [secret, secret.slice(secret.indexOf(':') + 1)] : [secret];

interface TokenSourceOptions {
  readonly auth: OAuth2;
  readonly clientSecret: ApiKeySource;
  readonly settings: Timeouts & Pick<HeaderSettings, 'userAgent'>;
  readonly network: NetworkSource;
  readonly clock: Clock;
  readonly recentKeys: RecentKeys;
  readonly createPool?: CreatePool;
}

/** So long before it expires, a token is replaced; of a token that lives for less than four minutes, a quarter of its life. */
const marginMs = 60_000;

const maxResponseBytes = 64 * 1024;

interface TokenResponse {
  readonly access_token: string;
  readonly token_type: string;
  /** In seconds. Some servers write it as text. With 0, a token is used once. */
  readonly expires_in?: number | string | null;
}

const isHeaderValue = (token: unknown) => typeof token === 'string' && /^[\x21-\x7e]+$/.test(token);

function isToken(value: unknown): value is TokenResponse {
  if (typeof value !== 'object' || value === null) return false;
  const { access_token: token, token_type: type, expires_in: seconds } = value as Partial<TokenResponse>;
  return isHeaderValue(token) && /^bearer$/i.test(String(type)) && /^\d+(\.\d+)?$/.test(String(seconds ?? 0));
}

/**
 * The access token as the key of requests. `refresh` reads the client secret again, and requests another token. At most one token is
 * requested at a time.
 * @throws what `ReportService.fetch` throws; ConfigurationError if the server rejects the client
 */
export function createTokenSource(options: TokenSourceOptions): ApiKeySource & { destroy(): Promise<void> } {
  const { auth, clientSecret, settings, network, clock, recentKeys, createPool } = options;
  const address = new URL(auth.tokenUrl);
  const isTls = address.protocol === 'https:';
  const connections = createConnections(address, settings, network, createPool);
  const subject: ErrorContext = {
    label: 'an access token',
    server: { name: `Authorization server ${address.origin}`, setting: 'auth.tokenUrl' },
    keys: recentKeys.keys,
  };
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
    const secret = await clientSecret.get();
    const first = await send(secret);
    if (!isRejected(first)) return await accept(first);
    const refreshed = await clientSecret.refresh().catch((error: unknown) => {
      first.release();
      throw error;
    });
    if (refreshed === secret) return await accept(first);
    first.release();
    return await accept(await send(refreshed));
  }

  async function send(secret: string) {
    assertValidApiKey(secret);
    recentKeys.add(secret);
    const deadline = startDeadline(settings.totalTimeout, undefined, clock);
    const translate = (error: unknown, bytesRead?: number) =>
      transportError(subject, error, { callerSignal: undefined, deadline, timeouts: settings, isTls, bytesRead });
    const client = [auth.clientId, secret].map(formEncoded).join(':');
    const form = new URLSearchParams({ grant_type: 'client_credentials' });
    if (auth.scope !== undefined) form.set('scope', auth.scope);
    try {
      const response = await sendOver(connections, { deadline, translate }, (pool) =>
        deadline.race(
          sendRequest.call(pool, {
            origin: address.origin,
            method: 'POST',
            path: `${address.pathname}${address.search}`,
            headers: {
              ...commonHeaders({ userAgent: settings.userAgent }),
              accept: 'application/json',
              'accept-encoding': 'identity',
              'content-type': 'application/x-www-form-urlencoded',
              authorization: `Basic ${Buffer.from(client).toString('base64')}`,
            },
            body: form.toString(),
            signal: deadline.signal,
          }),
        ),
      );
      response.body.on('error', () => {});
      const release = () => {
        response.body.destroy();
        deadline.release();
      };
      return { ...response, requestedAt: clock.now(), translate, release };
    } catch (error) {
      deadline.release();
      throw error;
    }
  }

  async function accept(response: Awaited<ReturnType<typeof send>>): Promise<string> {
    try {
      if (!isSuccess(response.statusCode)) throw await errorFor(response);
      const received = await readJson(response);
      if (!isToken(received))
        throw contractError(subject, 'the response is not a bearer token (RFC 6749, section 5.1)');
      const { access_token: value, expires_in: seconds } = received;
      recentKeys.add(value);
      const lifeMs = seconds === undefined || seconds === null ? Number.POSITIVE_INFINITY : Number(seconds) * 1_000;
      token = { value, replacedAt: response.requestedAt + lifeMs - Math.min(marginMs, lifeMs / 4) };
      return value;
    } finally {
      response.release();
    }
  }

  async function errorFor(response: Awaited<ReturnType<typeof send>>) {
    const { statusCode } = response;
    const excerpt = await readExcerpt(subject, response, clock);
    if (!isRejected(response)) {
      const context = {
        auth: auth.kind,
        sentCursor: false,
        now: clock.now(),
        base: address,
        address: 'auth.tokenUrl',
        method: 'POST',
        path: address.pathname,
        excerpt,
      };
      return statusError(subject, response, context);
    }
    const message =
      `${nameOf(subject)} responded with ${statusCode}: it rejects the client. Check auth.clientId, auth.scope and the client secret` +
      (excerpt === '' ? '' : `. Response: ${excerpt}`);
    return failure(subject, 'ConfigurationError', message);
  }

  async function readJson({ body, translate }: Awaited<ReturnType<typeof send>>): Promise<unknown> {
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    try {
      for await (const chunk of body as AsyncIterable<Uint8Array>) {
        bytes += chunk.length;
        if (bytes > maxResponseBytes) return undefined;
        chunks.push(chunk);
      }
    } catch (error) {
      throw translate(error, bytes);
    }
    try {
      return JSON.parse(Buffer.concat(chunks).toString());
    } catch {
      return undefined;
    }
  }

  return {
    get: async () => (token !== undefined && clock.now() < token.replacedAt ? token.value : await once(requestToken)),
    refresh: () =>
      once(async () => {
        await clientSecret.refresh();
        return await requestToken();
      }),
    destroy: () => connections.destroy(),
  };
}

const isRejected = ({ statusCode }: { readonly statusCode: number }): boolean => [400, 401, 403].includes(statusCode);

/** RFC 6749, section 2.3.1. */
const formEncoded = (text: string): string => new URLSearchParams([['', text]]).toString().slice(1);
