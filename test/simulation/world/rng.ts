/**
 * Chance that can be repeated. Each decision throws dice of its own, named by what it decides: so leaving one fault out
 * of a history does not change what becomes of all the others.
 */

export interface Dice {
  /** From 0 up to 1. */
  roll(): number;
  /** A whole number from 0 up to `limit`, which is left out. */
  below(limit: number): number;
  between(low: number, high: number): number;
  happens(probability: number): boolean;
  pick<Item>(items: readonly Item[]): Item;
}

/** The same throws for the same `seed` and `about`. */
export function diceFor(seed: string, about: string): Dice {
  let state = hash(`${seed}/${about}`);
  // mulberry32
  const roll = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 0x1_0000_0000;
  };
  const below = (limit: number) => Math.floor(roll() * limit);
  return {
    roll,
    below,
    between: (low, high) => low + roll() * (high - low),
    happens: (probability) => roll() < probability,
    pick: <Item>(items: readonly Item[]) => items[below(items.length)] as Item,
  };
}

/** FNV-1a, with the last bits stirred in. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) value = Math.imul(value ^ text.charCodeAt(index), 0x01000193);
  value ^= value >>> 16;
  value = Math.imul(value, 0x85ebca6b);
  value ^= value >>> 13;
  value = Math.imul(value, 0xc2b2ae35);
  return value ^ (value >>> 16);
}
