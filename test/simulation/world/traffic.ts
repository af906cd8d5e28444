/** The requests that the report service receives, over all exports: no more at a time, or in a period, than allowed. */

import type { RateLimit } from '../../../lib/core/slots/request-rate.ts';
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

export interface TrafficLimits {
  readonly maxConcurrentPages: number | undefined;
  readonly rate: RateLimit | undefined;
}

/** A killed process has closed its connections: its requests do not count. */
export function createServiceTraffic(world: World, { maxConcurrentPages, rate }: TrafficLimits): ServiceTraffic {
  const requests = new Set<Process>();
  const recent: number[] = [];
  const checkRate = ({ requests: limit, perMs }: RateLimit): void => {
    const now = world.time.now();
    recent.push(now);
    while ((recent[0] ?? now) <= now - perMs) recent.shift();
    if (recent.length > limit)
      world.violate('no more requests are sent in a period than rate allows', `${recent.length} of ${limit}`);
  };
  let peak = 0;
  return {
    begin(process, durationMs) {
      if (rate !== undefined) checkRate(rate);
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
