import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { systemRuntime } from '../../lib/core/clock.ts';

const dayMs = 86_400_000;

describe('sleep', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('takes its full time, even if that is longer than a timer of Node.js can be', async () => {
    let isOver = false;
    void systemRuntime.sleep(60 * dayMs).then(() => (isOver = true));
    await vi.advanceTimersByTimeAsync(60 * dayMs - 1);
    expect(isOver).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(isOver).toBe(true);
  });

  it('ends with the reason of its signal, at any time', async () => {
    const controller = new AbortController();
    const ended = systemRuntime.sleep(60 * dayMs, controller.signal).catch(String);
    await vi.advanceTimersByTimeAsync(30 * dayMs);
    controller.abort(new Error('enough'));
    expect(await ended).toBe('Error: enough');
    expect(vi.getTimerCount()).toBe(0);
  });
});
