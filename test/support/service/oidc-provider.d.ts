/** What the tests use of oidc-provider, which has no types. */
declare module 'oidc-provider' {
  import type { IncomingMessage, ServerResponse } from 'node:http';

  interface Stored {
    /** Resolves to its ID or, of a token, to the token. */
    save(): Promise<string>;
  }

  export default class Provider {
    constructor(issuer: string, configuration: object);
    callback(): (request: IncomingMessage, response: ServerResponse) => void;
    on(event: 'grant.error' | 'grant.revoked', listener: (...args: readonly unknown[]) => void): void;
    readonly Client: { find(id: string): Promise<object | undefined> };
    readonly ClientCredentials: { find(token: string): Promise<{ readonly scope?: string } | undefined> };
    readonly AccessToken: { find(token: string): Promise<object | undefined> };
    readonly RefreshToken: new (fields: object) => Stored;
    readonly Grant: new (fields: object) => Stored & { addOIDCScope(scope: string): void };
  }
}
