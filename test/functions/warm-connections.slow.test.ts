/** Connections of a warm function: one to each server, shared by all invocations. */

import { describe, expect, it, vi } from 'vitest';
import type { StepHandler } from '../../lib/aws/lambda/step-handler.ts';
import type { ExportPageOutcome } from '../../lib/core/steps/loop-outcome.ts';
import { inMemoryReports } from '../support/service/in-memory-reports.ts';
import { startSimulator } from '../support/service/simulator.ts';
import { captureOutput, deployedFunctions } from '../support/aws/deployed-functions.ts';
import { startLocalAws } from '../support/aws/local-aws.ts';
import { executionArn } from '../support/export/function-machine.ts';
import { type ConnectionCounter, countConnections } from '../support/service/connection-counter.ts';
import { simulatorApiKey, someReports } from '../support/service/simulator-client.ts';

captureOutput();

interface WarmFunction extends AsyncDisposable {
  readonly service: ConnectionCounter;
  readonly connections: Readonly<Record<'dynamoDb' | 's3' | 'secrets', ConnectionCounter>>;
  readonly connectionCounts: () => Record<string, number>;
  /** Invokes export-page with the outcome of the previous invocation. */
  readonly invoke: () => Promise<ExportPageOutcome>;
}

/** An export-page function with a run that has begun. The connections to each server are counted. */
async function warmFunction(settings: object = {}): Promise<WarmFunction> {
  await using stack = new AsyncDisposableStack();
  const aws = stack.use(await startLocalAws());
  const simulator = stack.use(
    await startSimulator({
      vendor: 'SERVICE',
      apiKey: simulatorApiKey,
      reports: inMemoryReports(someReports(100)),
    }),
  );
  aws.secrets.set('reports/api-key', simulatorApiKey);
  const service = stack.use(await countConnections(simulator.baseUrl));
  const dynamoDb = stack.use(await countConnections(aws.env.AWS_ENDPOINT_URL_DYNAMODB ?? ''));
  const s3 = stack.use(await countConnections(aws.env.AWS_ENDPOINT_URL ?? ''));
  const secrets = stack.use(await countConnections(aws.env.AWS_ENDPOINT_URL ?? ''));
  const { BeginRun, ExportPage } = deployedFunctions(
    { ...aws, env: { ...aws.env, AWS_ENDPOINT_URL_S3: s3.url, AWS_ENDPOINT_URL_SECRETS_MANAGER: secrets.url } },
    { service: { baseUrl: service.url }, exports: [{ name: 'reports', size: 1, ...settings }] },
  );
  const execution = executionArn('first');
  const context = { awsRequestId: 'request', getRemainingTimeInMillis: () => 60_000 };
  const invokeHandler = <Outcome>(handler: StepHandler<Outcome>, input: unknown) =>
    handler({ input, execution }, context);
  let previousOutcome: unknown = await invokeHandler(BeginRun, {});
  // The table is reached through its counter from here on.
  vi.stubEnv('AWS_ENDPOINT_URL_DYNAMODB', dynamoDb.url);
  const connections = { dynamoDb, s3, secrets };
  const resources = stack.move();
  return {
    service,
    connections,
    connectionCounts: () => ({
      service: service.made,
      dynamoDb: dynamoDb.made,
      s3: s3.made,
      secrets: secrets.made,
    }),
    async invoke() {
      const outcome = (await invokeHandler(ExportPage, previousOutcome)) as ExportPageOutcome;
      previousOutcome = outcome;
      return outcome;
    },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

async function invokeRepeatedly(count: number, { invoke }: WarmFunction): Promise<void> {
  for (let done = 0; done < count; done += 1) await invoke();
}

describe('a warm export-page', () => {
  it('connects once to each server, for any number of pages', async () => {
    await using warm = await warmFunction();
    await invokeRepeatedly(10, warm);
    expect(warm.connectionCounts()).toEqual({ service: 1, dynamoDb: 1, s3: 1, secrets: 1 });
  });

  it('notices connections that were closed between invocations, without a failed attempt', async () => {
    await using warm = await warmFunction();
    await invokeRepeatedly(2, warm);
    for (const each of [warm.service, ...Object.values(warm.connections)]) await each.endAll();
    await invokeRepeatedly(2, warm);
    expect(warm.connectionCounts()).toEqual({ service: 2, dynamoDb: 2, s3: 2, secrets: 1 });
  });
});
