/**
 * Finds median and p95 of any number of latencies in bounded room: exact to the millisecond below two seconds, and to a
 * thousandth beyond.
 */

import type { LatencySummary } from './data.ts';

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
