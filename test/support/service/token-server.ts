/**
 * An API, and the authorization server of its tokens. Each use of a refresh token replaces it. A refresh token that is
 * used twice is revoked with all that followed from the same consent, as real servers do (RFC 9700, section 4.14.2).
 */

import { randomBytes } from 'node:crypto';
import { createServer, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { listen } from './loopback.ts';
import { type Api, apiSchema } from '../../../lib/service/api/description.ts';

export const clientSecret = 'Cl13nt-s3cret+of/"this"&<app>0123456789';

interface TokenServerOptions {
  /** How long access tokens live. Null or absent: the server does not say. */
  readonly lifeSeconds?: number | string | null | undefined;
  /** Whether a refresh token is replaced. */
  readonly rotates?: boolean;
  /** Called before the response of the token endpoint, after the token was replaced. */
  readonly beforeResponse?: ((response: ServerResponse) => void | Promise<void>) | undefined;
  /** Other fields of that response; undefined removes one. */
  readonly alter?: object | undefined;
  /** Instead of the response of the token endpoint. */
  readonly respond?: ((response: ServerResponse, form: URLSearchParams) => void) | undefined;
  /** The pages of the API. */
  readonly pages?: number;
  readonly clientAuthentication?: 'basic' | 'body' | 'none';
}

export async function startTokenServer(initial: TokenServerOptions = {}) {
  const options = { lifeSeconds: 3_600, rotates: true, pages: 1, ...initial };
  /** The consent of each refresh token, and whether it is used up. */
  const refreshTokens = new Map<string, { readonly consent: number; isUsed: boolean }>();
  const accessTokens = new Set<string>();
  const revoked = new Set<number>();
  const exchanged: string[] = [];
  const reused: string[] = [];
  const requests: string[] = [];
  let consents = 0;

  const newToken = (consent: number, name = 'refresh'): string => {
    const token = `${name}-${consent}-${randomBytes(12).toString('hex')}`;
    if (name === 'refresh') refreshTokens.set(token, { consent, isUsed: false });
    else accessTokens.add(token);
    return token;
  };
  const send = (response: ServerResponse, status: number, value: unknown) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));

  async function issue(response: ServerResponse, form: URLSearchParams, authorization = ''): Promise<void> {
    const sent = form.get('refresh_token') ?? '';
    exchanged.push(sent);
    if (options.respond !== undefined) {
      options.respond(response, form);
      return;
    }
    const basic = Buffer.from(authorization.replace('Basic ', ''), 'base64').toString();
    const secret = {
      basic: new URLSearchParams(`x=${basic.split(':')[1] ?? ''}`).get('x'),
      body: form.get('client_secret'),
    };
    const { clientAuthentication: method = 'basic' } = options;
    const isUnknown = method !== 'basic' && form.get('client_id') !== 'the exporter';
    if (isUnknown || (method !== 'none' && secret[method] !== clientSecret))
      return void send(response, 401, { error: 'invalid_client' });
    const known = refreshTokens.get(sent);
    if (known?.isUsed === true) {
      reused.push(sent);
      revoked.add(known.consent);
    }
    if (form.get('grant_type') !== 'refresh_token' || known === undefined || revoked.has(known.consent)) {
      return void send(response, 400, {
        error: 'invalid_grant',
        error_description: `${sent} is used, revoked or unknown`,
      });
    }
    known.isUsed = options.rotates;
    const issued = {
      access_token: newToken(known.consent, 'access'),
      token_type: 'Bearer',
      expires_in: options.lifeSeconds,
      ...(options.rotates && { refresh_token: newToken(known.consent) }),
    };
    await options.beforeResponse?.(response);
    send(response, 200, { ...issued, ...options.alter });
  }

  const server = await listen(
    createServer((request, response) => {
      void (async () => {
        const url = new URL(request.url ?? '', 'http://localhost');
        const { authorization } = request.headers;
        if (url.pathname === '/token')
          return await issue(response, new URLSearchParams(await text(request)), authorization);
        const token = authorization?.replace('Bearer ', '') ?? '';
        requests.push(token);
        if (!accessTokens.has(token)) return void send(response, 401, { error: `${token} has expired` });
        const page = Number(url.searchParams.get('cursor') ?? 1);
        send(response, 200, { data: [{ id: page }], next: page < options.pages ? `${page + 1}` : null });
      })();
    }),
  );
  return {
    ...server,
    options: options as { -readonly [Name in keyof TokenServerOptions]: TokenServerOptions[Name] },
    /** The refresh tokens that were sent, in order. */
    exchanged,
    /** The refresh tokens that were sent twice. */
    reused,
    /** The access tokens that the API was sent. */
    requests,
    /** The token that a person stores after a consent. */
    consent: () => JSON.stringify({ client_secret: clientSecret, refresh_token: newToken((consents += 1)) }),
    /** Makes all access tokens invalid. */
    expire: () => accessTokens.clear(),
    /** Every token that was issued. */
    issued: () => [...refreshTokens.keys(), ...accessTokens],
  };
}

export type TokenServer = Awaited<ReturnType<typeof startTokenServer>>;

/** The description of the API, as in settings. */
export const describedWithTokens = (url: string, auth: object = {}) =>
  ({
    request: { path: '/v1/reports', query: { since: '{since}' } },
    auth: { kind: 'oauth2', tokenUrl: `${url}/token`, clientId: 'the exporter', grant: 'refresh_token', ...auth },
    next: { from: 'body', at: '/next', to: { query: 'cursor' } },
    page: { format: 'json', reports: '/data/*' },
  }) as const;

export const apiWithTokens = (url: string, auth: object = {}): Api => apiSchema.parse(describedWithTokens(url, auth));
