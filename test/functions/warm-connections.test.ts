/** What a warm function sets up: each connection once, however many invocations there are. */

import dns from 'node:dns';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { beginRunHandler } from '../../functions/begin-run.ts';
import { exportPageHandler } from '../../functions/export-page.ts';
import type { StepHandler } from '../../lib/aws/lambda/step-handler.ts';
import { createS3Client } from '../../lib/aws/s3/client.ts';
import { createS3PageStore } from '../../lib/aws/s3/page-store.ts';
import { systemRuntime } from '../../lib/core/clock.ts';
import type { ExportPageOutcome } from '../../lib/core/steps/export-page.ts';
import { errorResponse, type FaultScript, onRequest } from '../../lib/report-service/simulator/faults.ts';
import { inMemoryReports } from '../../lib/report-service/simulator/report-source.ts';
import { startSimulator } from '../../lib/report-service/simulator/simulator.ts';
import { type CountedConnections, countedConnections } from '../support/counted-connections.ts';
import { executionArn } from '../support/function-machine.ts';
import { startLocalAws } from '../support/local-aws.ts';
import { simulatorApiKey, someReports } from '../support/simulator-client.ts';

beforeEach(() => {
  for (const stream of [process.stdout, process.stderr]) vi.spyOn(stream, 'write').mockReturnValue(true);
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});

interface Warm extends AsyncDisposable {
  readonly service: CountedConnections;
  readonly connections: Readonly<Record<'dynamoDb' | 's3' | 'secrets', CountedConnections>>;
  readonly made: () => Record<string, number>;
  /** One invocation of export-page, told by what the one before has left. */
  readonly invoke: () => Promise<ExportPageOutcome>;
}

/** A run that is begun, and an export-page that goes on with it, each server behind a counter. */
async function warm(options: { settings?: object; faults?: FaultScript; host?: string } = {}): Promise<Warm> {
  await using stack = new AsyncDisposableStack();
  const aws = stack.use(await startLocalAws());
  const simulator = stack.use(
    await startSimulator({
      vendor: 'SERVICE',
      apiKey: simulatorApiKey,
      reports: inMemoryReports(someReports(100)),
      faults: options.faults,
    }),
  );
  aws.secrets.set('reports/api-key', simulatorApiKey);
  const service = stack.use(await countedConnections(simulator.baseUrl, options.host));
  const dynamoDb = stack.use(await countedConnections(aws.env.AWS_ENDPOINT_URL_DYNAMODB ?? ''));
  const s3 = stack.use(await countedConnections(aws.env.AWS_ENDPOINT_URL ?? ''));
  const secrets = stack.use(await countedConnections(aws.env.AWS_ENDPOINT_URL ?? ''));
  const env = {
    ...aws.env,
    AWS_ENDPOINT_URL_S3: s3.url,
    AWS_ENDPOINT_URL_SECRETS_MANAGER: secrets.url,
    EXPORT_SETTINGS: JSON.stringify({ name: 'reports', size: 1, ...options.settings }),
    SERVICE_SETTINGS: JSON.stringify({ baseUrl: service.url }),
    DEPLOYMENT_NAME: 'ReportExporter',
    TABLE_NAME: aws.table,
    BUCKET_NAME: 'bucket',
    KEY_PREFIX: '',
    API_KEY_SECRET_ID: 'reports/api-key',
    API_KEY_SECRET_FIELD: '',
  };
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  const execution = executionArn('first');
  const context = { awsRequestId: 'request', getRemainingTimeInMillis: () => 60_000 };
  const call = <Outcome>(handler: StepHandler<Outcome>, input: unknown) => handler({ input, execution }, context);
  let left: unknown = await call(beginRunHandler(env), {});
  // From here on by way of the counter.
  vi.stubEnv('AWS_ENDPOINT_URL_DYNAMODB', dynamoDb.url);
  const exportPage = exportPageHandler(env);
  const connections = { dynamoDb, s3, secrets };
  const resources = stack.move();
  return {
    service,
    connections,
    made: () => ({
      service: service.made,
      dynamoDb: dynamoDb.made,
      s3: s3.made,
      secrets: secrets.made,
    }),
    async invoke() {
      const outcome = await call(exportPage, left);
      left = outcome;
      return outcome;
    },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

async function invocations(count: number, { invoke }: Warm): Promise<void> {
  for (let done = 0; done < count; done += 1) await invoke();
}

it('S3 takes large bodies by one connection, too', async () => {
  await using aws = await startLocalAws();
  await using s3 = await countedConnections(aws.env.AWS_ENDPOINT_URL ?? '');
  const env = { ...aws.env, AWS_ENDPOINT_URL_S3: s3.url };
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  const client = createS3Client(env);
  const store = createS3PageStore({ client, bucket: 'bucket', prefix: '', runtime: systemRuntime });
  const large = [Buffer.alloc(3 * 1024 * 1024)];
  for (const key of ['a', 'b', 'c']) await store.putManifest(key, Readable.from(large));
  client.destroy();
  expect([...aws.objects.keys()]).toEqual(['bucket/a', 'bucket/b', 'bucket/c']);
  expect(s3.made).toBe(1);
});

describe('a warm export-page', () => {
  it('connects once to each, however many pages it exports', async () => {
    await using function_ = await warm();
    await invocations(10, function_);
    expect(function_.made()).toEqual({ service: 1, dynamoDb: 1, s3: 1, secrets: 1 });
  });

  it('connects twice at most where two pages are in hand', async () => {
    await using function_ = await warm({ settings: { pagesPerInvocation: 5 } });
    await invocations(10, function_);
    const { service, ...aws } = function_.made();
    expect(service).toBeLessThanOrEqual(2);
    expect(aws).toEqual({ dynamoDb: 1, s3: 1, secrets: 1 });
  });

  it('looks a name up once for each connection, and not for each page', async () => {
    const lookup = vi.spyOn(dns, 'lookup');
    await using function_ = await warm({ host: 'localhost' });
    await invocations(5, function_);
    expect(function_.service.made).toBe(1);
    expect(lookup.mock.calls.filter(([name]) => String(name) === 'localhost')).toHaveLength(1);
  });

  it('keeps the connection where the service refuses for a while', async () => {
    await using function_ = await warm({ faults: onRequest(2, errorResponse(503)) });
    await function_.invoke();
    await expect(function_.invoke()).rejects.toThrow('503');
    await invocations(3, function_);
    expect(function_.made()).toEqual({ service: 1, dynamoDb: 1, s3: 1, secrets: 1 });
  });

  it('notices what was closed while it slept, and loses no attempt to it', async () => {
    await using function_ = await warm();
    await invocations(2, function_);
    for (const each of [function_.service, ...Object.values(function_.connections)]) await each.endAll();
    await invocations(2, function_);
    expect(function_.made()).toEqual({ service: 2, dynamoDb: 2, s3: 2, secrets: 1 });
  });
});
