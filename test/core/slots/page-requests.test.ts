/** Requests of pages, between the page pipeline and the service. */

import { describe, expect, it } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import { sliceOf } from '../../../lib/core/slices.ts';
import { discard } from '../../../lib/core/steps/upper-bound.ts';
import { pageFetcher } from '../../../lib/core/slots/page-requests.ts';
import { aPageIdentity, aRun } from '../../support/builders.ts';
import { anExportBench, type BenchOptions } from '../../support/export/export-bench.ts';

const throttled = (retryAfterSeconds: number | undefined) =>
  new ExportError('ServiceThrottledError', 'busy', { retryAfterSeconds });

/** Requests pages of the slices of a run, which share a Retry-After. */
function requesters(script: NonNullable<BenchOptions['script']>) {
  const bench = anExportBench({ script });
  const run = aRun({ slices: { count: 2, lengthMs: 60_000, parallel: 2 } });
  const backoff = { until: 0 };
  const { monotonicNow } = bench.deps.runtime;
  const fetch = (slice: number, { signal = new AbortController().signal, waitMs = 0 } = {}) => {
    const limits = { retryAfterDeadline: monotonicNow() + waitMs, backoff };
    const fetchPage = pageFetcher(bench.deps, { run, slice: sliceOf(run, slice) }, limits);
    return fetchPage({ ...aPageIdentity(), label: 'page' }, { sink: discard, signal });
  };
  return { bench, fetch, backoffSeconds: () => (backoff.until - monotonicNow()) / 1_000 };
}

describe('the Retry-After of several requests', () => {
  it('is the longest, whichever is the newest', async () => {
    const answers = [60, 600, 61];
    const { fetch, backoffSeconds } = requesters(() => {
      throw throttled(answers.shift());
    });
    await Promise.all(answers.slice().map(() => expect(fetch(1)).rejects.toThrow('busy')));
    expect(backoffSeconds()).toBeCloseTo(600, 6);
  });

  it('is waited for by every later request of the run, also of another slice', async () => {
    const { bench, fetch } = requesters((_, nth) => {
      if (nth === 1) throw throttled(5);
      return undefined;
    });
    await expect(fetch(1)).rejects.toThrow('busy');
    await expect(fetch(2)).rejects.toThrow('for another page');
    expect(bench.service.requests).toHaveLength(1);
    await fetch(2, { waitMs: 60_000 });
    expect(bench.slept).toEqual([5_000]);
  });

  it('is known to every later request before it is recorded for other processes', async () => {
    const { bench, fetch } = requesters(() => {
      throw throttled(60);
    });
    const [recording, recorded] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const holdBack = async () => {
      recording.resolve();
      await recorded.promise;
    };
    Object.assign(bench.deps, { rate: { take: async () => {}, holdBack } });
    const first = fetch(1);
    await recording.promise;
    const second = fetch(2);
    recorded.resolve();
    await expect(first).rejects.toThrow('busy');
    await expect(second).rejects.toThrow('for another page');
    expect(bench.service.requests).toHaveLength(1);
  });

  it('is obeyed by a request that waits for its turn when it arrives', async () => {
    const { bench, fetch } = requesters(() => {
      throw throttled(60);
    });
    const turn = Promise.withResolvers<void>();
    const turns = [turn.promise, Promise.resolve()];
    Object.assign(bench.deps, { rate: { take: async () => await turns.shift(), holdBack: async () => {} } });
    const waiting = fetch(1);
    await expect(fetch(2)).rejects.toThrow('busy');
    turn.resolve();
    await expect(waiting).rejects.toThrow('for another page');
    expect(bench.service.requests).toHaveLength(1);
  });

  it('includes that of a request which was cancelled meanwhile, and which rejects with the reason of that', async () => {
    const cancellation = new AbortController();
    const { fetch, backoffSeconds } = requesters(() => {
      cancellation.abort('no longer needed');
      throw throttled(600);
    });
    await expect(fetch(1, { signal: cancellation.signal })).rejects.toBe('no longer needed');
    expect(backoffSeconds()).toBeCloseTo(600, 6);
  });
});
