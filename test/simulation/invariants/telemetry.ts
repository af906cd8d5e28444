/** Takes the functions' telemetry into the event log. Checks that each line and metric names its own invocation. */

import type { TelemetryOutput } from '../../../lib/aws/lambda/telemetry.ts';
import type { Container } from '../world/container.ts';
import type { World } from '../world/world.ts';
import { exportOf } from './observations.ts';
import { checkNoUrl } from './report-jobs.ts';

type Fields = Readonly<Record<string, unknown>>;

/** With the messages and causes of errors. */
const textOf = (line: Fields): string =>
  JSON.stringify(line, (_name, value: unknown) =>
    value instanceof Error ? { text: String(value), cause: value.cause } : value,
  );

export function createTelemetryOutput(world: World, container: Container): TelemetryOutput {
  const violate = (details: string) =>
    world.violate('an invocation publishes its own telemetry', `${container.lastProcess().id}: ${details}`);
  const unpublished = new Set<object>();
  /** A container that is reused must not write the fields of the invocation before. */
  const check = ({ export: exportName, execution, request }: Fields, what: string) => {
    const { id, payload } = container.lastProcess();
    const own = exportOf(payload.startInput) ?? exportOf(payload.input);
    const isOther =
      (own !== undefined && (exportName ?? own) !== own) ||
      (execution ?? payload.execution) !== payload.execution ||
      (request ?? id) !== id;
    if (isOther) violate(`${what} of ${String(exportName)} of ${String(execution)}`);
  };
  return {
    createLogger() {
      let keys: Fields = {};
      const log = (message: string, fields: Fields) => {
        const line = { ...keys, ...fields };
        check(line, message);
        checkNoUrl(world, container.lastProcess().id, textOf(line));
        world.log(container.lastProcess().id, () => {
          const { execution: _, request: __, ...own } = line;
          return `emits ${message} ${JSON.stringify(own, (_name, value) => (value instanceof Error ? value.name : value))}`;
        });
      };
      return {
        appendKeys(fields) {
          keys = { ...keys, ...fields };
        },
        resetKeys() {
          if (unpublished.size > 0) violate('has metrics of the invocation before');
          keys = {};
        },
        info: log,
        error: log,
      };
    },
    createMetrics(dimensions) {
      const metrics = {
        addMetric(name: string) {
          unpublished.add(metrics);
          check(dimensions, name);
        },
        addMetadata() {},
        hasStoredMetrics: () => unpublished.has(metrics),
        publishStoredMetrics() {
          unpublished.delete(metrics);
          check(dimensions, 'metrics');
        },
      };
      return metrics;
    },
  };
}
