/** Classifies AWS errors for a caller that only observes, and can try again later. */

import { isExportError } from '../../core/errors.ts';

interface AwsError extends Error {
  readonly $fault?: string;
  readonly $retryable?: { readonly throttling?: boolean };
  readonly $metadata?: { readonly httpStatusCode?: number };
}

/** Whether a later request may succeed. A new execution may not be visible everywhere yet. */
export function isTransient(error: unknown): boolean {
  if (isThrottling(error) || isExportError(error, 'ServiceUnavailableError')) return true;
  if (!(error instanceof Error) || isExportError(error)) return false;
  const { name, $retryable, $fault, $metadata }: AwsError = error;
  return (
    name === 'ExecutionDoesNotExist' ||
    $retryable !== undefined ||
    $fault === 'server' ||
    ($metadata?.httpStatusCode ?? 0) >= 500
  );
}

export function isThrottling(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { name, $retryable, $metadata }: AwsError = error;
  if ($retryable?.throttling === true || $metadata?.httpStatusCode === 429) return true;
  return /^(Throttl|TooManyRequests|RequestLimitExceeded|ProvisionedThroughputExceeded|SlowDown)/.test(name);
}
