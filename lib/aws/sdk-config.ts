/** An environment as Node.js presents it. */
export type Environment = Readonly<Record<string, string | undefined>>;

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
