/** Many numbers told in few: least, greatest, mean. */

import type { LatencySummary } from './data.ts';

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

// MERGED latency-ranks.ts: Finds median and p95 of any number of latencies in bounded room: exact to the millisecond below two seconds, and to a thousandth beyond.

export function createLatencyRanks() {
  const counts = new Map<number, number>();
  let count = 0;
  let max = -1;
  let slowestPage = 0;
  return {
    add(page: number, ms: number): void {
      const rounded = roundedDown(ms);
      counts.set(rounded, (counts.get(rounded) ?? 0) + 1);
      count += 1;
      if (ms > max) {
        max = ms;
        slowestPage = page;
      }
    },
    /** null where there were none. */
    summary(): LatencySummary | null {
      if (count === 0) return null;
      const sorted = [...counts].sort(([a], [b]) => a - b);
      const atRank = (part: number) => {
        let below = 0;
        for (const [ms, times] of sorted) {
          below += times;
          if (below >= part * count) return ms;
        }
        return max;
      };
      return { median: atRank(0.5), p95: atRank(0.95), max, slowestPage };
    },
  };
}

/** To eleven binary digits. */
function roundedDown(ms: number): number {
  const step = 2 ** Math.max(0, Math.floor(Math.log2(Math.max(1, ms))) - 10);
  return Math.floor(ms / step) * step;
}
