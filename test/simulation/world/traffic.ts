/** The requests that the report service is working on, over all exports: none may exceed `maxConcurrentPages`. */

import type { Process } from './process.ts';
import type { World } from './world.ts';

export interface ServiceTraffic {
  /**
   * Records a request that has reached the service, and that keeps it busy for `durationMs`. Call the result when it
   * ends earlier: a client that is suspended does not close its connection.
   */
  begin(process: Process, durationMs: number): () => void;
  /** The most requests at any moment so far. */
  readonly peak: () => number;
}

/** A killed process has closed its connections: its requests do not count. */
export function createServiceTraffic(world: World, maxConcurrentPages: number | undefined): ServiceTraffic {
  const requests = new Set<Process>();
  let peak = 0;
  return {
    begin(process, durationMs) {
      // One process may send several requests.
      const request = { ...process };
      requests.add(request);
      const open = [...requests].filter((each) => each.isAlive());
      peak = Math.max(peak, open.length);
      if (maxConcurrentPages !== undefined && open.length > maxConcurrentPages) {
        const ids = open.map(({ id }) => id).join(', ');
        world.violate('no more pages are requested at once than maxConcurrentPages', `${open.length}: ${ids}`);
      }
      const end = () => {
        requests.delete(request);
      };
      world.time.after(durationMs, end);
      return end;
    },
    peak: () => peak,
  };
}
