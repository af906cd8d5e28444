import { beforeEach, describe, expect, it } from 'vitest';
import { startInvocationDeadline } from '../../../lib/aws/lambda/invocation-deadline.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';
import { aVirtualClock, type VirtualClock } from '../../support/virtual-clock.ts';

const minute = 60_000;
/** Storing 200 MiB takes 10 s, and half a minute is added. */
const limits = { totalTimeout: 4 * minute, maxPageBytes: 200 * 1024 * 1024 };

describe('the time of an invocation', () => {
  let clock: VirtualClock;
  beforeEach(() => {
    clock = aVirtualClock();
  });

  it('is for fetching, but for what storing the largest page takes, at its end', async () => {
    using time = startInvocationDeadline(15 * minute, limits, 'page 7 of run R', clock);
    await clock.pass(15 * minute - 40_001);
    expect(time.signal.aborted).toBe(false);
    await clock.pass(1);
    expect(time.signal.reason).toMatchObject({
      name: 'ServiceUnavailableError',
      message: expect.stringMatching(/page 7 of run R.*860000 ms.*retried/) as unknown as string,
    });
  });

  it('is halved where it is short, so that either has some', async () => {
    using time = startInvocationDeadline(2_000, limits, 'page 1 of run R', clock);
    await clock.pass(999);
    expect(time.signal.aborted).toBe(false);
    await clock.pass(1);
    expect(time.signal.aborted).toBe(true);
  });

  it('is spent on waiting only where a whole request fits in behind', () => {
    using long = startInvocationDeadline(15 * minute, limits, 'page 1 of run R', clock);
    using short = startInvocationDeadline(3 * minute, limits, 'page 1 of run R', clock);
    expect(long.retryAfterDeadline - clock.now()).toBe(11 * minute - 40_000);
    expect(short.retryAfterDeadline).toBe(clock.now());
  });

  it('is enough for another page as long as a whole request and the storing of two pages fit in', async () => {
    using long = startInvocationDeadline(15 * minute, limits, 'page 1 of run R', clock);
    using short = startInvocationDeadline(3 * minute, limits, 'page 1 of run R', clock);
    expect([long.hasTime(), short.hasTime()]).toEqual([true, false]);
    await clock.pass(11 * minute - 80_000);
    expect(long.hasTime()).toBe(true);
    await clock.pass(1);
    expect(long.hasTime()).toBe(false);
  });

  it('is watched no longer than the page takes', () => {
    const time = startInvocationDeadline(minute, limits, 'page 1 of run R', clock);
    time[Symbol.dispose]();
    expect(clock.sleepers()).toBe(0);
  });
});

describe("a function's runtime", () => {
  it('a sleep that is interrupted ends with the reason, by whose name the state machine decides', async () => {
    const controller = new AbortController();
    const sleeping = systemRuntime.sleep(minute, controller.signal);
    const reason = new Error('the time is up');
    controller.abort(reason);
    await expect(sleeping).rejects.toBe(reason);
  });

  it.each([1, 6, 32])('chance comes as %i hexadecimal digits', (length) => {
    expect(systemRuntime.randomHex(length)).toMatch(new RegExp(`^[0-9a-f]{${length}}$`));
  });
});
