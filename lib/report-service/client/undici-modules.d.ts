/**
 * The parts of undici that the client is made of, by the files they stand in: its index loads four times as much, fetch,
 * WebSockets, mocks and caches among it, and every cold start would read it. The types are those of its index.
 */

declare module 'undici/lib/dispatcher/pool.js' {
  import { Pool } from 'undici';

  export default Pool;
}

declare module 'undici/lib/core/connect.js' {
  import { buildConnector } from 'undici';

  export default buildConnector;
}

declare module 'undici/lib/api/api-request.js' {
  import type { Dispatcher } from 'undici';

  /** What `dispatcher.request(options)` is in the index. */
  export default function request(
    this: Dispatcher,
    options: Dispatcher.RequestOptions,
  ): Promise<Dispatcher.ResponseData>;
}
