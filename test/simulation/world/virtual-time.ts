/**
 * Time that passes only as events happen. Scheduled events wait in a queue ordered by time; the next one is taken only
 * when all promises of the previous one have settled. So the same events in the same order always give the same
 * history.
 */

export interface VirtualTime {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Calls `act` after `ms`. Returns a function that cancels it. */
  after(ms: number, act: () => void): () => void;
  sleep(ms: number): Promise<void>;
}

export interface Timeline extends VirtualTime {
  /** Processes events until none is left, the next is later than `until`, or `stop` returns true. */
  run(options: { readonly until: number; readonly stop?: () => boolean }): Promise<void>;
  /** Whether nothing is scheduled. */
  isIdle(): boolean;
  /** How many events have happened. */
  eventCount(): number;
}

interface Event {
  readonly at: number;
  /** Decides between events of the same moment: first scheduled, first processed. */
  readonly order: number;
  act: (() => void) | undefined;
}

export function createTimeline(start: number): Timeline {
  const queue: Event[] = [];
  let now = start;
  let order = 0;
  let eventCount = 0;

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
      await settle();
      while (!stop()) {
        const next = queue[0];
        if (next === undefined || next.at > until) break;
        pop(queue);
        if (next.act === undefined) continue;
        now = next.at;
        eventCount += 1;
        next.act();
        await settle();
      }
      now = Math.max(now, Math.min(until, queue[0]?.at ?? until));
    },
    isIdle: () => queue.every(({ act }) => act === undefined),
    eventCount: () => eventCount,
  };
}

/**
 * Nothing here waits for a disk or a socket, so one turn of the event loop settles all promises and streams. The client
 * waits for two turns before it reads a body.
 */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) {
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
  }
}

const isEarlier = (one: Event, other: Event) => one.at < other.at || (one.at === other.at && one.order < other.order);

/** The queue is a binary heap with the earliest event first. */
function push(heap: Event[], event: Event): void {
  let index = heap.push(event) - 1;
  while (index > 0) {
    const parentIndex = (index - 1) >> 1;
    const parent = heap[parentIndex] as Event;
    if (!isEarlier(event, parent)) break;
    heap[index] = parent;
    index = parentIndex;
  }
  heap[index] = event;
}

function pop(heap: Event[]): void {
  const last = heap.pop() as Event;
  if (heap.length === 0) return;
  let index = 0;
  for (;;) {
    let childIndex = 2 * index + 1;
    if (childIndex >= heap.length) break;
    const right = heap[childIndex + 1];
    if (right !== undefined && isEarlier(right, heap[childIndex] as Event)) childIndex += 1;
    const child = heap[childIndex] as Event;
    if (!isEarlier(child, last)) break;
    heap[index] = child;
    index = childIndex;
  }
  heap[index] = last;
}
