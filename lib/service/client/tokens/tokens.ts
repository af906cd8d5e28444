/**
 * Tokens, which a secret is exchanged for. A token is shared by all requests of a client, and replaced before it
 * expires. At most one is requested at a time. It lives in memory only, unless the secret is a refresh token: then it
 * is stored with that, for other processes, and before it is used.
 */

import { ExportError } from '../../../core/errors.ts';
import { type Auth, renewsSecret } from '../../api/auth/kinds.ts';
import { parseTokenDocument, type TokenDocument } from '../../api/auth/refresh-token.ts';
import { type ApiKeySource, readAt } from '../api-key.ts';
import { createTokenExchange, type Exchanged, type TokenConnection } from './token-exchange.ts';

/** A token is replaced so long before it expires; a shorter-lived one, a quarter of its life. */
const marginMs = 60_000;

interface Token {
  readonly value: string;
  /** In milliseconds since the epoch. */
  readonly replacedAt: number;
}

/** The access token in a document. Without an end, it is used until the service rejects it. */
function tokenIn({ access_token: value = '', expires_in: seconds, expires_at: end }: TokenDocument): Token {
  const lifeMs = Number(seconds ?? Number.POSITIVE_INFINITY) * 1_000;
  return {
    value,
    replacedAt: end === undefined ? Number.POSITIVE_INFINITY : end * 1_000 - Math.min(marginMs, lifeMs / 4),
  };
}

export interface TokenSource {
  get(): Promise<string>;
  /** Reads the secret again, and returns another token than the rejected one. */
  refresh(rejected: string | undefined): Promise<string>;
  destroy(): Promise<void>;
}

/** `get` and `refresh` throw what `ReportService.fetch` throws; ConfigurationError if the server rejects the client. */
export function createTokenSource(auth: Auth, source: ApiKeySource, connection: TokenConnection): TokenSource {
  const { clock, recentKeys } = connection;
  const isRenewed = renewsSecret({ auth });
  const { exchange, destroy } = createTokenExchange(auth, source, connection);
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

  async function exchangeSecret(): Promise<Token> {
    const { document, problem } = await exchange(await source.get());
    if (problem !== undefined) throw problem;
    return tokenIn(document);
  }

  async function renew(rejected?: string): Promise<Token> {
    if (rejected === undefined) {
      const stored = storedIn(await source.get());
      if (isUsable(stored)) return stored;
    }
    if (source.update === undefined) {
      const stored = storedIn(await source.refresh());
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
      if (isUsable(storedIn(newest), rejected)) return newest;
      unstored = { from: newest, ...(await exchange(newest, assertMaySend)) };
      return JSON.stringify(unstored.document);
    });
    const problem = unstored?.problem;
    unstored = undefined;
    if (problem !== undefined) throw problem;
    return storedIn(renewed);
  }

  function storedIn(secret: string): Token {
    const document = readAt(source.place, () => parseTokenDocument(secret));
    const { client_secret, access_token, refresh_token } = document;
    recentKeys.add(...[client_secret, access_token, refresh_token].filter((part) => part !== undefined));
    return tokenIn(document);
  }

  return {
    get: async () =>
      token !== undefined && isUsable(token) ? token.value : await once(isRenewed ? renew : exchangeSecret),
    refresh: async (rejected) => {
      // Another request may have replaced it.
      if (isRenewed && token !== undefined && isUsable(token, rejected)) return token.value;
      return await once(async () => {
        if (isRenewed) return await renew(rejected);
        await source.refresh();
        return await exchangeSecret();
      });
    },
    async destroy() {
      if (isRenewed) await pending?.catch(() => {});
      await destroy();
    },
  };
}
