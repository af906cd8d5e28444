/** The concurrent executions of Lambda: how many the account has, and how many the exports of a stack may need. */

import { GetAccountSettingsCommand, type LambdaClient } from '@aws-sdk/client-lambda';
import type { Concurrency } from '../../target/target.ts';
import type { StackExport } from './services.ts';

/** Needs lambda:GetAccountSettings. */
export async function readConcurrency(client: LambdaClient, exports: readonly StackExport[]): Promise<Concurrency> {
  const { AccountLimit } = await client.send(new GetAccountSettingsCommand());
  const shared = exports.filter(({ spareConcurrency }) => spareConcurrency === undefined);
  return {
    unreserved: AccountLimit?.UnreservedConcurrentExecutions ?? 0,
    scheduledExports: shared.filter(({ schedule }) => schedule?.enabled === true).length,
    hasBackfills: shared.some(({ service }) => service.backfillStateMachineArn !== undefined),
  };
}
