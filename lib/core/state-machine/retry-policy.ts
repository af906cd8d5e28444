/**
 * Which errors of which step are retried, and with which backoff. Only the state machine retries requests to the report
 * service. Each name of `../errors.ts` occurs exactly once for each step, which a test verifies.
 */

import type { ErrorName } from '../errors.ts';
import type { Retrier } from './asl.ts';

export const stepNames = ['BeginRun', 'ExportPage', 'FinishRun', 'FailRun'] as const;
export type StepName = (typeof stepNames)[number];

/** Failures of Lambda or of Step Functions: the step may not have run, or may still be running. Retrying is safe. */
const platformErrors = [
  'Lambda.ServiceException',
  'Lambda.AWSLambdaException',
  'Lambda.SdkClientException',
  'Lambda.ClientExecutionTimeoutException',
  'Lambda.Unknown',
  'Runtime.ExitError',
] as const;

/**
 * The function is not ready: Lambda still prepares one that was idle for weeks, or was just deployed, or its network
 * interfaces. First calls took up to two minutes. Step Functions reports the names of Lambda's Invoke API. Its other
 * errors need a correction.
 */
const notReadyErrors = [
  'Lambda.CodeArtifactUserPendingException',
  'Lambda.CodeArtifactUserDeletedException',
  'Lambda.ResourceNotReadyException',
  'Lambda.ResourceConflictException',
  'Lambda.ENINotReadyException',
  'Lambda.ENILimitReachedException',
  'Lambda.SubnetIPAddressLimitReachedException',
  'Lambda.EC2ThrottledException',
  'Lambda.EC2UnexpectedException',
] as const;

/** The step took longer than its function's timeout, by Lambda's clock or by that of Step Functions. */
const timeoutErrors = ['Sandbox.Timedout', 'States.Timeout'] as const;

const outageErrors: readonly ErrorName[] = ['ServiceUnavailableError', 'ServiceThrottledError'];
/**
 * Errors that are rarely temporary. Each attempt may download a page, or delays the message about a wrong setting.
 * AWS denies access for some seconds after a deployment has granted it, because IAM is eventually consistent.
 */
const unlikelyToPass: readonly string[] = [
  'ContractError' satisfies ErrorName,
  'ServiceUnreachableError' satisfies ErrorName,
  'AccessDenied',
  'AccessDeniedException',
];
const permanentErrors: readonly ErrorName[] = [
  'ConfigurationError',
  'RequestRejectedError',
  'CursorRejectedError',
  'RepeatedCursorError',
  'PageConflictError',
  'RunSupersededError',
];

/**
 * 2 + 4 + 8 + … + 256 s for eight retries, then 300 s for twelve: up to 68 minutes in total, half of that on average
 * with full jitter. A nightly export survives an outage of half an hour to an hour; after that an operator should know.
 */
const backoff = {
  IntervalSeconds: 2,
  BackoffRate: 2,
  MaxDelaySeconds: 300,
  MaxAttempts: 20,
  JitterStrategy: 'FULL',
} as const;

/**
 * As many executions run as the account, or the reserved concurrency of the function, allows; a place becomes free when
 * another run ends. 2 + 4 + 8 + … + 2,048 s for eleven retries, then an hour for nine: up to ten hours in total, five
 * on average. Few attempts: each takes three events.
 */
const retryThrottled: Retrier = {
  ErrorEquals: ['Lambda.TooManyRequestsException'],
  ...backoff,
  MaxDelaySeconds: 3_600,
};

/** The same for every error: for an event that reports what has been done and is not sent again later. */
export const retryWithBackoff: Retrier = { ErrorEquals: ['States.ALL'], ...backoff };

/**
 * 2 + 4 + 8 + 16 + 32 + 64 + 120 + 120 s: up to 6 minutes. Long enough for a brief failure of S3 or DynamoDB, whose
 * clients have retried already, and short enough not to hide a bug for an hour.
 */
export const retryAnything: Retrier = { ...retryWithBackoff, MaxDelaySeconds: 120, MaxAttempts: 8 };

/**
 * Publishing needs the same time in each attempt, except if Lambda or the store was slow. Another 20 attempts of up to
 * 15 minutes would delay the failure of a run that is too large by five hours.
 */
const retryOnce: Retrier = {
  ErrorEquals: timeoutErrors,
  IntervalSeconds: 5,
  BackoffRate: 2,
  MaxAttempts: 1,
  JitterStrategy: 'FULL',
};

/** The retriers of a step. The first one that matches an error applies. */
export function stepRetries(step: StepName): readonly Retrier[] {
  const outages = [...outageErrors, ...platformErrors, ...notReadyErrors];
  const finishes = step === 'FinishRun';
  return [
    { ErrorEquals: permanentErrors, MaxAttempts: 0 },
    retryThrottled,
    ...(finishes ? [retryOnce] : []),
    { ErrorEquals: finishes ? outages : [...outages, ...timeoutErrors], ...backoff },
    // Up to 5 + 15 s.
    { ErrorEquals: unlikelyToPass, IntervalSeconds: 5, BackoffRate: 3, MaxAttempts: 2, JitterStrategy: 'FULL' },
    retryAnything,
  ];
}

const retriersByState: ReadonlyMap<string, readonly Retrier[]> = new Map(
  stepNames.map((step) => [step, stepRetries(step)]),
);

/**
 * The retrier that applies to an error of this name in the state, the same object each time; undefined if it is no
 * step.
 */
export function findRetrier(error: string, state: string): Retrier | undefined {
  return retriersByState
    .get(state)
    ?.find(({ ErrorEquals }) => ErrorEquals.includes(error) || ErrorEquals.includes('States.ALL'));
}

/** The retrier with at most as many retries as `maxAttempts` allows, which counts the first attempt. */
export function limitRetries(retrier: Retrier, maxAttempts: number): Retrier {
  return { ...retrier, MaxAttempts: Math.min(retrier.MaxAttempts, maxAttempts - 1) };
}

/** The longest delay before retry `attempt`, counted from 1; full jitter picks a random one up to this. */
export function maxRetryDelaySeconds(retrier: Retrier, attempt: number): number {
  const { IntervalSeconds = 1, BackoffRate = 2, MaxDelaySeconds = Number.POSITIVE_INFINITY } = retrier;
  return Math.min(IntervalSeconds * BackoffRate ** (attempt - 1), MaxDelaySeconds);
}
