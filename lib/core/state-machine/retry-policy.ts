/**
 * Which errors a step is repeated after, and how patiently: retries belong to the state machine alone.
 * Every name of `../errors.ts` is decided about here, exactly once; a test holds it.
 */

import type { ErrorName } from '../errors.ts';
import type { Retrier } from './asl.ts';

/** Lambda's and the interpreter's own failures: the code may not have run, or may still be running. Repeating is safe. */
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
const final: readonly ErrorName[] = [
  'ConfigurationError',
  'RequestRejectedError',
  'CursorRejectedError',
  'PageConflictError',
  'RunSupersededError',
];

/**
 * 2 + 4 + 8 + … + 256 s for eight attempts, then 300 s for twelve: up to 68 minutes in all, half of it on average under
 * full jitter. A nightly export outlives an hour of outage; beyond that a person should know.
 */
const backoff = {
  IntervalSeconds: 2,
  BackoffRate: 2,
  MaxDelaySeconds: 300,
  MaxAttempts: 20,
  JitterStrategy: 'FULL',
} as const;

/** As patiently, whatever the error: for telling the world what has been done and cannot be told later. */
export const retryWithBackoff: Retrier = { ErrorEquals: ['States.ALL'], ...backoff };

/**
 * 2 + 4 + 8 + 16 + 32 + 64 + 120 + 120 s: up to 6 minutes. Outlives a bad moment of S3 or DynamoDB, whose clients have
 * retried already, and does not hide a mistake of ours for an hour.
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
  { ErrorEquals: final, MaxAttempts: 0 },
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
