/** The slots of a service in this process (`maxConcurrentPages`): the slices of a run share them, in the order of their requests. */

import { createSlots } from '../core/concurrency.ts';
import type { PageSlots, Runtime } from '../core/ports.ts';

export function createLocalSlots(limit: number, { now }: Pick<Runtime, 'now'>): PageSlots {
  const slots = createSlots(limit);
  return {
    async acquire({ signal }) {
      const release = await slots.acquire(signal);
      return { grantedAt: now(), release: async () => release() };
    },
  };
}
