/** An export bench as an operator's commands see it: in memory, with nothing scheduled and nothing that held it up. */

import type { InstalledExport, Setback } from '../../lib/core/operations/deployment.ts';
import type { Bench } from './export-bench.ts';

export function installedBench(bench: Bench, setbacks: readonly Setback[] = []): InstalledExport {
  const { definition, executions } = bench.needs;
  return {
    name: definition.name,
    definition,
    service: {
      address: definition.request.source,
      vendor: 'ACME',
      cursorIn: 'query',
      keySource: 'a test',
      connect: async () => ({
        fetchPage: (...request) => bench.needs.service.fetchPage(...request),
        [Symbol.asyncDispose]: async () => {},
      }),
    },
    store: bench.store,
    log: bench.log,
    executions,
    nextStart: async () => ({ kind: 'by-hand' }),
    async *setbacks() {
      yield* setbacks;
    },
    lastSetback: async () => setbacks.at(-1),
    start: async () => {
      throw new Error('a bench is started by itself');
    },
  };
}
