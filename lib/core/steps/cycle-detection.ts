/**
 * Detects a service whose cursors repeat. Such a run would never end and store the same pages under new numbers.
 *
 * Brent's algorithm finds a cycle of any length, wherever it begins, with one remembered cursor and two counters. It needs
 * at most three times as many pages as the lead-in and the cycle are long.
 */

import type { Cursor, CycleState } from '../model.ts';

/**
 * Advances the search by one page: `state` is that of the page before (null at the first), `next` the page's next cursor.
 * `repeats` is true if `next` has been seen before.
 */
export function detectCycle(state: CycleState | null, next: Cursor): { state: CycleState; repeats: boolean } {
  if (state === null) return { state: { tortoise: next, power: 1, steps: 0 }, repeats: false };
  if (next === state.tortoise) return { state, repeats: true };
  const steps = state.steps + 1;
  return steps === state.power
    ? { state: { tortoise: next, power: state.power * 2, steps: 0 }, repeats: false }
    : { state: { ...state, steps }, repeats: false };
}
