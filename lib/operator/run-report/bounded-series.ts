/**
 * Keeps a series of any length in bounded room: when it is full, neighbours are merged two by two, and from then on each
 * item stands for twice as many as before. So nobody has to know beforehand how long it will be.
 */

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
