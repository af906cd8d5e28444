/** Follows a run's page log and keeps what a chart can show of it: every page of a short run, and of a long one its course. */

import type { Instant, PageEntry } from '../../core/model.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import type { LatencySummary, PagePoint, TimeSpent } from './data.ts';
import { createLatencyRanks, spreadOf, together } from './statistics.ts';

/** A chart is some thousand pixels wide, so more points show nothing more. */
const maxPoints = 2_000;

export interface PageCourse {
  readonly points: readonly PagePoint[];
  readonly pagesPerPoint: number;
  readonly latency: LatencySummary | null;
  readonly time: TimeSpent;
  readonly adopted: number;
}

export function createPageCourse(startedAt: Instant) {
  const points = createBoundedSeries<PagePoint>(maxPoints, joined);
  const ranks = createLatencyRanks();
  const spent = { before: 0, latency: 0, transfer: 0 };
  let maxGap: TimeSpent['maxGap'] = null;
  let adopted = 0;
  let formerAt = epochMsOf(startedAt);
  return {
    add(entry: PageEntry): void {
      const point = pointOf(entry, formerAt);
      points.add(point);
      if (entry.timing === null) adopted += 1;
      else ranks.add(entry.page, entry.timing.latencyMs);
      spent.before += point.before?.sum ?? 0;
      spent.latency += point.latency?.sum ?? 0;
      spent.transfer += point.transfer?.sum ?? 0;
      const gap = Math.max(0, point.loggedAt - formerAt);
      if (gap > (maxGap?.ms ?? -1)) maxGap = { ms: gap, page: entry.page };
      formerAt = point.loggedAt;
    },
    course: (): PageCourse => ({
      points: points.items,
      pagesPerPoint: points.perItem,
      latency: ranks.summary(),
      time: { ...spent, maxGap },
      adopted,
    }),
  };
}

function pointOf({ page, loggedAt, timing, bytes, reports }: PageEntry, formerAt: number): PagePoint {
  const logged = epochMsOf(loggedAt);
  const asked = timing === null ? 0 : epochMsOf(timing.requestedAt);
  // The clocks of two machines may differ, and no time is less than nothing.
  const span = (ms: number) => (timing === null ? null : spreadOf(Math.max(0, ms)));
  return {
    firstPage: page,
    pages: 1,
    loggedAt: logged,
    before: span(asked - formerAt),
    latency: span(timing?.latencyMs ?? 0),
    transfer: span(logged - asked - (timing?.latencyMs ?? 0)),
    bytes: spreadOf(bytes),
    reports: reports === null ? null : spreadOf(reports),
  };
}

/** Two points next to each other as one. */
export function joined(a: PagePoint, b: PagePoint): PagePoint {
  return {
    firstPage: a.firstPage,
    pages: a.pages + b.pages,
    loggedAt: b.loggedAt,
    before: together(a.before, b.before),
    latency: together(a.latency, b.latency),
    transfer: together(a.transfer, b.transfer),
    bytes: together(a.bytes, b.bytes),
    reports: together(a.reports, b.reports),
  };
}

// MERGED bounded-series.ts: Keeps a series of any length in bounded room: when it is full, neighbours are merged two by two, and from then on each item stands for twice as many as before. So nobody has to know beforehand how long it will be.

export interface BoundedSeries<Item> {
  add(item: Item): void;
  readonly items: readonly Item[];
  /** How many of those added an item stands for; the last one may stand for fewer. */
  readonly perItem: number;
}

/** Holds at most `most` items, an even number. */
export function createBoundedSeries<Item>(most: number, merge: (a: Item, b: Item) => Item): BoundedSeries<Item> {
  let items: Item[] = [];
  let perItem = 1;
  let inLast = 1;
  return {
    add(item) {
      const last = items.at(-1);
      if (last !== undefined && inLast < perItem) {
        items[items.length - 1] = merge(last, item);
        inLast += 1;
        return;
      }
      if (items.length === most) {
        items = halved(items, merge);
        perItem *= 2;
      }
      items.push(item);
      inLast = 1;
    },
    get items() {
      return items;
    },
    get perItem() {
      return perItem;
    },
  };
}

function halved<Item>(items: readonly Item[], merge: (a: Item, b: Item) => Item): Item[] {
  const pairs: Item[] = [];
  for (const [index, item] of items.entries()) {
    const before = pairs.at(-1);
    if (index % 2 === 1 && before !== undefined) pairs[pairs.length - 1] = merge(before, item);
    else pairs.push(item);
  }
  return pairs;
}
