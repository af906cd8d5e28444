/** An environment as Node.js presents it. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** A client of the SDK, as far as it matters here. */
export interface SdkClient {
  readonly middlewareStack: { remove(name: string): boolean };
}

/**
 * Removes the log of requests, which is off: the SDK copies the input and the output of every request for it all the
 * same, and so spends a third of the time that FinishRun takes to read a run.
 */
export function withoutRequestLog<Client extends SdkClient>(client: Client): Client {
  client.middlewareStack.remove('loggerMiddleware');
  return client;
}

/**
 * Timeouts and attempts of the functions' SDK clients. They retry quickly and rarely: a longer outage is left to the
 * state machine, where waiting costs nothing.
 */
export const sdkConfig = {
  maxAttempts: 5,
  requestHandler: { connectionTimeout: 3_000, requestTimeout: 15_000, throwOnRequestTimeout: true },
} as const;

/** For S3, whose requests carry megabytes: a slow connection is fine, one that is silent for 20 s is broken. */
export const s3SdkConfig = {
  ...sdkConfig,
  requestHandler: {
    connectionTimeout: 3_000,
    requestTimeout: 120_000,
    throwOnRequestTimeout: true,
    socketTimeout: 20_000,
  },
} as const;
