/**
 * Chooses the delay before each retry, so that it can be announced when the delay begins.
 *
 * The interpreter draws the delay itself and reports a retry only after it. Here it is drawn by the same rule (full jitter
 * up to the retrier's maximum), announced, and handed to the interpreter as an override.
 */

import type { Retry } from '../core/operations/deployment.ts';
import type { Runtime } from '../core/ports.ts';
import type { Retrier } from '../core/state-machine/asl.ts';
import type { StepName } from '../core/state-machine/definition.ts';
import { findRetrier, maxRetryDelaySeconds } from '../core/state-machine/retry-policy.ts';

export interface RetryDelays {
  /** Milliseconds before the next retry of each step; the interpreter reads them when an attempt has failed. */
  readonly overrides: Record<string, number>;
  /** Call it when a step returns: its next failure is the first one again. */
  succeeded(step: StepName): void;
  /** Call it when a step throws, before the interpreter sees the error. Announces the retry, unless there is none left. */
  failed(step: StepName, failure: { readonly error: string; readonly message: string }): void;
}

export function createRetryDelays(
  { randomHex }: Pick<Runtime, 'randomHex'>,
  onRetry: (retry: Retry) => void,
  fixedDelaySeconds?: number,
): RetryDelays {
  const overrides: Record<string, number> = {};
  const attempts = new Map<StepName, Map<Retrier, number>>();
  return {
    overrides,
    succeeded: (step) => void attempts.delete(step),
    failed(step, failure) {
      const retrier = findRetrier(failure.error);
      const ofStep = attempts.get(step) ?? new Map<Retrier, number>();
      if (retrier === undefined) return;
      const attempt = (ofStep.get(retrier) ?? 0) + 1;
      attempts.set(step, ofStep.set(retrier, attempt));
      if (attempt > retrier.MaxAttempts) return void attempts.delete(step);
      const delaySeconds = fixedDelaySeconds ?? maxRetryDelaySeconds(retrier, attempt) * randomFraction(randomHex);
      overrides[step] = delaySeconds * 1_000;
      onRetry({ state: step, ...failure, attempt, maxAttempts: retrier.MaxAttempts, delaySeconds });
    },
  };
}

const randomFraction = (randomHex: Runtime['randomHex']): number => Number.parseInt(randomHex(8), 16) / 16 ** 8;
