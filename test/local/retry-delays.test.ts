/** Retries of the local interpreter: the delay that is announced is the delay that is used. */

import { describe, expect, it } from 'vitest';
import type { Retry } from '../../lib/core/operations/deployment.ts';
import { createRetryDelays } from '../../lib/local/retry-delays.ts';

const outage = { error: 'ServiceUnavailableError', message: 'responded with 503' };

function recordRetries(random = '80000000', options?: Parameters<typeof createRetryDelays>[2]) {
  const retries: Retry[] = [];
  const delays = createRetryDelays({ randomHex: () => random }, (retry) => retries.push(retry), options);
  return { delays, retries };
}

describe('the delay before a retry', () => {
  it('is a random part (full jitter) of a maximum that doubles up to its limit', () => {
    const { delays, retries } = recordRetries();
    for (let attempt = 1; attempt <= 10; attempt += 1) {
      delays.failed('ExportPage', outage);
      expect(delays.overrides.ExportPage).toBe((retries.at(-1)?.delaySeconds ?? 0) * 1_000);
    }
    expect(retries.map(({ delaySeconds }) => delaySeconds)).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 150, 150]);
    expect(retries[2]).toEqual({ state: 'ExportPage', ...outage, attempt: 3, maxAttempts: 20, delaySeconds: 4 });
  });

  it('is between zero and the maximum', () => {
    const shortest = recordRetries('00000000');
    shortest.delays.failed('ExportPage', outage);
    expect(shortest.retries[0]?.delaySeconds).toBe(0);
    const longest = recordRetries('ffffffff');
    longest.delays.failed('ExportPage', outage);
    expect(longest.retries[0]?.delaySeconds).toBeCloseTo(2, 6);
  });

  it('is the fixed delay, if one is given', () => {
    const { delays, retries } = recordRetries('80000000', { fixedDelaySeconds: 0 });
    delays.failed('ExportPage', outage);
    expect(retries[0]?.delaySeconds).toBe(0);
    expect(delays.overrides.ExportPage).toBe(0);
  });
});

describe('a retry', () => {
  it('is announced as often as the state machine retries, and counted from 1 again after a success', () => {
    const { delays, retries } = recordRetries();
    for (let attempt = 1; attempt <= 21; attempt += 1) delays.failed('ExportPage', outage);
    expect(retries).toHaveLength(20);
    delays.succeeded('ExportPage');
    delays.failed('ExportPage', outage);
    expect(retries.at(-1)).toMatchObject({ attempt: 1 });
  });

  it('is counted per step and retrier', () => {
    const { delays, retries } = recordRetries();
    delays.failed('ExportPage', outage);
    delays.failed('ExportPage', { error: 'ServiceThrottledError', message: 'responded with 429' });
    delays.failed('ExportPage', { error: 'ContractError', message: 'bad XML' });
    delays.failed('FinishRun', outage);
    expect(retries.map(({ attempt, maxAttempts }) => [attempt, maxAttempts])).toEqual([
      [1, 20],
      [2, 20],
      [1, 2],
      [1, 20],
    ]);
  });

  it('is announced no more often than the given number of attempts allows', () => {
    const { delays, retries } = recordRetries('80000000', { maxAttempts: 3 });
    for (let attempt = 1; attempt <= 5; attempt += 1) delays.failed('ExportPage', outage);
    delays.failed('ExportPage', { error: 'ContractError', message: 'bad XML' });
    expect(retries.map(({ attempt, maxAttempts }) => [attempt, maxAttempts])).toEqual([
      [1, 2],
      [2, 2],
      [1, 2],
      [2, 2],
      [1, 2],
    ]);
    expect(recordRetries('80000000', { maxAttempts: 1 }).retries).toEqual([]);
  });

  it('is not announced for an error that is not retried', () => {
    const { delays, retries } = recordRetries();
    delays.failed('ExportPage', { error: 'ConfigurationError', message: 'API key rejected' });
    expect(retries).toEqual([]);
  });
});
