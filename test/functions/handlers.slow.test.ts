/**
 * What only the functions add to the protocol: log lines, metrics, events, their settings, and their invocations. With
 * the real state machine, a simulator of the service, and a fake AWS. The simulation runs the same functions through
 * their protocol.
 */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { beginRunHandler } from '../../functions/begin-run.ts';
import { settingsIn } from '../../lib/aws/lambda/service-context.ts';
import { errorResponse, type FaultScript, onRequest, trickled } from '../support/service/faults.ts';
import { inMemoryReports } from '../support/service/in-memory-reports.ts';
import { type Simulator, startSimulator } from '../support/service/simulator.ts';
import {
  captureOutput,
  deployedFunctions,
  functionEnvironment,
  type WrittenSettings,
} from '../support/aws/deployed-functions.ts';
import { createFakeAws, type FakeAws } from '../support/aws/fake-aws.ts';
import { problemsIn } from '../support/docs/published-schemas.ts';
import { execute, executionArn, type Functions } from '../support/export/function-machine.ts';
import { someReports } from '../support/service/simulator-client.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const apiKey = 'the-secret-api-key-7f3a';
const send = { 'X-SERVICE-API-KEY': '{secret.apiKey}' };

interface Deployment extends AsyncDisposable {
  readonly aws: FakeAws;
  readonly service: Simulator;
  readonly functions: Functions;
}

/** Functions of five reports, two on a page. `settings` changes their settings file. */
async function deploy(settings: Partial<WrittenSettings> = {}, faults?: FaultScript, env = {}): Promise<Deployment> {
  const aws = createFakeAws();
  const service = await startSimulator({ vendor: 'SERVICE', apiKey, reports: inMemoryReports(someReports(5)), faults });
  aws.secrets.set('reports/api-key', JSON.stringify({ apiKey }));
  const written = { service: { baseUrl: service.baseUrl, send }, exports: [{ name: 'reports', size: 2 }], ...settings };
  const functions = deployedFunctions(aws, written, { prefix: 'all/', ...env });
  const dispose = async () => await service.close();
  return { aws, service, functions, [Symbol.asyncDispose]: dispose };
}

const contextWith = (remainingMs: number) => ({ awsRequestId: '1', getRemainingTimeInMillis: () => remainingMs });

const { lines } = captureOutput();
const events = (name?: string) =>
  lines().filter(({ message }) => message !== undefined && (name ?? message) === message);
const totalOf = (metric: string) =>
  lines()
    .filter((line) => '_aws' in line && metric in line)
    .flatMap((line) => line[metric] as number | number[])
    .reduce((sum, value) => sum + value, 0);

describe('a probe of the service by ExportPage', () => {
  const since = '2026-01-01T00:00:00Z';
  const probe = (deployment: Deployment, exportName = 'reports') =>
    deployment.functions.ExportPage({ probe: { export: exportName, since } } as never, contextWith(60_000));

  it('requests the page of a run, and touches no state', async () => {
    await using deployment = await deploy();
    expect(await probe(deployment)).toEqual({
      reports: 2,
      latencyMs: expect.any(Number),
    });
    expect(deployment.service.exchanges).toMatchObject([{ status: 200 }]);
    // The API key is read, and the state, which it does not have.
    expect([...new Set(deployment.aws.requests)].sort()).toEqual(['DynamoDBClient', 'SecretsManagerClient']);
    expect(deployment.aws.items()).toEqual([]);
    expect(lines().filter((line) => '_aws' in line || line['level'] === 'ERROR')).toEqual([]);
  });

  it('fails with the name and the message of what is wrong, which is no failed attempt', async () => {
    await using deployment = await deploy({}, onRequest(1, errorResponse(503)));
    await expect(probe(deployment)).rejects.toMatchObject({
      name: 'ServiceUnavailableError',
      message: expect.stringContaining('503 for page 1 of the next run'),
    });
    await expect(probe(deployment, 'other')).rejects.toMatchObject({ name: 'ConfigurationError' });
    expect(events('attempt-failed')).toEqual([]);
  });

  it('is accepted by ExportPage alone', async () => {
    await using deployment = await deploy();
    for (const name of ['BeginRun', 'FinishRun', 'FailRun'] as const) {
      const event = { probe: { export: 'reports', since } } as never;
      await expect(deployment.functions[name](event, contextWith(60_000))).rejects.toMatchObject({
        name: 'ConfigurationError',
      });
    }
  });
});

it('the settings reach the functions: how they compress pages', async () => {
  await using deployment = await deploy({ compression: 'gzip' }, onRequest(2, errorResponse(503)));
  expect(await execute(deployment.functions, { name: 'first' })).toMatchObject({ status: 'succeeded' });
  const error = { name: 'ServiceUnavailableError', stack: expect.stringContaining('at ') as unknown as string };
  expect(events('attempt-failed')).toMatchObject([{ level: 'ERROR', export: 'reports', page: 2, error }]);
  const totals = { RunsStarted: 1, PagesExported: 3, ReportsExported: 5, RunsCompleted: 1, FailedAttempts: 1 };
  for (const [metric, total] of Object.entries(totals)) expect([metric, totalOf(metric)]).toEqual([metric, total]);

  const stored = [...deployment.aws.requested].map(([key, { ContentType }]) => [key.split('/').at(-1), ContentType]);
  const page = 'application/gzip';
  expect(Object.fromEntries(stored)).toEqual({
    ...Object.fromEntries([1, 2, 3].map((number) => [`page-00000${number}.xml.gz`, page])),
    'manifest.json': 'application/json',
    'run.json': 'application/json',
    'latest.json': 'application/json',
  });
});

it.each([
  [{}, 'The start input does not name an export. Add a field, such as {"export": "nightly"}'],
  [{ export: 'weekly' }, 'There is no export "weekly"'],
])(
  'the start input %j is rejected with the names of the exports, and counts as no failed run',
  async (input, problem) => {
    await using deployment = await deploy({ exports: [{ name: 'nightly' }, { name: 'hourly' }] });
    const result = await execute(deployment.functions, { name: 'first', input });
    const message = `${problem}. Exports of this service: hourly, nightly`;
    expect(result).toMatchObject({
      status: 'failed',
      error: 'ConfigurationError',
      events: [{ export: null, error: 'ConfigurationError', failed: { export: null, run: null, message } }],
    });
    expect(problemsIn('failed.v1', result.events[0])).toEqual([]);
    expect(events('run-failed')).toMatchObject([{ level: 'ERROR', errorMessage: message }]);
    expect(totalOf('RunsFailed')).toBe(0);
    expect(deployment.service.exchanges).toEqual([]);
  },
);

describe('a function that fails', () => {
  it('fails its invocation, not its cold start, if another version has deployed it', async () => {
    await using deployment = await deploy({}, undefined, { version: 2 });
    for (const invoke of Object.values(deployment.functions)) {
      await expect(invoke({ input: {}, execution: 'e' }, contextWith(1))).rejects.toMatchObject({
        name: 'ConfigurationError',
        message: 'Cannot read the environment variable REPORT_EXPORTER of the function. Deploy the stack again',
      });
    }
    expect(events('attempt-failed')[0]).toMatchObject({ error: { name: 'ConfigurationError' }, execution: 'e' });
  });

  it('says what to do if its settings file is missing, not JSON or of another version', async () => {
    await using deployment = await deploy();
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'settings.json');
    for (const text of [undefined, '{', '{"version":2}']) {
      if (text !== undefined) await writeFile(file, text);
      const begin = beginRunHandler(functionEnvironment(deployment.aws), settingsIn(directory.path));
      await expect(begin({ input: {}, execution: 'e' }, contextWith(1))).rejects.toMatchObject({
        name: 'ConfigurationError',
        message: `Cannot read the settings at ${file}. Deploy the stack again`,
      });
    }
  });

  it('rejects an event that the state machine does not send', async () => {
    await using deployment = await deploy();
    for (const event of [undefined, null, {}, { input: {} }, { execution: 7 }]) {
      const invoking = deployment.functions.ExportPage(event as never, contextWith(1));
      await expect(invoking).rejects.toMatchObject({ name: 'ConfigurationError' });
    }
  });

  it('aborts a request in time to report a retryable error, and stores nothing', async () => {
    await using deployment = await deploy({}, onRequest(1, trickled(1, 50)));
    const { functions, aws } = deployment;
    const event = { input: {}, execution: executionArn('first') };
    const loop = (await functions.BeginRun(event, contextWith(400))) as object;
    await expect(functions.ExportPage({ ...event, input: loop }, contextWith(400))).rejects.toMatchObject({
      name: 'ServiceUnavailableError',
      message: expect.stringMatching(/page 1 of run .*200 ms/) as unknown as string,
    });
    expect(aws.bucket('bucket').objects.size).toBe(0);
  });

  it('logs no error if its run was taken over by another execution', async () => {
    await using deployment = await deploy();
    const input = { iterations: 0, waits: 0, page: 1, run: 'r' };
    const invoking = deployment.functions.ExportPage({ input, execution: 'e' }, contextWith(1_000));
    await expect(invoking).rejects.toMatchObject({ name: 'RunSupersededError' });
    expect(events().map(({ level, message }) => [level, message])).toEqual([['INFO', 'run-superseded']]);
    expect(totalOf('FailedAttempts')).toBe(0);
  });
});
