/**
 * Notices a walk that goes in circles.
 *
 * A service that hands out an old cursor again would keep a run going for ever, storing the same pages under new
 * numbers. Brent's method finds any cycle, whatever its length and however late it begins, from one remembered cursor
 * and two counters: at most three times (lead-in + cycle length) pages after the walk began.
 */

import type { Cursor, CycleState } from '../model.ts';

/**
 * Takes the cursor a page handed out, and the state before it (null at the first).
 * `repeats` is true where the cursor was met before.
 */
export function detectCycle(state: CycleState | null, next: Cursor): { state: CycleState; repeats: boolean } {
  if (state === null) return { state: { tortoise: next, power: 1, steps: 0 }, repeats: false };
  if (next === state.tortoise) return { state, repeats: true };
  const steps = state.steps + 1;
  return steps === state.power
    ? { state: { tortoise: next, power: state.power * 2, steps: 0 }, repeats: false }
    : { state: { ...state, steps }, repeats: false };
}
