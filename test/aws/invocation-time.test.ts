import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { fetchTime } from '../../lib/aws/invocation-time.ts';
import { lambdaSurroundings } from '../../lib/aws/lambda-surroundings.ts';

const minute = 60_000;
/** Storing 200 MiB takes 10 s, and half a minute is added. */
const limits = { totalTimeout: 4 * minute, maxPageBytes: 200 * 1024 * 1024 };

describe('the time of an invocation', () => {
  beforeEach(() => vi.useFakeTimers());
  afterEach(() => vi.useRealTimers());

  it('is for fetching, but for what storing the largest page takes, at its end', () => {
    using time = fetchTime(15 * minute, limits, 'page 7 of run R');
    vi.advanceTimersByTime(15 * minute - 40_001);
    expect(time.signal.aborted).toBe(false);
    vi.advanceTimersByTime(1);
    expect(time.signal.reason).toMatchObject({
      name: 'ServiceUnavailableError',
      message: expect.stringMatching(/page 7 of run R.*860000 ms.*tried again/) as unknown as string,
    });
  });

  it('is halved where it is short, so that either has some', () => {
    using time = fetchTime(2_000, limits, 'page 1 of run R');
    vi.advanceTimersByTime(999);
    expect(time.signal.aborted).toBe(false);
    vi.advanceTimersByTime(1);
    expect(time.signal.aborted).toBe(true);
  });

  it('is spent on waiting only where a whole request fits in behind', () => {
    using long = fetchTime(15 * minute, limits, 'page 1 of run R');
    using short = fetchTime(3 * minute, limits, 'page 1 of run R');
    expect(long.patienceMs).toBe(11 * minute - 40_000);
    expect(short.patienceMs).toBe(0);
  });

  it('is watched no longer than the page takes', () => {
    const time = fetchTime(minute, limits, 'page 1 of run R');
    time[Symbol.dispose]();
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe("a function's surroundings", () => {
  it('a sleep that is interrupted ends with the reason, by whose name the state machine decides', async () => {
    const controller = new AbortController();
    const sleeping = lambdaSurroundings.sleep(minute, controller.signal);
    const reason = new Error('the time is up');
    controller.abort(reason);
    await expect(sleeping).rejects.toBe(reason);
  });

  it.each([1, 6, 32])('chance comes as %i hexadecimal digits', (length) => {
    expect(lambdaSurroundings.randomHex(length)).toMatch(new RegExp(`^[0-9a-f]{${length}}$`));
  });
});
