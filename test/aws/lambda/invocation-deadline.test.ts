import { beforeEach, describe, expect, it } from 'vitest';
import { startInvocationDeadline } from '../../../lib/aws/lambda/invocation-deadline.ts';
import type { Clock } from '../../../lib/core/ports.ts';
import { createVirtualClock, type VirtualClock } from '../../support/virtual-clock.ts';

const minute = 60_000;
/** Storing 200 MiB is assumed to take 10 s, plus half a minute. */
const limits = { totalTimeout: 4 * minute, maxPageBytes: 200 * 1024 * 1024 };

const startDeadline = (remainingMs: number, clock: Clock, slices = 1) =>
  startInvocationDeadline({ remainingMs, label: 'page 7 of run R', slices }, limits, clock);

describe('the deadline of an invocation', () => {
  let clock: VirtualClock;
  beforeEach(() => {
    clock = createVirtualClock();
  });

  it('leaves enough time to store the largest page', async () => {
    using deadline = startDeadline(15 * minute, clock);
    await clock.advance(15 * minute - 40_001);
    expect(deadline.signal.aborted).toBe(false);
    await clock.advance(1);
    expect(deadline.signal.reason).toMatchObject({
      name: 'ServiceUnavailableError',
      message: expect.stringMatching(/page 7 of run R.*860000 ms.*retried/) as unknown as string,
    });
  });

  it('leaves enough time to store the largest page of each slice', () => {
    using deadline = startDeadline(15 * minute, clock, 16);
    // 30 s, and 16 × 10 s.
    expect(deadline.retryAfterDeadline - clock.monotonicNow()).toBe(11 * minute - 190_000);
  });

  it('leaves half of a short invocation to store the page', async () => {
    using deadline = startDeadline(2_000, clock);
    await clock.advance(999);
    expect(deadline.signal.aborted).toBe(false);
    await clock.advance(1);
    expect(deadline.signal.aborted).toBe(true);
  });

  it('allows a Retry-After only if a whole request fits in after it', () => {
    using long = startDeadline(15 * minute, clock);
    using short = startDeadline(3 * minute, clock);
    expect(long.retryAfterDeadline - clock.monotonicNow()).toBe(11 * minute - 40_000);
    expect(short.retryAfterDeadline).toBe(clock.monotonicNow());
  });

  it('allows another page while a whole request and the storing of two pages fit in', async () => {
    using long = startDeadline(15 * minute, clock);
    using short = startDeadline(3 * minute, clock);
    expect([long.hasTime(), short.hasTime()]).toEqual([true, false]);
    await clock.advance(11 * minute - 80_000);
    expect(long.hasTime()).toBe(true);
    await clock.advance(1);
    expect(long.hasTime()).toBe(false);
  });

  it('does not depend on the clock, which may be set meanwhile', async () => {
    let clockMs = 0;
    const set = { ...clock, now: () => clockMs };
    using deadline = startDeadline(15 * minute, set);
    const { retryAfterDeadline } = deadline;
    clockMs = 60 * minute;
    expect(deadline.hasTime()).toBe(true);
    clockMs = -60 * minute;
    await clock.advance(11 * minute);
    expect(deadline.hasTime()).toBe(false);
    expect(retryAfterDeadline).toBe(11 * minute - 40_000);
  });

  it('has no timer once it is disposed of', () => {
    const deadline = startDeadline(minute, clock);
    deadline[Symbol.dispose]();
    expect(clock.sleepers()).toBe(0);
  });
});
