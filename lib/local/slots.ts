/** The slots of a service in this process (`maxConcurrentPages`): the slices of a run share them, in the order of their requests. */

import type { PageSlot, PageSlots, Runtime } from '../core/ports.ts';

export function createLocalSlots(limit: number, { now }: Pick<Runtime, 'now'>): PageSlots {
  let free = limit;
  const waiting: (() => void)[] = [];
  const grant = (): PageSlot => {
    let isHeld = true;
    return {
      granted: true,
      grantedAt: now(),
      async release() {
        if (!isHeld) return;
        isHeld = false;
        const next = waiting.shift();
        if (next === undefined) free += 1;
        else next();
      },
    };
  };
  return {
    async acquire(_waiter, { signal }) {
      signal?.throwIfAborted();
      if (free > 0) {
        free -= 1;
        return grant();
      }
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const abort = () => {
        waiting.splice(waiting.indexOf(resolve), 1);
        reject(signal?.reason);
      };
      waiting.push(resolve);
      signal?.addEventListener('abort', abort, { once: true });
      try {
        await promise;
      } finally {
        signal?.removeEventListener('abort', abort);
      }
      return grant();
    },
  };
}
