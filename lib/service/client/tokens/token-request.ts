/** The request for a token: where it is sent, its fields, and its assertion, which is signed. */

import { ExportError } from '../../../core/errors.ts';
import type { Assertion, TokenKind, TokenServer } from '../../api/auth/kind.ts';
import { type Auth, authKindOf, credentialsOf } from '../../api/auth/kinds.ts';
import type { Send } from '../../api/auth/send.ts';
import { commonHeaders, type HeaderSettings } from '../../../settings/network-settings.ts';
import { type ApiKeySource, readAt, type RecentKeys } from '../api-key.ts';
import type { Server } from '../errors.ts';
import type { ExchangeOptions } from '../exchange.ts';

/** The connection of the service. */
export interface TokenConnection extends ExchangeOptions {
  readonly base: URL;
  readonly recentKeys: RecentKeys;
  readonly headerSettings: HeaderSettings;
}

/** Some servers accept assertions of five minutes at most. */
export const assertionSeconds = 180;

export function createTokenRequests(auth: Auth, source: ApiKeySource, connection: TokenConnection) {
  const { base, clock, recentKeys, headerSettings } = connection;
  const kind = authKindOf(auth).token as TokenKind<Auth>;
  const place = kind.server(auth);
  const server = serverOf(place, base);

  async function prepare(secret: string) {
    const { parts, secrets, headers } = readAt(source.place, () => credentialsOf(auth, secret));
    recentKeys.add(...secrets);
    const request = kind.request(auth, parts);
    const { assertion } = request;
    const signed = assertion && (await sign(assertion, clock.now(), source.place));
    if (signed !== undefined) recentKeys.add(signed);
    return { request, signed, headers };
  }

  return {
    server,
    /** Whether the assertion itself is the token, and nothing is sent. */
    isSelfSigned: place === undefined,
    signToken: async (secret: string): Promise<string> => (await prepare(secret)).signed ?? '',
    async build(secret: string) {
      const { request, signed, headers } = await prepare(secret);
      const { assertion, encoding } = request;
      const fields = { ...request.fields, ...(assertion && { [assertion.as]: signed }) };
      const isJson = encoding === 'json';
      return {
        method: 'POST' as const,
        path: `${server.base.pathname}${server.base.search}`,
        headers: {
          ...headersOf(place, headerSettings),
          accept: 'application/json',
          'accept-encoding': 'identity',
          'content-type': isJson ? 'application/json' : 'application/x-www-form-urlencoded',
          // The service may require the headers of its other requests.
          ...(place !== undefined && 'path' in place ? headers : {}),
          ...request.headers,
        },
        body: isJson ? JSON.stringify(fields) : new URLSearchParams(fields as Record<string, string>).toString(),
      };
    },
  };
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
