/** What authenticates requests to a service (docs/apis.md, "Authentication"). */

import { type Auth, authKindOf, credentialsOf, needsSecret } from '../api/auth/kinds.ts';
import type { Send } from '../api/auth/send.ts';
import { type ApiKeySource, readAt } from './api-key.ts';
import type { TokenConnection } from './tokens/token-exchange.ts';
import { createTokenSource } from './tokens/tokens.ts';

export interface Sent {
  readonly headers: Send;
  readonly query: Send;
  readonly token: string | undefined;
}

export interface CredentialSource {
  /** Called before every request. */
  get(): Promise<Sent>;
  /** After the service has rejected some: the secret is read again, and a token is replaced. */
  refresh(rejected: Sent): Promise<Sent>;
  destroy(): Promise<void>;
}

/** Credentials that can be sent, and are kept out of messages. @throws ConfigurationError if `auth` needs others */
export function createCredentials(auth: Auth, source: ApiKeySource, connection: TokenConnection): CredentialSource {
  if (!needsSecret({ auth })) {
    const nothing = async () => ({ headers: {}, query: {}, token: undefined });
    return { get: nothing, refresh: nothing, destroy: async () => {} };
  }
  const hasToken = authKindOf(auth).token !== undefined;
  const tokens = hasToken ? createTokenSource(auth, source, connection) : undefined;
  const sentWith = (secret: string, token: string | undefined): Sent => {
    const { headers, query, secrets } = readAt(source.place, () => credentialsOf(auth, secret, token));
    connection.recentKeys.add(...secrets, ...(token === undefined ? [] : [token]));
    return { headers, query, token };
  };
  return {
    async get() {
      const token = await tokens?.get();
      return sentWith(await source.get(), token);
    },
    async refresh(rejected) {
      if (tokens === undefined) return sentWith(await source.refresh(), undefined);
      const token = await tokens.refresh(rejected.token);
      return sentWith(await source.get(), token);
    },
    destroy: async () => await tokens?.destroy(),
  };
}
