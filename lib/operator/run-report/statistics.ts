/** Many numbers told in few: least, greatest, mean. */

export interface Spread {
  readonly count: number;
  readonly sum: number;
  readonly min: number;
  readonly max: number;
}

export const spreadOf = (value: number): Spread => ({ count: 1, sum: value, min: value, max: value });

export const meanOf = ({ sum, count }: Spread): number => sum / count;

/** Of both together; null stands for no numbers at all. */
export function together(a: Spread, b: Spread): Spread;
export function together(a: Spread | null, b: Spread | null): Spread | null;
export function together(a: Spread | null, b: Spread | null): Spread | null {
  if (a === null || b === null) return a ?? b;
  return { count: a.count + b.count, sum: a.sum + b.sum, min: Math.min(a.min, b.min), max: Math.max(a.max, b.max) };
}
