/**
 * Chooses the delay before each retry, so that the delay can be shown before it starts.
 *
 * The interpreter would choose the delay itself and report the retry only afterwards. Here the delay is chosen by the same rule,
 * full jitter up to the retrier's maximum, announced, and passed to the interpreter as an override.
 */

import type { Retry } from '../core/operations/deployment.ts';
import type { Runtime } from '../core/ports.ts';
import type { Retrier } from '../core/state-machine/asl.ts';
import type { StepName } from '../core/state-machine/definition.ts';
import { findRetrier, limitRetries, maxRetryDelaySeconds } from '../core/state-machine/retry-policy.ts';

export interface RetryDelays {
  /** Milliseconds before the next retry of each step. The interpreter reads them after an attempt has failed. */
  readonly overrides: Record<string, number>;
  /** Call this when a step returns. Its attempts are then counted from 1 again. */
  succeeded(step: StepName): void;
  /** Call this when a step throws, before the interpreter handles the error. Announces the retry, unless none is left. */
  failed(step: StepName, failure: { readonly error: string; readonly message: string }): void;
}

export function createRetryDelays(
  { randomHex }: Pick<Runtime, 'randomHex'>,
  onRetry: (retry: Retry) => void,
  {
    maxAttempts = Number.POSITIVE_INFINITY,
    fixedDelaySeconds,
  }: { readonly maxAttempts?: number | undefined; readonly fixedDelaySeconds?: number | undefined } = {},
): RetryDelays {
  const overrides: Record<string, number> = {};
  const attempts = new Map<StepName, Map<Retrier, number>>();
  return {
    overrides,
    succeeded(step) {
      attempts.delete(step);
    },
    failed(step, failure) {
      const retrier = findRetrier(failure.error, step);
      if (retrier === undefined) return;
      const attemptsOfStep = attempts.get(step) ?? new Map<Retrier, number>();
      const attempt = (attemptsOfStep.get(retrier) ?? 0) + 1;
      attempts.set(step, attemptsOfStep.set(retrier, attempt));
      const { MaxAttempts } = limitRetries(retrier, maxAttempts);
      if (attempt > MaxAttempts) {
        attempts.delete(step);
        return;
      }
      const delaySeconds = fixedDelaySeconds ?? maxRetryDelaySeconds(retrier, attempt) * randomFraction(randomHex);
      overrides[step] = delaySeconds * 1_000;
      onRetry({ state: step, ...failure, attempt, maxAttempts: MaxAttempts, delaySeconds });
    },
  };
}

const randomFraction = (randomHex: Runtime['randomHex']): number => Number.parseInt(randomHex(8), 16) / 16 ** 8;
