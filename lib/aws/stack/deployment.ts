/** A deployed stack, as an operator's commands see it: found by its name, and by what its outputs tell. */

import { ExportError } from '../../core/errors.ts';
import type { Installation } from '../../core/operations/deployment.ts';
import type { Surroundings } from '../../core/ports.ts';
import type { Environment } from '../lambda/step-handler.ts';
import { createOperatorClients } from './clients.ts';
import { installedExport } from './deployed-export.ts';
import { readStack } from './stack-outputs.ts';

export interface StackOptions {
  readonly stackName: string;
  /** For what the SDK does not see by itself; profile, region, endpoints and credentials it finds where it always does. */
  readonly env: Environment;
  readonly surroundings: Surroundings;
}

/**
 * Looks the stack up once; what its exports are set to is asked for when one is opened.
 * @throws ConfigurationError where there is no such stack, it is not ready, or AWS does not let us look
 */
export async function openStack({ stackName, env, surroundings }: StackOptions): Promise<Installation> {
  const clients = createOperatorClients(env);
  try {
    const exports = await readStack(clients.cloudFormation, stackName);
    const region = await clients.cloudFormation.config.region();
    return {
      name: `stack ${stackName} in ${region}`,
      option: `--stack ${stackName}`,
      exportNames: async () => [...exports.keys()],
      async open(exportName) {
        const found = exports.get(exportName);
        if (found !== undefined) return await installedExport(found, clients, surroundings);
        throw new ExportError(
          'ConfigurationError',
          `There is no export ${exportName} in stack ${stackName} in ${region}. It holds ${[...exports.keys()].join(', ')}`,
        );
      },
      async [Symbol.asyncDispose]() {
        clients.close();
      },
    };
  } catch (error) {
    clients.close();
    throw error;
  }
}
