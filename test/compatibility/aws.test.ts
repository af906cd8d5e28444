/** Table and bucket of an earlier version: an execution that it began, or a new one, completes its unfinished runs. */

import { DynamoDBClient, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { beginRunHandler } from '../../functions/begin-run.ts';
import { exportPageHandler } from '../../functions/export-page.ts';
import { failRunHandler } from '../../functions/fail-run.ts';
import { finishRunHandler } from '../../functions/finish-run.ts';
import { createDynamoPageLog } from '../../lib/aws/dynamodb/page-log.ts';
import { createDynamoSlotStore } from '../../lib/aws/dynamodb/slot-store.ts';
import { createS3Client } from '../../lib/aws/s3/client.ts';
import { createS3PageStore } from '../../lib/aws/s3/page-store.ts';
import { systemRuntime } from '../../lib/core/clock.ts';
import type { ExportState } from '../../lib/core/model.ts';
import { functionSettingsSchema } from '../../lib/core/settings/environment.ts';
import { exportDefinition, parseSettings } from '../../lib/core/settings/settings.ts';
import type { StepName } from '../../lib/core/state-machine/definition.ts';
import { selectExport } from '../../lib/core/steps/select-export.ts';
import { type LocalAws, startLocalAws } from '../support/aws/local-aws.ts';
import { collect } from '../support/builders.ts';
import { execute, type ExecutionResult, executionArn, type Functions } from '../support/export/function-machine.ts';
import type { ScriptedService } from '../support/export/scripted-service.ts';
import { expectPublished } from './expect-published.ts';
import { type Invocation, readAws, versions } from './fixtures.ts';
import {
  bucket,
  createService,
  prefix,
  serviceName,
  type Situation,
  situations,
  source,
  stepFunctions,
} from './scenario.ts';

interface Deployment extends AsyncDisposable {
  readonly aws: LocalAws;
  readonly service: ScriptedService;
  /** The handlers of this version. Only ExportPage is not the handler itself, but its step with another service. */
  readonly functions: Functions;
  /** ExportPage with its own client. There is no service that it could reach. */
  readonly exportPage: Functions['ExportPage'];
  readonly log: ReturnType<typeof createDynamoPageLog>;
  readonly store: ReturnType<typeof createS3PageStore>;
  readonly client: DynamoDBClient;
  /** The stored state, which must exist. */
  state(exportName: string): Promise<ExportState>;
}

/** AWS as the earlier version left it, with the functions of this version. */
async function deploy(version: string): Promise<Deployment> {
  const aws = await startLocalAws();
  for (const [name, value] of Object.entries(aws.env)) vi.stubEnv(name, value);
  const client = new DynamoDBClient({});
  for (const item of readAws(version, 'items'))
    await client.send(new PutItemCommand({ TableName: aws.table, Item: item }));
  for (const { path, headers, body } of readAws(version, 'objects')) {
    aws.objects.set(path, { headers, body: Buffer.from(body) });
  }
  for (const { event } of readAws(version, 'invocations')) aws.executions.set(event.execution, 'ABORTED');

  const env = {
    ...aws.env,
    DEPLOYMENT_NAME: 'ReportExporter',
    SERVICE_NAME: serviceName,
    TABLE_NAME: aws.table,
    BUCKET_NAME: bucket,
    KEY_PREFIX: prefix,
    API_KEY_SECRET_ID: 'acme/api-key',
    API_KEY_SECRET_FIELD: 'apiKey',
    BUCKET_KMS_KEY_ARN: '',
  };
  const loadSettings = () => readAws(version, 'functions');
  const { exports } = parseSettings(functionSettingsSchema, loadSettings(), 'settings.json');
  const definitions = new Map(exports.map((each) => [each.name, exportDefinition(each, source)]));
  const log = createDynamoPageLog({ client, table: aws.table, service: serviceName, runtime: systemRuntime });
  const store = createS3PageStore({ client: createS3Client(env), bucket, prefix, runtime: systemRuntime });
  const service = createService();
  const functions: Functions = {
    BeginRun: beginRunHandler(env, loadSettings),
    async ExportPage(event, context) {
      const definition = selectExport(definitions, event.input);
      const executions = { isRunning: async () => false };
      const deps = { definition, service, store, log, executions, runtime: systemRuntime, emit: () => {} };
      return await stepFunctions(deps).ExportPage(event, context);
    },
    FinishRun: finishRunHandler(env, loadSettings),
    FailRun: failRunHandler(env, loadSettings),
  };
  return {
    aws,
    service,
    functions,
    exportPage: exportPageHandler(env, loadSettings),
    log,
    store,
    client,
    async state(exportName) {
      const state = await log.exportState(exportName);
      if (state === undefined) throw new Error(`${exportName} has no state`);
      return state;
    },
    async [Symbol.asyncDispose]() {
      client.destroy();
      await aws[Symbol.asyncDispose]();
    },
  };
}

const context = { awsRequestId: 'request', getRemainingTimeInMillis: () => 60_000 };

async function expectCompleted(situation: Situation, before: ExportState, deployment: Deployment): Promise<void> {
  const { aws, service } = deployment;
  const after = await deployment.state(situation.export);
  await expectPublished(situation, before, after, service, async (key) =>
    String(aws.objects.get(`${bucket}/${prefix}${key}`)?.body),
  );
}

type Execution = NonNullable<ExecutionResult['next']>;

/** Runs the execution, and those in which it continues. */
async function executeAll(functions: Functions, first: Execution): Promise<readonly ExecutionResult[]> {
  const results: ExecutionResult[] = [];
  for (let next: Execution | undefined = first; next !== undefined; next = results.at(-1)?.next) {
    results.push(await execute(functions, next));
  }
  return results;
}

const unfinished = situations.filter(({ next }) => next.resumes);

beforeEach(() => {
  // Logs and metrics of the functions.
  vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  vi.spyOn(process.stderr, 'write').mockReturnValue(true);
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});

describe.each(versions)('AWS as version %s left it', (version) => {
  const invocationsOf = (name: string): readonly Invocation[] =>
    readAws(version, 'invocations').filter((each) => each.export === name);
  const objects = readAws(version, 'objects').filter(({ path }) => !path.endsWith('latest.json'));
  /** Nothing that was there before has changed. */
  const expectUnchanged = ({ aws }: Deployment): void => {
    const stored = objects.map(({ path }) => ({ path, object: aws.objects.get(path) }));
    expect(stored.map(({ path, object }) => ({ path, headers: object?.headers, body: String(object?.body) }))).toEqual(
      objects,
    );
  };

  it.each(situations)('is resumed by a new execution: $export', async (situation) => {
    await using deployment = await deploy(version);
    const before = await deployment.state(situation.export);
    const results = await executeAll(deployment.functions, { name: 'new', input: { export: situation.export } });
    expect(results.map(({ status }) => status)).toEqual(results.map(() => 'succeeded'));
    await expectCompleted(situation, before, deployment);
    expectUnchanged(deployment);
  });

  it.each(unfinished.filter(({ export: name }) => name !== 'failed' && name !== 'continued'))(
    'is resumed by the execution that was running: $export',
    async (situation) => {
      await using deployment = await deploy(version);
      const before = await deployment.state(situation.export);
      // The update happens before this invocation.
      const pending = invocationsOf(situation.export).at(-1);
      if (pending === undefined || 'result' in pending) throw new Error('The execution has ended');
      const { execution } = pending.event;
      let step: StepName = pending.step;
      let payload: unknown = pending.event.input;
      for (;;) {
        payload = JSON.parse(JSON.stringify(await deployment.functions[step]({ input: payload, execution }, context)));
        if (step === 'FinishRun') break;
        const { next } = payload as { readonly next: string };
        expect(['page', 'finish']).toContain(next);
        step = next === 'finish' ? 'FinishRun' : 'ExportPage';
      }
      // In the middle of an execution, a page that is stored but not logged is requested again, and then adopted.
      const isRequestedAgain = situation.export === 'stored';
      const requests = situation.next.requests + (isRequestedAgain ? 1 : 0);
      await expectCompleted({ ...situation, next: { ...situation.next, requests } }, before, deployment);
      expectUnchanged(deployment);
      expect((await deployment.state(situation.export)).lastCompleted?.execution).toBe(execution);
    },
  );

  it('is resumed by the execution that another one has started', async () => {
    await using deployment = await deploy(version);
    const [situation] = situations.filter(({ export: name }) => name === 'continued');
    if (situation === undefined) throw new Error('No execution continues');
    const before = await deployment.state(situation.export);
    const pending = readAws(version, 'continuations').filter((each) => each.export === situation.export);
    expect(pending).toHaveLength(1);
    const results = await executeAll(deployment.functions, pending[0] as Execution);
    expect(results.map(({ status }) => status)).toEqual(results.map(() => 'succeeded'));
    const run = before.active?.run;
    expect([pending[0], ...results.map(({ next }) => next)].map((each) => each?.name)).toEqual([
      `continued-${run}-2`,
      `continued-${run}-3`,
      undefined,
    ]);
    await expectCompleted(situation, before, deployment);
  });

  it('is found by a retry of the last invocation that succeeded, with the same result', async () => {
    await using deployment = await deploy(version);
    const lastOf = (name: string, step: StepName) => {
      const found = invocationsOf(name).findLast((each) => each.step === step && 'result' in each);
      if (found === undefined) throw new Error(`${name} has no ${step}`);
      return found;
    };
    const retried = [
      [deployment.exportPage, lastOf('interrupted', 'ExportPage')],
      [deployment.exportPage, lastOf('continued', 'ExportPage')],
      [deployment.functions.FinishRun, lastOf('completed', 'FinishRun')],
    ] as const;
    for (const [run, { event, result }] of retried) expect(await run(event, context)).toEqual(result);
    const { event, result } = lastOf('failed', 'FailRun');
    // The definition of 1.0 uses every field but the name of the error, which it has already.
    const { error: _, ...used } = result as Record<string, unknown>;
    expect(await deployment.functions.FailRun(event, context)).toEqual(used);
    expect(deployment.service.requests).toEqual([]);
  });

  it('has executions that are recognized as running', async () => {
    await using deployment = await deploy(version);
    deployment.aws.executions.set(executionArn('interrupted-2'), 'RUNNING');
    const { states, output } = await execute(deployment.functions, { name: 'new', input: { export: 'interrupted' } });
    expect(states.at(-1)).toBe('Skipped');
    expect(output).toMatchObject({ reason: expect.stringContaining('interrupted-2 is still exporting') });
  });

  it('has entries and pages that can be read, the newest run first', async () => {
    await using deployment = await deploy(version);
    const { log, store } = deployment;
    const runs = await collect(log.runs('interrupted'));
    expect(runs.map(({ page }) => page)).toEqual([2, 5]);
    for (const run of runs) {
      for (const { key, sha256, nextCursor, revision } of await collect(log.entries(run))) {
        expect(await store.find(key)).toMatchObject({ sha256, nextCursor, revision });
      }
    }
  });

  it('has slots that are still held', async () => {
    await using deployment = await deploy(version);
    const { client, aws } = deployment;
    const slots = createDynamoSlotStore({ client, table: aws.table, service: serviceName, runtime: systemRuntime });
    const state = await slots.read();
    expect(state).toEqual(readAws(version, 'slots'));
    expect(state?.holders).toHaveLength(1);
    expect(state?.queue).toHaveLength(1);
  });
});
