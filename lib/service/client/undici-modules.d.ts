/**
 * The modules of undici that the client needs, by their files. The index would also load fetch, WebSockets, mocks and
 * caches: four times as much code in every cold start. The types are those of the index.
 */

declare module 'undici/lib/dispatcher/pool.js' {
  export { Pool as default } from 'undici';
}

declare module 'undici/lib/core/connect.js' {
  export { buildConnector as default } from 'undici';
}

declare module 'undici/lib/api/api-request.js' {
  import type { Dispatcher } from 'undici';

  /** `dispatcher.request(options)` of the index, as a function. */
  export default function request(
    this: Dispatcher,
    options: Dispatcher.RequestOptions,
  ): Promise<Dispatcher.ResponseData>;
}
