/** Exchanges a secret for a token, as its kind of authentication says; or signs one. */

import type { ExportError } from '../../../core/errors.ts';
import { epochMsOf } from '../../../core/timestamps.ts';
import type { IssuedToken, TokenKind } from '../../api/auth/kind.ts';
import { type Auth, authKindOf, renewsSecret } from '../../api/auth/kinds.ts';
import type { TokenDocument } from '../../api/auth/refresh-token.ts';
import { parseSecret } from '../../api/auth/secret.ts';
import type { ApiKeySource } from '../api-key.ts';
import type { Server } from '../errors.ts';
import { createExchanges, type Exchange, type Response } from '../exchange.ts';
import { excerptOfText, readBeginning } from '../response/excerpt.ts';
import { throttlingInHead } from '../response/reaction.ts';
import { isKeyRejected, isSuccess, type Requested, statusError, throttledError } from '../response/response-status.ts';
import { assertionSeconds, createTokenRequests, type TokenConnection } from './token-request.ts';
import { headerOf, problemError, readTokenResponse } from './token-response.ts';

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
  const { clock, recentKeys, timeouts } = connection;
  const kind = authKindOf(auth).token as TokenKind<Auth>;
  const isRenewed = renewsSecret({ auth });
  const requests = createTokenRequests(auth, source, connection);
  const { server } = requests;
  // A response that is cut off would lose the refresh token in it: the timeouts of pages do not apply.
  const ofExchange = { totalTimeout: maxRefreshMs, headersTimeout: maxRefreshMs, bodyTimeout: maxRefreshMs };
  const exchanges = createExchanges(server, {
    ...connection,
    timeouts: isRenewed ? { ...timeouts, ...ofExchange } : timeouts,
  });

  async function send(exchange: Exchange, secret: string, assertMaySend?: () => void): Promise<Response> {
    const request = await requests.build(secret);
    return await exchange.send(request, async () => assertMaySend?.());
  }

  /** The document that the server returns for the secret, with the fields of a document that it leaves out. */
  async function exchangeAtServer(first: string, assertMaySend?: () => void): Promise<Exchanged> {
    using exchange = exchanges.begin('an access token');
    let secret = first;
    let response = await send(exchange, secret, assertMaySend);
    // The newest refresh token was read right before. Another one may be outdated, and must not be sent.
    if (isRejected(response) && !isRenewed) {
      const refreshed = await source.refresh();
      if (refreshed !== secret) response = await send(exchange, (secret = refreshed));
    }
    if (!isSuccess(response.statusCode)) {
      throw await errorOf(exchange, response, { clock, requested: requestedToken(auth, server) });
    }
    const received = await readTokenResponse(exchange, response, { kind, auth, now: clock.now });
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
    const token = await requests.signToken(secret);
    const requestedAt = Math.floor(clock.now() / 1_000);
    return { document: withToken({}, { token, seconds: assertionSeconds }, { requestedAt }), problem: undefined };
  }

  return { exchange: requests.isSelfSigned ? signToken : exchangeAtServer, destroy: () => exchanges.destroy() };
}

/** The request, for messages. */
function requestedToken(auth: Auth, { base, setting }: Server): Requested {
  const kind = authKindOf(auth).token as TokenKind<Auth>;
  const name = renewsSecret({ auth }) ? 'refresh token' : 'API key';
  return {
    credentials: { name, rejected: kind.rejected(auth), isStored: false },
    misunderstood: kind.misunderstood,
    cursor: 'none',
    cursorSettings: '',
    method: 'POST',
    path: base.pathname,
    address: setting,
  };
}

async function errorOf(
  { context }: Exchange,
  response: Response,
  { clock, requested }: Pick<TokenConnection, 'clock'> & { readonly requested: Requested },
): Promise<ExportError> {
  const excerpt = excerptOfText(context, response.headers, await readBeginning(context, response, clock));
  const throttling = throttlingInHead({ status: response.statusCode, header: headerOf(response) }, clock.now);
  return throttling === undefined
    ? statusError(context, response, requested, excerpt)
    : throttledError(context, response, throttling.seconds, excerpt);
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
