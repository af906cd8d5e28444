/**
 * Repeatable random numbers. Each decision has its own generator, derived from the seed and the name of the decision,
 * so that leaving one fault out of a history does not change any other decision.
 */

export interface Rng {
  /** From 0 (inclusive) to 1 (exclusive). */
  next(): number;
  /** An integer from 0 (inclusive) to `limit` (exclusive). */
  integerBelow(limit: number): number;
  between(min: number, max: number): number;
  /** Whether an event of this probability occurs. */
  chance(probability: number): boolean;
  pick<Item>(items: readonly Item[]): Item;
}

/** The same `seed` and `decision` always give the same sequence. */
export function createRng(seed: string, decision: string): Rng {
  let state = hash(`${seed}/${decision}`);
  // mulberry32
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 0x1_0000_0000;
  };
  const integerBelow = (limit: number) => Math.floor(next() * limit);
  return {
    next,
    integerBelow,
    between: (min, max) => min + next() * (max - min),
    chance: (probability) => next() < probability,
    pick: <Item>(items: readonly Item[]) => items[integerBelow(items.length)] as Item,
  };
}

/** FNV-1a, followed by the finalizer of MurmurHash3: similar names must not give similar sequences. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) value = Math.imul(value ^ text.charCodeAt(index), 0x01000193);
  value ^= value >>> 16;
  value = Math.imul(value, 0x85ebca6b);
  value ^= value >>> 13;
  value = Math.imul(value, 0xc2b2ae35);
  return value ^ (value >>> 16);
}
