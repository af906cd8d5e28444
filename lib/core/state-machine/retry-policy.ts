/**
 * Which errors are retried, and with which backoff. Only the state machine retries requests to the report service.
 * Each name of `../errors.ts` occurs here exactly once, which a test verifies.
 */

import type { ErrorName } from '../errors.ts';
import type { Retrier } from './asl.ts';

/** Failures of Lambda or of the interpreter: the step may not have run, or may still be running. Retrying is safe. */
const platformErrors = [
  'Lambda.ServiceException',
  'Lambda.AWSLambdaException',
  'Lambda.SdkClientException',
  'Lambda.ClientExecutionTimeoutException',
  'Lambda.TooManyRequestsException',
  'Lambda.Unknown',
  'Sandbox.Timedout',
  'Runtime.ExitError',
  'States.Timeout',
] as const;

const outageErrors: readonly ErrorName[] = ['ServiceUnavailableError', 'ServiceThrottledError'];
const transientErrors: readonly ErrorName[] = ['ContractError'];
const permanentErrors: readonly ErrorName[] = [
  'ConfigurationError',
  'RequestRejectedError',
  'CursorRejectedError',
  'RepeatedCursorError',
  'PageConflictError',
  'RunSupersededError',
];

/**
 * 2 + 4 + 8 + … + 256 s for eight retries, then 300 s for twelve: up to 68 minutes in total, half of that on average with
 * full jitter. A nightly export survives an outage of half an hour to an hour; after that an operator should know.
 */
const backoff = {
  IntervalSeconds: 2,
  BackoffRate: 2,
  MaxDelaySeconds: 300,
  MaxAttempts: 20,
  JitterStrategy: 'FULL',
} as const;

/** The same for every error: for an event that reports what has been done and is not sent again later. */
export const retryWithBackoff: Retrier = { ErrorEquals: ['States.ALL'], ...backoff };

/**
 * 2 + 4 + 8 + 16 + 32 + 64 + 120 + 120 s: up to 6 minutes. Long enough for a brief failure of S3 or DynamoDB, whose clients
 * have retried already, and short enough not to hide a bug for an hour.
 */
export const retryAnything: Retrier = {
  ErrorEquals: ['States.ALL'],
  IntervalSeconds: 2,
  BackoffRate: 2,
  MaxDelaySeconds: 120,
  MaxAttempts: 8,
  JitterStrategy: 'FULL',
};

export const stepRetries: readonly Retrier[] = [
  { ErrorEquals: permanentErrors, MaxAttempts: 0 },
  { ErrorEquals: [...outageErrors, ...platformErrors], ...backoff },
  { ErrorEquals: transientErrors, IntervalSeconds: 5, BackoffRate: 3, MaxAttempts: 2, JitterStrategy: 'FULL' },
  retryAnything,
];

/** The entry of {@link stepRetries} that applies to an error of this name. */
export function findRetrier(error: string): Retrier | undefined {
  return stepRetries.find(({ ErrorEquals }) => ErrorEquals.includes(error) || ErrorEquals.includes('States.ALL'));
}

/** The longest delay before retry `attempt`, counted from 1; full jitter picks a random one up to this. */
export function maxRetryDelaySeconds(retrier: Retrier, attempt: number): number {
  const { IntervalSeconds = 1, BackoffRate = 2, MaxDelaySeconds = Number.POSITIVE_INFINITY } = retrier;
  return Math.min(IntervalSeconds * BackoffRate ** (attempt - 1), MaxDelaySeconds);
}
