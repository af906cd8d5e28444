/** An export bench as an operator's commands see it: in memory, with nothing scheduled and nothing that held it up. */

import type { DeployedExport, Incident } from '../../lib/core/operations/deployment.ts';
import type { Bench } from './export-bench.ts';

export function installedBench(bench: Bench, incidents: readonly Incident[] = []): DeployedExport {
  const { definition, executions } = bench.deps;
  return {
    name: definition.name,
    definition,
    service: {
      address: definition.request.source,
      vendor: 'ACME',
      cursorIn: 'query',
      keySource: 'a test',
      connect: async () => ({
        fetchPage: (...request) => bench.deps.service.fetchPage(...request),
        [Symbol.asyncDispose]: async () => {},
      }),
    },
    store: bench.store,
    log: bench.log,
    executions,
    nextStart: async () => ({ kind: 'by-hand' }),
    async *incidents() {
      yield* incidents;
    },
    lastIncident: async () => incidents.at(-1),
    start: async () => {
      throw new Error('a bench is started by itself');
    },
  };
}
