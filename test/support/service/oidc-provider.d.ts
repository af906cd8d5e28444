/** What the tests use of oidc-provider, which has no types. */
declare module 'oidc-provider' {
  import type { IncomingMessage, ServerResponse } from 'node:http';

  export default class Provider {
    constructor(issuer: string, configuration: object);
    callback(): (request: IncomingMessage, response: ServerResponse) => void;
    readonly ClientCredentials: { find(token: string): Promise<{ readonly scope?: string } | undefined> };
  }
}
