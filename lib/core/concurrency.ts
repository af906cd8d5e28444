/** Limits how many asynchronous operations are in progress at the same time, and shares them. */

/** How many small reads of a store are in progress at the same time. */
export const concurrentReads = 16;

/** Lets the next item begin, although the operation has not ended. */
export type Release = () => void;

/**
 * Runs `operation` for each item, at most `limit` at the same time, in the order of the items. Resolves to the results
 * in that order. After an error no further operation begins.
 */
export async function mapConcurrently<Item, Result>(
  items: readonly Item[],
  limit: number,
  operation: (item: Item, release: Release) => Promise<Result>,
): Promise<Result[]> {
  const slots = createSlots(limit);
  let failure: { readonly error: unknown } | undefined;
  return await Promise.all(
    items.map(async (item) => {
      const release = await slots.acquire();
      try {
        if (failure !== undefined) throw failure.error;
        return await operation(item, release);
      } catch (error) {
        failure ??= { error };
        throw error;
      } finally {
        release();
      }
    }),
  );
}

/** At most `limit` holders at the same time, in the order in which they asked. */
export function createSlots(limit: number) {
  let free = limit;
  const waiting = new Set<() => void>();
  return {
    /** @throws the reason of the signal, if it aborts before there is a slot */
    async acquire(signal?: AbortSignal): Promise<Release> {
      signal?.throwIfAborted();
      if (free > 0) free -= 1;
      else {
        const { promise, resolve, reject } = Promise.withResolvers<void>();
        const abort = () => {
          if (waiting.delete(resolve)) reject(signal?.reason);
        };
        waiting.add(resolve);
        signal?.addEventListener('abort', abort, { once: true });
        await promise.finally(() => signal?.removeEventListener('abort', abort));
      }
      let isHeld = true;
      return () => {
        if (!isHeld) return;
        isHeld = false;
        const [next] = waiting;
        // The slot passes to the next one, so that no later caller can take it in between.
        if (next === undefined) free += 1;
        else {
          waiting.delete(next);
          next();
        }
      };
    },
  };
}

/**
 * Resolves when `operation` calls back without an error. For operations of every page: a function that is made by
 * `promisify` for each call takes as long as the call.
 */
export const settled = (operation: (callback: (error: Error | null) => void) => void): Promise<void> =>
  new Promise((resolve, reject) => {
    operation((error) => (error === null ? resolve() : reject(error)));
  });

/**
 * Shares the runs of `operation` among concurrent calls. Each call resolves or rejects with a run that begins after the
 * call, so one run does for all calls during the previous one.
 */
export function sharedRuns(operation: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;
  const begin = (): Promise<void> => {
    next = undefined;
    const begun = operation().finally(() => {
      if (running === begun) running = undefined;
    });
    running = begun;
    return begun;
  };
  return () => {
    next ??= running?.then(begin, begin);
    return next ?? begin();
  };
}
