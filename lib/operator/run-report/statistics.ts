/** Aggregates any number of values in bounded memory. */

export interface StatisticSet {
  readonly count: number;
  readonly sum: number;
  readonly min: number;
  readonly max: number;
}

export const statisticsOf = (value: number): StatisticSet => ({ count: 1, sum: value, min: value, max: value });

export const meanOf = ({ sum, count }: StatisticSet): number => sum / count;

/** null represents no values. */
export function mergeStatistics(a: StatisticSet, b: StatisticSet): StatisticSet;
export function mergeStatistics(a: StatisticSet | null, b: StatisticSet | null): StatisticSet | null;
export function mergeStatistics(a: StatisticSet | null, b: StatisticSet | null): StatisticSet | null {
  if (a === null || b === null) return a ?? b;
  return { count: a.count + b.count, sum: a.sum + b.sum, min: Math.min(a.min, b.min), max: Math.max(a.max, b.max) };
}

/** In milliseconds. */
export interface LatencySummary {
  readonly min: number;
  readonly median: number;
  /** null if there are too few values: of twelve, it would only be the slowest but one. */
  readonly p95: number | null;
  readonly max: number;
  readonly slowestPage: number;
}

/** At least two values are above the p95 of so many. */
const minValuesForP95 = 40;

/** Median and p95 are exact to the millisecond below two seconds, and to 0.1% above. */
export function createLatencyHistogram() {
  const countByMs = new Map<number, number>();
  let count = 0;
  let min = Number.POSITIVE_INFINITY;
  let max = -1;
  let slowestPage = 0;
  return {
    add(page: number, ms: number): void {
      const bucket = roundDown(ms);
      countByMs.set(bucket, (countByMs.get(bucket) ?? 0) + 1);
      count += 1;
      min = Math.min(min, ms);
      if (ms > max) {
        max = ms;
        slowestPage = page;
      }
    },
    /** null without values. */
    summary(): LatencySummary | null {
      if (count === 0) return null;
      const buckets = [...countByMs].sort(([a], [b]) => a - b);
      const quantile = (fraction: number) => {
        let cumulative = 0;
        for (const [ms, bucketCount] of buckets) {
          cumulative += bucketCount;
          if (cumulative >= fraction * count) return ms;
        }
        return max;
      };
      const p95 = count < minValuesForP95 ? null : quantile(0.95);
      return { min, median: quantile(0.5), p95, max, slowestPage };
    },
  };
}

/** To eleven significant binary digits. */
function roundDown(ms: number): number {
  const step = 2 ** Math.max(0, Math.floor(Math.log2(Math.max(1, ms))) - 10);
  return Math.floor(ms / step) * step;
}

export interface BoundedSeries<Item> {
  add(item: Item): void;
  readonly items: readonly Item[];
  /** How many added items each item represents; the last may represent fewer. */
  readonly perItem: number;
}

/**
 * Keeps a series of any length in at most `maxItems` items, an even number. When the series is full, adjacent items are
 * merged pairwise, and each item represents twice as many as before. The length need not be known in advance.
 */
export function createBoundedSeries<Item>(maxItems: number, merge: (a: Item, b: Item) => Item): BoundedSeries<Item> {
  let items: Item[] = [];
  let perItem = 1;
  let countInLast = 1;
  return {
    add(item) {
      const last = items.at(-1);
      if (last !== undefined && countInLast < perItem) {
        items[items.length - 1] = merge(last, item);
        countInLast += 1;
        return;
      }
      if (items.length === maxItems) {
        items = mergePairs(items, merge);
        perItem *= 2;
      }
      items.push(item);
      countInLast = 1;
    },
    get items() {
      return items;
    },
    get perItem() {
      return perItem;
    },
  };
}

function mergePairs<Item>(items: readonly Item[], merge: (a: Item, b: Item) => Item): Item[] {
  const pairs: Item[] = [];
  for (const [index, item] of items.entries()) {
    const previous = pairs.at(-1);
    if (index % 2 === 1 && previous !== undefined) pairs[pairs.length - 1] = merge(previous, item);
    else pairs.push(item);
  }
  return pairs;
}
