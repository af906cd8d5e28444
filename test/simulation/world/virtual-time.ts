/**
 * Time that passes only as events happen. Whatever is to happen later waits in a queue, in the order of its moment; the
 * next is taken only when everybody woken by the last has come to rest. So one queue is one history, the same every time.
 */

export interface VirtualTime {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Does `act` so many milliseconds from now, unless what is returned is called before. */
  after(ms: number, act: () => void): () => void;
  sleep(ms: number): Promise<void>;
}

export interface Timeline extends VirtualTime {
  /** Lets events happen until none is left, `until` is passed, or `stop` says so. */
  run(options: { readonly until: number; readonly stop?: () => boolean }): Promise<void>;
  /** Events so far. */
  events(): number;
}

interface Event {
  readonly at: number;
  readonly order: number;
  act: (() => void) | undefined;
}

export function createTimeline(start: number): Timeline {
  const queue: Event[] = [];
  let now = start;
  let order = 0;
  let events = 0;

  const after = (ms: number, act: () => void) => {
    const event: Event = { at: now + Math.max(0, ms), order, act };
    order += 1;
    push(queue, event);
    return () => {
      event.act = undefined;
    };
  };
  return {
    now: () => now,
    after,
    sleep: (ms) =>
      new Promise((resolve) => {
        after(ms, resolve);
      }),
    async run({ until, stop = () => false }) {
      await rest();
      while (!stop()) {
        const next = queue[0];
        if (next === undefined || next.at > until) break;
        pop(queue);
        if (next.act === undefined) continue;
        now = next.at;
        events += 1;
        next.act();
        await rest();
      }
      now = Math.max(now, Math.min(until, queue[0]?.at ?? until));
    },
    events: () => events,
  };
}

/** Promises and streams have settled once the event loop comes round: nothing here waits for a disk or a wire. */
function rest(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

const before = (one: Event, other: Event) => one.at < other.at || (one.at === other.at && one.order < other.order);

/** A binary heap, its first the earliest. */
function push(heap: Event[], event: Event): void {
  let place = heap.push(event) - 1;
  while (place > 0) {
    const above = (place - 1) >> 1;
    const parent = heap[above] as Event;
    if (!before(event, parent)) break;
    heap[place] = parent;
    place = above;
  }
  heap[place] = event;
}

function pop(heap: Event[]): void {
  const last = heap.pop() as Event;
  if (heap.length === 0) return;
  let place = 0;
  for (;;) {
    let below = 2 * place + 1;
    if (below >= heap.length) break;
    const right = heap[below + 1];
    if (right !== undefined && before(right, heap[below] as Event)) below += 1;
    const child = heap[below] as Event;
    if (!before(child, last)) break;
    heap[place] = child;
    place = below;
  }
  heap[place] = last;
}
