/**
 * How patient the SDK's clients are. Attempts here are quick and few: what outlasts them is the state machine's to
 * repeat, where waiting costs nothing.
 */
export const sdkConfig = {
  maxAttempts: 5,
  requestHandler: { connectionTimeout: 3_000, requestTimeout: 15_000, throwOnRequestTimeout: true },
} as const;

/** For S3, where a request may carry megabytes: a connection that is silent is broken, a slow one is not. */
export const sdkConfigForBodies = {
  ...sdkConfig,
  requestHandler: {
    connectionTimeout: 3_000,
    requestTimeout: 120_000,
    throwOnRequestTimeout: true,
    socketTimeout: 20_000,
  },
} as const;
