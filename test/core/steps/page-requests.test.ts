/** What a request of a page passes between the page pipeline and the service. */

import { describe, expect, it } from 'vitest';
import { ExportError } from '../../../lib/core/errors.ts';
import { sliceOf } from '../../../lib/core/slices.ts';
import { discard } from '../../../lib/core/steps/upper-bound.ts';
import { createPageRequests } from '../../../lib/core/steps/page-requests.ts';
import { aPageIdentity, aRun } from '../../support/builders.ts';
import { anExportBench } from '../../support/export/export-bench.ts';

const throttled = (retryAfterSeconds: number | undefined) =>
  new ExportError('ServiceThrottledError', 'busy', { retryAfterSeconds });

const { signal } = new AbortController();

describe('the Retry-After of several requests', () => {
  it('is the longest, whichever is the newest', async () => {
    const answers = [60, 600, 61];
    const bench = anExportBench({
      script() {
        throw throttled(answers.shift());
      },
    });
    const run = aRun();
    const requests = createPageRequests(bench.deps, run, sliceOf(run, 1), {});
    await Promise.all(
      answers
        .slice()
        .map(() => expect(requests.fetch(aPageIdentity(), { sink: discard, signal })).rejects.toThrow('busy')),
    );
    expect(requests.pendingBackoff()?.retryAfterSeconds).toBeCloseTo(600, 6);
  });

  it('is waited for by every later request of the run, also of another slice', async () => {
    const bench = anExportBench({
      script(_, nth) {
        if (nth === 1) throw throttled(5);
        return undefined;
      },
    });
    const run = aRun({ slices: { count: 2, lengthMs: 60_000, parallel: 2 } });
    const backoff = { until: 0 };
    const requestsOf = (slice: number, retryAfterDeadline: number) =>
      createPageRequests(bench.deps, run, sliceOf(run, slice), { retryAfterDeadline }, backoff);
    await expect(requestsOf(1, 0).fetch(aPageIdentity(), { sink: discard, signal })).rejects.toThrow('busy');
    await expect(requestsOf(2, 0).fetch(aPageIdentity(), { sink: discard, signal })).rejects.toThrow(
      'for another page',
    );
    expect(bench.service.requests).toHaveLength(1);
    await requestsOf(2, bench.deps.runtime.monotonicNow() + 60_000).fetch(aPageIdentity(), { sink: discard, signal });
    expect(bench.slept).toEqual([5_000]);
  });

  it('includes that of a request which was cancelled meanwhile, and which rejects with the reason of that', async () => {
    const cancellation = new AbortController();
    const bench = anExportBench({
      script() {
        cancellation.abort('no longer needed');
        throw throttled(600);
      },
    });
    const run = aRun();
    const requests = createPageRequests(bench.deps, run, sliceOf(run, 1), {});
    await expect(requests.fetch(aPageIdentity(), { sink: discard, signal: cancellation.signal })).rejects.toBe(
      'no longer needed',
    );
    expect(requests.pendingBackoff()?.retryAfterSeconds).toBeCloseTo(600, 6);
  });
});
