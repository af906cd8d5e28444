/** An operator who abandons the unfinished run of an export, as the command does. */

import { Readable } from 'node:stream';
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { createDynamoPageLog } from '../../../lib/aws/dynamodb/page-log.ts';
import { isExportError } from '../../../lib/core/errors.ts';
import type { StoreReader } from '../../../lib/core/ports.ts';
import { abandonRun } from '../../../lib/operator/abandon-run.ts';
import type { Observations } from '../invariants/observations.ts';
import { table } from '../world/functions.ts';
import { createProcess, type Process } from '../world/process.ts';
import type { Command } from '../world/sdk-clients.ts';

/** The process of an operator. */
export const operatorId = 'operator';

export function createAbandon(
  { world, prefix, s3 }: Observations,
  perform: (process: Process, command: Command) => unknown,
): (exportName: string) => Promise<void> {
  return async (exportName) => {
    const process = createProcess({
      world,
      id: operatorId,
      step: 'FailRun',
      payload: { input: { export: exportName }, execution: operatorId },
      skewMs: 0,
      clockJumps: false,
      onKilled: () => {},
    });
    // Nothing happens between its requests, and none fails.
    const client = { send: async (command: Command) => perform(process, command) } as unknown as DynamoDBClient;
    const log = createDynamoPageLog({ client, table, service: 'acme', runtime: process.runtime });
    const store: Pick<StoreReader, 'read' | 'locate'> = {
      async read(key) {
        const object = s3().objects.get(prefix + key);
        return object && Readable.from([object.body]);
      },
      locate: (key) => key,
    };
    const { active } = (await log.exportState(exportName)) ?? {};
    if (active === undefined) return;
    try {
      await abandonRun({ log, store }, active);
      world.log(operatorId, () => `abandons ${active.run}`);
    } catch (error) {
      // It is published, or is being published.
      if (!isExportError(error, 'ConfigurationError')) throw error;
    }
  };
}
