/** The four functions in the real state machine, with a simulator of the service and AWS over real HTTP. */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DeleteItemCommand, DynamoDBClient, QueryCommand, ScanCommand } from '@aws-sdk/client-dynamodb';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { beginRunHandler } from '../../functions/begin-run.ts';
import { exportPageHandler } from '../../functions/export-page.ts';
import { failRunHandler } from '../../functions/fail-run.ts';
import { finishRunHandler } from '../../functions/finish-run.ts';
import { settingsIn } from '../../lib/aws/lambda/service-context.ts';
import type { StepHandler } from '../../lib/aws/lambda/step-handler.ts';
import {
  combineFaults,
  combineScripts,
  errorDocument,
  errorResponse,
  type FaultScript,
  htmlAsXml,
  onPage,
  onRequest,
  otherNamespace,
  throttled,
  trickled,
  truncated,
} from '../support/service/faults.ts';
import { inMemoryReports } from '../support/service/in-memory-reports.ts';
import { type Simulator, startSimulator } from '../support/service/simulator.ts';
import { countIncidents, type IncidentRecord, parseIncidentRecord } from '../../lib/target/incidents.ts';
import { type LocalAws, startLocalAws } from '../support/aws/local-aws.ts';
import { problemsIn } from '../support/docs/published-schemas.ts';
import { execute, executionArn, type Functions } from '../support/export/function-machine.ts';
import { someReports } from '../support/service/simulator-client.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const apiKey = 'the-secret-api-key-7f3a';

interface Deployment extends AsyncDisposable {
  readonly aws: LocalAws;
  readonly service: Simulator;
  readonly env: Readonly<Record<string, string>>;
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
  readonly options?: Readonly<Record<string, unknown>>;
  readonly secret?: string;
  readonly env?: Readonly<Record<string, string>>;
}

async function deploy(options: DeploymentOptions = {}): Promise<Deployment> {
  const { reports = 5, faults, settings, serviceSettings, secret = JSON.stringify({ apiKey }) } = options;
  const aws = await startLocalAws();
  const source = inMemoryReports(someReports(reports));
  const service = await startSimulator({ vendor: 'SERVICE', apiKey, reports: source, faults });
  aws.secrets.set('reports/api-key', secret);
  const env = {
    ...aws.env,
    DEPLOYMENT_NAME: 'ReportExporter',
    SERVICE_NAME: 'acme',
    TABLE_NAME: aws.table,
    BUCKET_NAME: 'bucket',
    KEY_PREFIX: 'all/',
    BUCKET_KMS_KEY_ARN: '',
    API_KEY_SECRET_ID: 'reports/api-key',
    API_KEY_SECRET_FIELD: 'apiKey',
    ...options.env,
  };
  // The SDK reads its endpoints, region and credentials from the process environment.
  for (const [name, value] of Object.entries(aws.env)) vi.stubEnv(name, value);
  const loadSettings = () => ({
    service: { baseUrl: service.baseUrl, ...serviceSettings },
    exports: (options.exports ?? ['reports']).map((name) => ({ name, size: 2, ...settings })),
    ...options.options,
  });
  const functions: Functions = {
    BeginRun: beginRunHandler(env, loadSettings),
    ExportPage: exportPageHandler(env, loadSettings),
    FinishRun: finishRunHandler(env, loadSettings),
    FailRun: failRunHandler(env, loadSettings),
  };
  const dispose = async () => {
    await service.close();
    await aws[Symbol.asyncDispose]();
  };
  return { aws, service, env, functions, [Symbol.asyncDispose]: dispose };
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

/** The recorded incidents of the only run in the table. */
async function incidentsIn({ aws }: Deployment, exportName = 'reports'): Promise<IncidentRecord> {
  const client = new DynamoDBClient({});
  const { Items = [] } = await client.send(new ScanCommand({ TableName: aws.table }));
  client.destroy();
  const [item] = Items.filter(({ pk, sk }) => pk?.S === `acme/${exportName}` && sk?.S?.startsWith('incidents#'));
  return parseIncidentRecord(item?.record?.S);
}

/** Deletes a page-log entry, as if the function had been killed before it logged the page. */
async function deleteEntry(aws: LocalAws, exportName: string, page: number): Promise<void> {
  const client = new DynamoDBClient({});
  const { Items = [] } = await client.send(
    new QueryCommand({
      TableName: aws.table,
      KeyConditionExpression: 'pk = :pk',
      FilterExpression: 'page = :page',
      ExpressionAttributeValues: { ':pk': { S: `acme/${exportName}` }, ':page': { N: String(page) } },
    }),
  );
  for (const { pk, sk } of Items) {
    if (pk && sk) await client.send(new DeleteItemCommand({ TableName: aws.table, Key: { pk, sk } }));
  }
  client.destroy();
  expect(Items).toHaveLength(1);
}

/** What the functions write to stdout and stderr during the test. */
let written: string[] = [];
const lines = () =>
  written
    .join('')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Record<string, unknown>);
const events = (name?: string) =>
  lines().filter(({ message }) => message !== undefined && (name ?? message) === message);
const totalOf = (metric: string) =>
  lines()
    .filter((line) => '_aws' in line && metric in line)
    .flatMap((line) => line[metric] as number | number[])
    .reduce((sum, value) => sum + value, 0);

beforeEach(() => {
  written = [];
  const capture = (chunk: unknown) => {
    written.push(String(chunk));
    return true;
  };
  vi.spyOn(process.stdout, 'write').mockImplementation(capture);
  vi.spyOn(process.stderr, 'write').mockImplementation(capture);
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});

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
      message: expect.stringContaining('503 for a health check page of size 1'),
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

describe('the incidents of a run', () => {
  it('are recorded by the functions when they happen', async () => {
    const faults = combineScripts(
      onPage(1, throttled('1')),
      onPage(2, errorResponse(503), { times: 2 }),
      onPage(3, throttled('120')),
      onPage(4, errorResponse(403), { times: 2 }),
    );
    await using deployment = await deploy({ reports: 9, faults });
    expect(await execute(deployment.functions, { name: 'first' })).toMatchObject({ error: 'ConfigurationError' });
    const record = await incidentsIn(deployment);
    const retry = (attempt: number) => ({ state: 'ExportPage', attempt, maxAttempts: 20 });
    const failed = { kind: 'failed-attempt', page: 2, error: 'ServiceUnavailableError' };
    expect(record.newest).toMatchObject([
      { kind: 'wait', page: 1, seconds: 1 },
      { ...failed, message: expect.stringContaining('503 for page 2'), retry: retry(1) },
      { ...failed, retry: retry(2) },
      { kind: 'wait', page: 3, seconds: 120 },
      { kind: 'failed-run', page: 4, error: 'ConfigurationError', message: expect.stringContaining('403 for page 4') },
    ]);
    expect(countIncidents(record)).toEqual({ failedAttempts: 2, waits: 2, waitSeconds: 121, failures: 1 });

    expect(events('incident-not-recorded')).toEqual([]);
  });
});

describe('the functions', () => {
  it('export every report, publish them, and announce it', async () => {
    await using deployment = await deploy({ reports: 5 });
    const result = await execute(deployment.functions, { name: 'first' });

    expect(result).toMatchObject({ status: 'succeeded', output: { pages: 3, reports: 5 } });
    expect(result.states.at(-1)).toBe('Completed');
    expect(publishedIds(deployment)).toEqual(['r1', 'r2', 'r3', 'r4', 'r5']);
    expect(result.events).toMatchObject([
      { export: 'reports', execution: executionArn('first'), result: { pages: 3 } },
    ]);
    expect(deployment.service.exchanges).toHaveLength(3);
  });

  it('log each event as a line of JSON, and count it in metrics of the export', async () => {
    await using deployment = await deploy({ reports: 5 });
    const result = await execute(deployment.functions, { name: 'first' });
    const { run, bytes } = result.output as { run: string; bytes: number };

    expect(events().map(({ message }) => message)).toEqual([
      'run-started',
      'page-exported',
      'page-exported',
      'page-exported',
      'run-completed',
    ]);
    const commonFields = {
      level: 'INFO',
      export: 'reports',
      run,
      execution: executionArn('first'),
      request: 'request-of-first',
    };
    expect(events('page-exported')).toMatchObject([1, 2, 3].map((page) => ({ ...commonFields, page })));
    expect(events('run-completed')).toMatchObject([{ ...commonFields, pages: 3, reports: 5, bytes }]);

    const totals = { RunsStarted: 1, PagesExported: 3, ReportsExported: 5, BytesExported: bytes, RunsCompleted: 1 };
    for (const [metric, total] of Object.entries(totals)) expect([metric, totalOf(metric)]).toEqual([metric, total]);
    expect(totalOf('ServiceLatency')).toBeGreaterThanOrEqual(0);
    const metrics = lines().filter((line) => '_aws' in line);
    for (const line of metrics) {
      expect(line).toMatchObject({
        export: 'reports',
        _aws: { CloudWatchMetrics: [{ Namespace: 'ReportExporter', Dimensions: [['deployment', 'export']] }] },
      });
      expect(line).not.toHaveProperty('service');
    }
    expect(metrics).toHaveLength(5);
  });

  it('publish for how long no run has had reports, if they are expected', async () => {
    await using deployment = await deploy({ reports: 5, settings: { expect: { reportsEvery: 'P8D' } } });
    await execute(deployment.functions, { name: 'first' });
    expect(events('run-completed')).toMatchObject([{ secondsWithoutReports: 0 }]);
    expect(lines().flatMap((line) => ('SecondsWithoutReports' in line ? [line.SecondsWithoutReports] : []))).toEqual([
      0,
    ]);
  });

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

  it('store pages in the storage class of the settings, and tag all that is never replaced', async () => {
    const objects = { storageClass: 'STANDARD_IA', tags: { team: 'finance' } };
    await using deployment = await deploy({ reports: 5, options: { objects } });
    await execute(deployment.functions, { name: 'first' });
    const stored = [...deployment.aws.objects].map(([key, { headers }]) => [
      key.split('/').at(-1),
      [headers['x-amz-storage-class'], headers['x-amz-tagging']],
    ]);
    expect(Object.fromEntries(stored)).toEqual({
      'page-000001.xml': ['STANDARD_IA', 'team=finance'],
      'page-000002.xml': ['STANDARD_IA', 'team=finance'],
      'page-000003.xml': ['STANDARD_IA', 'team=finance'],
      'manifest.json': [undefined, 'team=finance'],
      'run.json': [undefined, 'team=finance'],
      'latest.json': [undefined, undefined],
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

  it.each([
    ['an error document', errorDocument, 'error'],
    ['HTML as XML', htmlAsXml, '{http://www.w3.org/1999/xhtml}html'],
    ['another version of the service', otherNamespace, '{urn:example:reports:v2}reports'],
  ])('never take %s for a page, in the first run or on page 1 of the next', async (_, fault, root) => {
    let isFaulty = true;
    const faults: FaultScript = ({ cursor, request }) =>
      isFaulty && (cursor !== undefined || request > 1) ? fault : undefined;
    await using deployment = await deploy({ reports: 5, faults });
    const first = await execute(deployment.functions, { name: 'first' });
    expect(first).toMatchObject({ status: 'failed', error: 'ContractError' });
    expect(JSON.stringify(first)).toContain(`the root element ${root} for page 2`);
    expect(JSON.stringify(first)).toContain('but reports is expected: page 1 has it');
    isFaulty = false;
    expect(await execute(deployment.functions, { name: 'second' })).toMatchObject({ status: 'succeeded' });
    expect(publishedIds(deployment)).toEqual(['r1', 'r2', 'r3', 'r4', 'r5']);

    isFaulty = true;
    const third = await execute(deployment.functions, { name: 'third' });
    expect(third).toMatchObject({ status: 'failed', error: 'ContractError' });
    expect(JSON.stringify(third)).toContain('the export has had it so far');
    expect([...deployment.aws.objects.keys()].filter((key) => key.includes('/page-'))).toHaveLength(3);
  });

  it('accept only the root element that the settings name', async () => {
    await using deployment = await deploy({ serviceSettings: { rootElement: '{urn:example:reports:v2}reports' } });
    const end = await execute(deployment.functions, { name: 'first' });
    expect(end).toMatchObject({ status: 'failed', error: 'ContractError' });
    expect(JSON.stringify(end)).toContain('service.rootElement names it');
  });

  it('wait out a long Retry-After in the state machine', async () => {
    await using deployment = await deploy({ reports: 3, faults: onPage(2, throttled('3600')) });
    const result = await execute(deployment.functions, { name: 'first' });
    expect(result.states).toContain('WaitForService');
    expect(publishedIds(deployment)).toEqual(['r1', 'r2', 'r3']);
    expect(totalOf('Waits')).toBe(1);
    // Once for the export, once for the service.
    const waited = lines().filter((line) => 'WaitSeconds' in line);
    expect(waited).toMatchObject([
      { export: 'reports', WaitSeconds: 3_600 },
      { service: 'acme', WaitSeconds: 3_600 },
    ]);
  });

  it('continue a long run in a new execution, and begin the next run at the watermark', async () => {
    await using deployment = await deploy({ reports: 5, settings: { iterationsPerExecution: 2 } });
    const first = await execute(deployment.functions, { name: 'first' });
    expect(first.states.at(-1)).toBe('Continued');
    expect(first.next).toMatchObject({ input: { continues: executionArn('first') } });

    const second = await execute(deployment.functions, first.next ?? { name: '' });
    expect(second.states.at(-1)).toBe('Completed');
    expect(publishedIds(deployment)).toEqual(['r1', 'r2', 'r3', 'r4', 'r5']);
    expect(totalOf('RunsResumed')).toBe(1);

    const third = await execute(deployment.functions, { name: 'third' });
    expect(third.output).toMatchObject({ since: (second.output as { watermark: string }).watermark });
  });

  it('skip while the execution that owns the run is running, and resume the run once it has ended', async () => {
    await using deployment = await deploy({ reports: 3, faults: onPage(2, errorResponse(403)) });
    const { functions, aws } = deployment;
    expect(await execute(functions, { name: 'first' })).toMatchObject({ status: 'failed' });

    aws.executions.set(executionArn('first'), 'RUNNING');
    const skipped = await execute(functions, { name: 'second' });
    expect(skipped.states).toEqual(['BeginRun', 'HasWork', 'Skipped']);
    expect(totalOf('RunsSkipped')).toBe(1);

    aws.executions.set(executionArn('first'), 'ABORTED');
    expect(await execute(functions, { name: 'third' })).toMatchObject({ output: { pages: 2, reports: 3 } });
    expect(publishedIds(deployment)).toEqual(['r1', 'r2', 'r3']);
    expect(events('run-resumed')).toHaveLength(1);
  });

  it('adopt a page that was stored but not logged, without fetching it again', async () => {
    await using deployment = await deploy({ reports: 2 });
    const { functions, aws, service } = deployment;
    const context = { awsRequestId: '1', getRemainingTimeInMillis: () => 60_000 };
    const execution = executionArn('first');
    const loop = await functions.BeginRun({ input: {}, execution }, context);
    const exported = await functions.ExportPage({ input: loop, execution }, context);
    await deleteEntry(aws, 'reports', 1);

    expect(await functions.ExportPage({ input: loop, execution }, context)).toEqual(exported);
    await functions.FinishRun({ input: exported, execution }, context);

    expect(publishedIds(deployment)).toEqual(['r1', 'r2']);
    expect(service.exchanges).toHaveLength(1);
    expect([totalOf('PagesExported'), totalOf('PagesAdopted'), totalOf('ReportsExported')]).toEqual([1, 1, 4]);
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

  it('names every mistake in its settings file', async () => {
    await using deployment = await deploy({ settings: { size: 11, format: '' }, serviceSettings: { vendor: '' } });
    const { BeginRun } = deployment.functions;
    const invoking = BeginRun({ input: {}, execution: 'e' }, { awsRequestId: '1', getRemainingTimeInMillis: () => 1 });
    await expect(invoking).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringMatching(
        /settings\.json service\.vendor: .*exports\[0\]\.format: .*exports\[0\]\.size: /,
      ) as unknown as string,
    });
  });

  it('says what to do if its settings file is missing or not JSON', async () => {
    await using deployment = await deploy();
    await using directory = await temporaryDirectory();
    const context = { awsRequestId: '1', getRemainingTimeInMillis: () => 1 };
    const begin = () =>
      beginRunHandler(deployment.env, settingsIn(directory.path))({ input: {}, execution: 'e' }, context);
    const error = {
      name: 'ConfigurationError',
      message: `Cannot read the settings at ${join(directory.path, 'settings.json')}. Deploy the stack again`,
    };
    await expect(begin()).rejects.toMatchObject(error);
    await writeFile(join(directory.path, 'settings.json'), '{');
    await expect(begin()).rejects.toMatchObject(error);
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

describe('the API key', () => {
  const echo = (status: number) =>
    combineFaults(errorResponse(status, `You sent ${apiKey}`), {
      headers: { 'x-request-id': apiKey, 'x-echo': apiKey },
    });

  it.each([
    [
      'a key that the service rejects and echoes',
      { secret: JSON.stringify({ apiKey }), faults: onPage(1, echo(401), { times: 9 }) },
      'ConfigurationError',
    ],
    ['a request that the service rejects', { faults: onPage(1, echo(400)) }, 'RequestRejectedError'],
    [
      'a response that is not a page',
      { faults: onPage(1, { body: () => `<reports>${apiKey}` }, { times: 9 }) },
      'ContractError',
    ],
    ['a secret that is not JSON', { secret: `"${apiKey}` }, 'ConfigurationError'],
  ] as const)('is in no log line, metric, event, error or incident: %s', async (_, options, error) => {
    await using deployment = await deploy(options);
    const result = await execute(deployment.functions, { name: 'first' });

    expect(result).toMatchObject({ status: 'failed', error });
    expect(events('run-failed')).toMatchObject([{ level: 'ERROR', error, resumable: true }]);
    expect(totalOf('RunsFailed')).toBe(1);
    const outputs = [written.join(''), JSON.stringify(result), JSON.stringify(await incidentsIn(deployment))];
    for (const text of outputs) {
      expect(text).toContain(error);
      expect(text).not.toContain(apiKey);
    }
  });
});
