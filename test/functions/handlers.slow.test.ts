/**
 * What only the functions add to the protocol: log lines, metrics, events, their settings, and their invocations. With the real state
 * machine, a simulator of the service, and AWS over real HTTP. The simulation runs the same functions through their protocol.
 */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DynamoDBClient, ScanCommand } from '@aws-sdk/client-dynamodb';
import { describe, expect, it, vi } from 'vitest';
import { beginRunHandler } from '../../functions/begin-run.ts';
import { settingsIn } from '../../lib/aws/lambda/service-context.ts';
import type { FunctionOptions } from '../../lib/cdk/settings/deployed-export.ts';
import type { StepHandler } from '../../lib/aws/lambda/step-handler.ts';
import {
  combineScripts,
  errorResponse,
  type FaultScript,
  onPage,
  onRequest,
  throttled,
  trickled,
  truncated,
} from '../support/service/faults.ts';
import { inMemoryReports } from '../support/service/in-memory-reports.ts';
import { type Simulator, startSimulator } from '../support/service/simulator.ts';
import { captureOutput, deployedFunctions, functionEnvironment } from '../support/aws/deployed-functions.ts';
import { type LocalAws, startLocalAws } from '../support/aws/local-aws.ts';
import { problemsIn } from '../support/docs/published-schemas.ts';
import { execute, executionArn, type Functions } from '../support/export/function-machine.ts';
import { someReports } from '../support/service/simulator-client.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const apiKey = 'the-secret-api-key-7f3a';

interface Deployment extends AsyncDisposable {
  readonly aws: LocalAws;
  readonly service: Simulator;
  readonly functions: Functions;
}

interface DeploymentOptions {
  readonly reports?: number;
  readonly faults?: FaultScript;
  /** Their names. Default: `reports`. */
  readonly exports?: readonly string[];
  /** Settings of each export, in addition to its name and size. */
  readonly settings?: Readonly<Record<string, unknown>>;
  readonly serviceSettings?: Readonly<Record<string, unknown>>;
  /** Further fields of the settings file. */
  readonly options?: FunctionOptions;
  readonly env?: Readonly<Record<string, string>>;
}

async function deploy(options: DeploymentOptions = {}): Promise<Deployment> {
  const { reports = 5, faults, settings, serviceSettings } = options;
  const aws = await startLocalAws();
  const source = inMemoryReports(someReports(reports));
  const service = await startSimulator({ vendor: 'SERVICE', apiKey, reports: source, faults });
  aws.secrets.set('reports/api-key', JSON.stringify({ apiKey }));
  const settingsFile = {
    service: { baseUrl: service.baseUrl, ...serviceSettings },
    exports: (options.exports ?? ['reports']).map((name) => ({ name, size: 2, ...settings })),
    ...options.options,
  };
  const env = { KEY_PREFIX: 'all/', API_KEY_SECRET_FIELD: 'apiKey', ...options.env };
  const functions = deployedFunctions(aws, settingsFile, env);
  const dispose = async () => {
    await service.close();
    await aws[Symbol.asyncDispose]();
  };
  return { aws, service, functions, [Symbol.asyncDispose]: dispose };
}

const objectAt = ({ aws }: Deployment, key: string) => aws.objects.get(`bucket/all/${key}`)?.body.toString() ?? '';
const jsonAt = (deployment: Deployment, key: string) =>
  JSON.parse(objectAt(deployment, key)) as Record<string, unknown>;

/** The IDs of all reports that a reader finds through `latest.json`, in order. */
function publishedIds(deployment: Deployment, exportName = 'reports'): string[] {
  const latest = jsonAt(deployment, `${exportName}/latest.json`) as { manifest: string };
  const { pages } = jsonAt(deployment, latest.manifest) as unknown as { pages: readonly { key: string }[] };
  return pages.flatMap(({ key }) =>
    Array.from(objectAt(deployment, key).matchAll(/<r id="([^"]*)"/g), ([, id = '']) => id),
  );
}

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
    deployment.functions.ExportPage({ probe: { export: exportName, since } } as never, {
      awsRequestId: 'probe',
      getRemainingTimeInMillis: () => 60_000,
    });

  it('requests one report, and touches no state', async () => {
    await using deployment = await deploy({ reports: 5 });
    expect(await probe(deployment)).toEqual({
      reports: 1,
      latencyMs: expect.any(Number),
      clockLeadMs: expect.any(Number),
    });
    expect(deployment.service.exchanges).toMatchObject([{ status: 200 }]);
    // One request to AWS: the API key is read.
    expect(deployment.aws.sessionTokens).toHaveLength(1);
    const client = new DynamoDBClient({});
    expect(await client.send(new ScanCommand({ TableName: deployment.aws.table }))).toMatchObject({ Count: 0 });
    client.destroy();
    expect(lines().filter((line) => '_aws' in line || line['level'] === 'ERROR')).toEqual([]);
  });

  it('fails with the name and the message of what is wrong, which is no failed attempt', async () => {
    await using deployment = await deploy({ faults: onRequest(1, errorResponse(503)) });
    await expect(probe(deployment)).rejects.toMatchObject({
      name: 'ServiceUnavailableError',
      message: expect.stringContaining('503 for a health check page'),
    });
    await expect(probe(deployment, 'other')).rejects.toMatchObject({ name: 'ConfigurationError' });
    expect(events('attempt-failed')).toEqual([]);
  });

  it('is accepted by ExportPage alone', async () => {
    await using deployment = await deploy();
    const context = { awsRequestId: 'probe', getRemainingTimeInMillis: () => 60_000 };
    for (const name of ['BeginRun', 'FinishRun', 'FailRun'] as const) {
      const event = { probe: { export: 'reports', since } } as never;
      await expect(deployment.functions[name](event, context)).rejects.toMatchObject({ name: 'ConfigurationError' });
    }
  });
});

describe('the log entry of a page', () => {
  it('says how many attempts had failed before it, and how long the run had waited', async () => {
    const faults = combineScripts(
      onPage(1, throttled('1')),
      onPage(2, errorResponse(503), { times: 2 }),
      onPage(3, throttled('120')),
    );
    await using deployment = await deploy({ reports: 9, faults });
    await execute(deployment.functions, { name: 'first' });
    const client = new DynamoDBClient({});
    const { Items = [] } = await client.send(new ScanCommand({ TableName: deployment.aws.table }));
    client.destroy();
    const pages = Items.filter(({ sk }) => sk?.S?.startsWith('run#')).map(({ record }) => JSON.parse(record?.S ?? ''));
    expect(pages.map(({ page, failedAttempts, waitedSeconds }) => [page, failedAttempts, waitedSeconds])).toEqual([
      [1, undefined, 1],
      [2, 2, undefined],
      [3, undefined, 120],
      [4, undefined, undefined],
      [5, undefined, undefined],
    ]);
  });
});

describe('the functions', () => {
  it('log failures alone with the log level ERROR, and publish the same metrics', async () => {
    await using deployment = await deploy({
      reports: 5,
      options: { logLevel: 'ERROR' },
      faults: onRequest(2, errorResponse(503)),
    });
    const { status } = await execute(deployment.functions, { name: 'first' });
    expect(status).toBe('succeeded');
    expect(events().map(({ message }) => message)).toEqual(['attempt-failed']);
    const totals = { RunsStarted: 1, PagesExported: 3, ReportsExported: 5, RunsCompleted: 1, FailedAttempts: 1 };
    for (const [metric, total] of Object.entries(totals)) expect([metric, totalOf(metric)]).toEqual([metric, total]);
  });

  it('store pages compressed and in the storage class of the settings, and tag all that is never replaced', async () => {
    const objects = { storageClass: 'STANDARD_IA', objectTags: { team: 'finance' } } as const;
    await using deployment = await deploy({ reports: 5, options: { ...objects, compression: 'gzip' } });
    await execute(deployment.functions, { name: 'first' });
    const stored = [...deployment.aws.objects].map(([key, { headers }]) => [
      key.split('/').at(-1),
      [headers['content-type'], headers['x-amz-storage-class'], headers['x-amz-tagging']],
    ]);
    expect(Object.fromEntries(stored)).toEqual({
      'page-000001.xml.gz': ['application/gzip', 'STANDARD_IA', 'team=finance'],
      'page-000002.xml.gz': ['application/gzip', 'STANDARD_IA', 'team=finance'],
      'page-000003.xml.gz': ['application/gzip', 'STANDARD_IA', 'team=finance'],
      'manifest.json': ['application/json', undefined, 'team=finance'],
      'run.json': ['application/json', undefined, 'team=finance'],
      'latest.json': ['application/json', undefined, undefined],
    });
  });

  it('recover from transient errors: failed attempts are logged, and no report is lost or duplicated', async () => {
    await using deployment = await deploy({
      reports: 5,
      faults: combineScripts(onRequest(1, errorResponse(503)), onPage(2, truncated(20))),
    });
    expect(await execute(deployment.functions, { name: 'first' })).toMatchObject({ status: 'succeeded' });

    expect(publishedIds(deployment)).toEqual(['r1', 'r2', 'r3', 'r4', 'r5']);
    expect(totalOf('FailedAttempts')).toBe(2);
    expect(events('attempt-failed')).toMatchObject(
      [1, 2].map((page) => ({
        level: 'ERROR',
        export: 'reports',
        page,
        error: { name: 'ServiceUnavailableError', stack: expect.stringContaining('at ') as unknown as string },
      })),
    );
    expect(lines().filter((line) => 'FailedAttempts' in line)).toMatchObject(
      Array(2).fill({ error: 'ServiceUnavailableError' }),
    );
  });

  it('accept only the root element that the settings name', async () => {
    await using deployment = await deploy({ serviceSettings: { rootElement: '{urn:example:reports:v2}reports' } });
    const end = await execute(deployment.functions, { name: 'first' });
    expect(end).toMatchObject({ status: 'failed', error: 'ContractError' });
    expect(JSON.stringify(end)).toContain('service.rootElement names it');
  });
});

describe('the functions of a service with several exports', () => {
  const exports = ['nightly', 'hourly'];

  it('run each export on its own: pages, state and events carry its name', async () => {
    await using deployment = await deploy({ exports, reports: 3 });
    const results = [
      await execute(deployment.functions, { name: 'first', input: { export: 'nightly' } }),
      await execute(deployment.functions, { name: 'second', input: { export: 'hourly' } }),
      await execute(deployment.functions, { name: 'third', input: { export: 'nightly' } }),
    ];
    expect(results.map(({ status }) => status)).toEqual(['succeeded', 'succeeded', 'succeeded']);
    expect(results.flatMap((result) => result.events)).toMatchObject(
      ['nightly', 'hourly', 'nightly'].map((name) => ({ export: name, result: { export: name } })),
    );
    for (const name of exports) {
      expect(publishedIds(deployment, name)).toEqual(name === 'nightly' ? [] : ['r1', 'r2', 'r3']);
    }
    expect(new Set(events('page-exported').map((line) => line.export))).toEqual(new Set(exports));
    const dimensions = lines().filter((line) => '_aws' in line);
    expect(new Set(dimensions.map((line) => line.export))).toEqual(new Set(exports));
  });

  it('continue a run in an execution whose name and input name the export', async () => {
    await using deployment = await deploy({ exports, reports: 5, settings: { iterationsPerExecution: 1 } });
    const first = await execute(deployment.functions, { name: 'first', input: { export: 'hourly' } });
    expect(first.next).toMatchObject({
      name: expect.stringMatching(/^hourly-\d{8}T\d{6}Z-[0-9a-f]{6}-2$/) as unknown as string,
      input: { export: 'hourly', continues: executionArn('first') },
    });
  });

  it.each([
    [{}, 'The start input does not name an export. Add a field, such as {"export": "nightly"}'],
    [{ export: 'weekly' }, 'There is no export "weekly"'],
    [{ export: 7 }, 'There is no export 7'],
    ['nightly', 'The start input does not name an export. Add a field, such as {"export": "nightly"}'],
  ])('reject the start input %j, and name the exports', async (input, problem) => {
    await using deployment = await deploy({ exports });
    const result = await execute(deployment.functions, { name: 'first', input });
    const message = `${problem}. Exports of this service: hourly, nightly`;
    expect(result).toMatchObject({
      status: 'failed',
      error: 'ConfigurationError',
      events: [{ export: null, error: 'ConfigurationError', failed: { export: null, run: null, message } }],
    });
    expect(problemsIn('failed.v1', result.events[0])).toEqual([]);
    expect(events('run-failed')).toMatchObject([{ level: 'ERROR', errorMessage: message }]);
    // No export's alarm would report it.
    expect([totalOf('StartsRejected'), totalOf('RunsFailed')]).toEqual([1, 0]);
    expect(lines().find((line) => 'StartsRejected' in line)).toMatchObject({
      deployment: 'ReportExporter',
      service: 'acme',
    });
    expect(deployment.service.exchanges).toEqual([]);
  });

  it('announce a failure that FailRun could not record', async () => {
    await using deployment = await deploy({ exports, faults: onRequest(1, errorResponse(400)) });
    const FailRun: StepHandler<unknown> = async () => {
      throw Object.assign(new Error('the table is gone'), { name: 'ConfigurationError' });
    };
    const result = await execute({ ...deployment.functions, FailRun }, { name: 'first', input: { export: 'nightly' } });
    expect(result.states.slice(-4)).toEqual(['FailRun', 'FailureNotRecorded', 'AnnounceFailed', 'Failed']);
    expect(result).toMatchObject({
      error: 'RequestRejectedError',
      events: [
        {
          export: null,
          error: 'RequestRejectedError',
          failed: { export: null, recordingError: { Error: 'ConfigurationError' } },
        },
      ],
    });
    expect(problemsIn('failed.v1', result.events[0])).toEqual([]);
  });
});

describe('a function that fails', () => {
  it('fails its invocation, not its cold start, with every mistake in its environment', async () => {
    await using deployment = await deploy({ env: { SERVICE_NAME: '', TABLE_NAME: '' } });
    const { BeginRun } = deployment.functions;
    const invoking = BeginRun({ input: {}, execution: 'e' }, { awsRequestId: '1', getRemainingTimeInMillis: () => 1 });
    await expect(invoking).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringMatching(/SERVICE_NAME.*TABLE_NAME/) as unknown as string,
    });
    expect(events('attempt-failed')).toMatchObject([{ error: { name: 'ConfigurationError' }, execution: 'e' }]);
  });

  it('says what to do if its settings file is missing, not JSON or of another version', async () => {
    await using deployment = await deploy();
    await using directory = await temporaryDirectory();
    const context = { awsRequestId: '1', getRemainingTimeInMillis: () => 1 };
    const begin = () =>
      beginRunHandler(functionEnvironment(deployment.aws), settingsIn(directory.path))(
        { input: {}, execution: 'e' },
        context,
      );
    const error = {
      name: 'ConfigurationError',
      message: `Cannot read the settings at ${join(directory.path, 'settings.json')}. Deploy the stack again`,
    };
    await expect(begin()).rejects.toMatchObject(error);
    for (const text of ['{', '{"version":2}']) {
      await writeFile(join(directory.path, 'settings.json'), text);
      await expect(begin()).rejects.toMatchObject(error);
    }
  });

  it.each([undefined, null, {}, { input: {} }, { execution: 7 }])(
    'rejects an event that the state machine does not send: %j',
    async (event) => {
      await using deployment = await deploy();
      const invoking = deployment.functions.ExportPage(event as never, {
        awsRequestId: '1',
        getRemainingTimeInMillis: () => 1,
      });
      await expect(invoking).rejects.toMatchObject({ name: 'ConfigurationError' });
    },
  );

  it.each([
    ['without a response', { delayMs: 60_000 }],
    ['with a trickling body', trickled(1, 50)],
  ])('aborts a request %s in time to report a retryable error, and stores nothing', async (_, fault) => {
    await using deployment = await deploy({ faults: onRequest(1, fault) });
    const { functions, aws } = deployment;
    const context = { awsRequestId: '1', getRemainingTimeInMillis: () => 400 };
    const loop = (await functions.BeginRun({ input: {}, execution: executionArn('first') }, context)) as object;

    const exporting = functions.ExportPage({ input: loop, execution: executionArn('first') }, context);
    await expect(exporting).rejects.toMatchObject({
      name: 'ServiceUnavailableError',
      message: expect.stringMatching(/page 1 of run .*200 ms/) as unknown as string,
    });
    expect(aws.objects.size).toBe(0);
  });

  it('uses the code of a network error as its name', async () => {
    await using deployment = await deploy();
    vi.stubEnv('AWS_ENDPOINT_URL_DYNAMODB', 'http://127.0.0.1:1');
    const context = { awsRequestId: '1', getRemainingTimeInMillis: () => 1_000 };
    const invoking = deployment.functions.BeginRun({ input: {}, execution: 'e' }, context);
    await expect(invoking).rejects.toMatchObject({ name: 'ECONNREFUSED' });
  });

  it('logs no error if its run was taken over by another execution', async () => {
    await using deployment = await deploy();
    const context = { awsRequestId: '1', getRemainingTimeInMillis: () => 1_000 };
    const invoking = deployment.functions.ExportPage(
      { input: { iterations: 0, waits: 0, page: 1, run: 'r' }, execution: 'e' },
      context,
    );
    await expect(invoking).rejects.toMatchObject({ name: 'RunSupersededError' });
    expect(events().map(({ level, message }) => [level, message])).toEqual([['INFO', 'run-superseded']]);
    expect(totalOf('FailedAttempts')).toBe(0);
  });
});
