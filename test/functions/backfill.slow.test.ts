/** The functions in both state machines of a service: a backfill with a simulator of the service and AWS over real HTTP. */

import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { StateMachine as Interpreter, type RunOptions, type StateMachineDefinition } from 'aws-local-stepfunctions';
import { describe, expect, it } from 'vitest';
import { createDynamoPageLog } from '../../lib/aws/dynamodb/page-log.ts';
import { systemRuntime } from '../../lib/core/clock.ts';
import { asDocumentRoot } from '../../lib/core/document-root.ts';
import { type Window, windowBounds, windowName } from '../../lib/backfill/windows.ts';
import { abandonBackfill } from '../../lib/backfill/abandon.ts';
import { beginBackfill } from '../../lib/backfill/plan.ts';
import type { BackfillRequest } from '../../lib/backfill/request.ts';
import { readBackfillStatus } from '../../lib/backfill/status.ts';
import { remainingWindows } from '../../lib/backfill/window-states.ts';
import {
  exportDefinition,
  exportSettingsSchema,
  serviceSettingsSchema,
  sourceOf,
} from '../../lib/settings/settings.ts';
import { backfillStateMachine, type WindowInput } from '../../lib/core/state-machine/backfill-definition.ts';
import { inMemoryReports } from '../support/service/in-memory-reports.ts';
import { type Simulator, type SimulatorOptions, startSimulator } from '../support/service/simulator.ts';
import { captureOutput, deployedFunctions } from '../support/aws/deployed-functions.ts';
import { type LocalAws, startLocalAws } from '../support/aws/local-aws.ts';
import { at } from '../support/builders.ts';
import { execute, executionArn, type Functions } from '../support/export/function-machine.ts';

const root = asDocumentRoot('reports');
const apiKey = 'the-secret-api-key-7f3a';
const hourMs = 3_600_000;
const begin = Date.UTC(2020, 0, 1);

/** 96 reports, `r0` to `r95`, one an hour from 2020-01-01 on. */
const reports = Array.from({ length: 96 }, (_, index) => ({
  id: `r${index}`,
  date: begin + index * hourMs,
  xml: `<r id="r${index}"/>`,
}));
const idsFrom = (first: number, end: number) => reports.slice(first, end).map(({ id }) => id);

/** 24 windows of three reports, so of two pages each: `r12` to `r83`. */
const period: BackfillRequest = {
  from: at('2020-01-01T12:00:00Z'),
  to: at('2020-01-04T12:00:00Z'),
  windowMs: 3 * hourMs,
  parallel: 4,
};

interface World extends AsyncDisposable {
  readonly aws: LocalAws;
  readonly service: Simulator;
  readonly functions: Functions;
  /** The functions with changed settings of the service. */
  readonly functionsWith: (changes: object) => Functions;
  readonly log: ReturnType<typeof createDynamoPageLog>;
  /** What the operations on backfills need. */
  readonly operator: Parameters<typeof beginBackfill>[0] & Parameters<typeof abandonBackfill>[0];
}

interface DeploymentOptions {
  /** Of the export. */
  readonly settings?: object;
  readonly upperBounds?: SimulatorOptions['upperBounds'];
}

async function aDeployment({ settings = {}, upperBounds }: DeploymentOptions = {}): Promise<World> {
  const aws = await startLocalAws();
  const service = await startSimulator({ vendor: 'SERVICE', apiKey, reports: inMemoryReports(reports), upperBounds });
  aws.secrets.set('reports/api-key', apiKey);
  const settingsWith = (changes: object) => ({
    service: { baseUrl: service.baseUrl, filterUntil: 'date.lt', ...changes },
    exports: [{ name: 'nightly', size: 2, since: { initial: '2020-01-04T12:00:00Z' }, ...settings }],
  });
  const functionsWith = (changes: object) => deployedFunctions(aws, settingsWith(changes));
  const functions = functionsWith({});
  const client = new DynamoDBClient({});
  const log = createDynamoPageLog({ client, table: aws.table, service: 'acme', runtime: systemRuntime });
  const [settingsOfExport] = settingsWith({}).exports;
  return {
    aws,
    service,
    functions,
    functionsWith,
    log,
    operator: {
      log,
      backfills: log.backfills,
      runtime: systemRuntime,
      store: { read: async () => undefined, listFolders: async function* () {}, locate: (key) => key },
      executions: {
        isRunning: async (execution) => aws.executions.get(execution) === 'RUNNING',
        hasEnded: async () => false,
      },
      definition: exportDefinition(
        exportSettingsSchema.parse(settingsOfExport),
        sourceOf(service.baseUrl),
        serviceSettingsSchema.parse(settingsWith({}).service),
      ),
      untilOperator: 'lt',
    },
    async [Symbol.asyncDispose]() {
      client.destroy();
      await service.close();
      await aws[Symbol.asyncDispose]();
    },
  };
}

interface Started {
  readonly name: string;
  readonly input: { readonly export: string };
}

/**
 * Interprets one execution of the state machine of backfills. Its child executions, which the interpreter runs as those of a plain Map,
 * start real executions of the service's state machine. The interpreter has no ItemReader, so the windows are in the input. There are no
 * delays. Returns the executions of windows, in the order of their starts.
 */
async function interpret(
  { functions, aws }: Pick<World, 'functions' | 'aws'>,
  { parallel, windows }: { readonly parallel: number; readonly windows: readonly Window[] },
  onStart: (nth: number) => void = () => {},
): Promise<readonly Started[]> {
  const started: Started[] = [];
  const continuations: Promise<void>[] = [];
  const run = async (name: string, input: unknown): Promise<unknown> => {
    aws.executions.set(executionArn(name), 'RUNNING');
    const { status, output, next } = await execute(functions, { name, input });
    aws.executions.set(executionArn(name), status === 'succeeded' ? 'SUCCEEDED' : 'FAILED');
    if (next !== undefined) continuations.push(run(next.name, next.input).then(() => undefined));
    if (status === 'failed') throw Object.assign(new Error('The execution failed'), { name: 'States.TaskFailed' });
    return output;
  };
  const handlers = {
    ExportWindow: async (parameters: unknown) => {
      const { Name: name, Input: input } = parameters as { Name: string; Input: Started['input'] };
      started.push({ name, input });
      onStart(started.length);
      return { Output: await run(name, input) };
    },
  };
  const { States, ...definition } = backfillStateMachine({
    bucket: 'bucket',
    stateMachine: 'arn:aws:states:us-east-1:123456789012:stateMachine:reports',
    partition: 'aws',
    executionTimeoutSeconds: 3_600,
  });
  const items = windows.map((window): WindowInput => ({ export: 'nightly', window: windowBounds(window) }));
  const input = JSON.parse(JSON.stringify({ parallel, windows: items })) as Parameters<Interpreter['run']>[0];
  const machine = {
    ...definition,
    // A timer of Node.js cannot hold the timeout of the definition.
    TimeoutSeconds: 3_600,
    States: { ...States, ExportWindows: { ...States.ExportWindows, ItemsPath: '$.windows' } },
  };
  const execution = new Interpreter(machine as unknown as StateMachineDefinition, {
    validationOptions: { noValidate: true },
  }).run(input, {
    overrides: {
      taskResourceLocalHandlers: handlers as unknown as NonNullable<
        NonNullable<RunOptions['overrides']>['taskResourceLocalHandlers']
      >,
      waitTimeOverrides: { WaitForWindow: 0 },
    },
    context: { Execution: { Id: executionArn('backfill'), Input: input } } as NonNullable<RunOptions['context']>,
  });
  await execution.result;
  await Promise.all(continuations);
  return started;
}

/** Begins or continues the backfill and interprets its execution, as the command does. */
async function backfill(world: World, request: BackfillRequest = period, onStart?: (nth: number) => void) {
  const begun = await beginBackfill(world.operator, request, root);
  const windows = await remainingWindows(world.log.backfills, begun);
  return { windows, started: await interpret(world, { parallel: begun.parallel, windows }, onStart) };
}

/** The IDs of the reports in the pages of all published windows, in the order of the windows. */
function publishedIds({ aws }: World): string[] {
  const manifests = [...aws.objects]
    .filter(([key]) => key.endsWith('/manifest.json'))
    .map(([, { body }]) => JSON.parse(body.toString()) as { since: string; pages: readonly { key: string }[] })
    .sort((one, other) => (one.since < other.since ? -1 : 1));
  return manifests.flatMap(({ pages }) =>
    pages.flatMap(({ key }) =>
      Array.from(String(aws.objects.get(`bucket/${key}`)?.body).matchAll(/<r id="([^"]*)"/g), ([, id = '']) => id),
    ),
  );
}

const countsOf = async ({ log }: World) =>
  (
    await readBackfillStatus(
      { log, backfills: log.backfills, executions: { isRunning: async () => false, hasEnded: async () => false } },
      'nightly',
    )
  )?.counts;

/** The functions, of which some invocations are killed: they throw, and so does FailRun for them. */
function withKills(functions: Functions, isKilled: (window: string, page: number) => boolean): Functions {
  const killed = new Set<string>();
  return {
    ...functions,
    ExportPage: async (event, context) => {
      const { export: window, page } = event.input as { export: string; page: number };
      if (!isKilled(window, page)) return await functions.ExportPage(event, context);
      killed.add(event.execution);
      throw Object.assign(new Error('killed'), { name: 'RequestRejectedError' });
    },
    FailRun: async (event, context) => {
      if (killed.has(event.execution)) throw new Error('killed');
      return await functions.FailRun(event, context);
    },
  };
}

const output = captureOutput();

describe('a deployed backfill', () => {
  it('publishes each report of the period once, though executions are killed, and skips what is done when it is started again', async () => {
    await using world = await aDeployment();
    const killed = new Set<string>();
    const functions = withKills(world.functions, (window, page) => {
      const isKilled = page === 2 && /T(00|12):00:00Z$/.test(window) && !killed.has(window);
      if (isKilled) killed.add(window);
      return isKilled;
    });

    const first = await backfill({ ...world, functions });

    expect(first.windows).toHaveLength(24);
    expect(first.started.map(({ name }) => name)).toEqual(
      Array.from({ length: 24 }, () => expect.stringMatching(/^nightly-w-[\da-f-]{36}$/)),
    );
    expect(killed.size).toBe(6);
    expect(await countsOf(world)).toEqual({ done: 18, running: 0, failed: 0, interrupted: 6, waiting: 0 });

    const requests = world.service.exchanges.length;
    const second = await backfill(world);

    // The killed windows resume after their first page.
    expect(second.windows.map((window) => windowName('nightly', window)).toSorted()).toEqual([...killed].toSorted());
    expect(world.service.exchanges.length - requests).toBe(6);
    expect(publishedIds(world)).toEqual(idsFrom(12, 84));
    expect(await countsOf(world)).toMatchObject({ done: 24 });
    expect((await backfill(world)).started).toEqual([]);

    const state = await world.log.exportState('nightly');
    expect(state).not.toHaveProperty('watermark');
    expect(state).not.toHaveProperty('lastCompleted');
    expect([...world.aws.objects.keys()].filter((key) => key.endsWith('latest.json'))).toEqual([]);
  });

  it('waits for a window that another execution exports, and resumes it if that one has ended', async () => {
    await using world = await aDeployment();
    const request = { ...period, to: at('2020-01-01T15:00:00Z'), parallel: 1 };
    const begun = await beginBackfill(world.operator, request, root);
    const all = await remainingWindows(world.log.backfills, begun);
    const input = { export: windowName('nightly', all[0] as Window) };
    const functions = withKills(world.functions, (_, page) => page === 2);
    await execute(functions, { name: 'other', input });
    world.aws.executions.set(executionArn('other'), 'RUNNING');

    const started = await interpret(world, { parallel: 1, windows: all }, (nth) => {
      if (nth === 4) world.aws.executions.set(executionArn('other'), 'ABORTED');
    });

    expect(started).toHaveLength(4);
    expect(publishedIds(world)).toEqual(idsFrom(12, 15));
    expect(world.service.exchanges).toHaveLength(2);
  });

  it('waits for the executions in which the run of a window continues', async () => {
    await using world = await aDeployment({ settings: { iterationsPerExecution: 1 } });
    const request = { ...period, windowMs: 9 * hourMs };

    const { windows } = await backfill(world, request);

    expect(windows).toHaveLength(8);
    expect(await countsOf(world)).toMatchObject({ done: 8 });
    expect(publishedIds(world)).toEqual(idsFrom(12, 84));
  });

  it('fails at its end if the execution of a window could not be started, and exports the window next time', async () => {
    await using world = await aDeployment();
    const denied = Object.assign(new Error('not authorized'), { name: 'StepFunctions.AccessDeniedException' });
    const failing = backfill(world, period, (nth) => {
      if (nth === 3) throw denied;
    });
    await expect(failing).rejects.toThrow(/could not start the executions of some windows/);
    expect(await countsOf(world)).toMatchObject({ done: 23, waiting: 1 });
    await backfill(world);
    expect(publishedIds(world)).toEqual(idsFrom(12, 84));
  });

  it('records the failure of a window also if the settings have lost filterUntil meanwhile', async () => {
    await using world = await aDeployment();
    await beginBackfill(world.operator, period, root);
    const name = 'nightly/2020-01-01T12:00:00Z/2020-01-01T15:00:00Z';
    const later = world.functionsWith({ filterUntil: undefined });
    const { events, status } = await execute(
      {
        ...world.functions,
        ExportPage: later.ExportPage,
        FailRun: later.FailRun,
      },
      { name: 'first', input: { export: name } },
    );
    expect(status).toBe('failed');
    expect(events).toMatchObject([
      {
        export: 'nightly',
        error: 'ConfigurationError',
        failed: { since: '2020-01-01T12:00:00Z', until: '2020-01-01T15:00:00Z', resumable: true },
      },
    ]);
    expect((await world.log.exportState(name))?.active?.lastFailure).toMatchObject({ error: 'ConfigurationError' });
    expect(output.text()).toContain('"RunsFailed"');
    expect(output.text()).not.toContain('"StartsRejected"');
  });

  it('ends without exporting further windows once it is abandoned', async () => {
    await using world = await aDeployment();
    let abandoned: ReturnType<typeof abandonBackfill> | undefined;
    const functions: Functions = {
      ...world.functions,
      BeginRun: async (event, context) => {
        await abandoned;
        return await world.functions.BeginRun(event, context);
      },
    };

    const { started } = await backfill({ ...world, functions }, { ...period, parallel: 1 }, (nth) => {
      if (nth !== 6) return;
      abandoned = abandonBackfill(world.operator, 'nightly');
    });

    expect(started).toHaveLength(24);
    expect((await abandoned)?.abandonedRuns).toBe(0);
    expect(publishedIds(world)).toEqual(idsFrom(12, 12 + 5 * 3));
    expect(await countsOf(world)).toEqual({ done: 5, running: 0, failed: 0, interrupted: 0, waiting: 19 });
  });
});

describe('the probe of ExportPage for windows', () => {
  const context = { awsRequestId: 'request', getRemainingTimeInMillis: () => 60_000 };
  const probe = (functions: Functions, from: string) =>
    functions.ExportPage(
      { probe: { export: 'nightly', since: from, until: at('2300-01-01T00:00:00Z') } } as never,
      context,
    );

  it('asks for a report of the period and for an empty window, and stores nothing', async () => {
    await using world = await aDeployment();
    expect(await probe(world.functions, period.from)).toEqual({ honorsUntil: true, documentRoot: 'reports' });
    expect(world.service.exchanges.map(({ requestBody, reportIds }) => [requestBody, reportIds])).toEqual([
      [
        expect.objectContaining({ filter: { date: { gte: period.from, lt: '2300-01-01T00:00:00Z' } }, size: 1 }),
        ['r12'],
      ],
      [expect.objectContaining({ filter: { date: { gte: period.from, lt: period.from } }, size: 1 }), []],
    ]);
    expect(world.aws.objects.size).toBe(0);
    expect(await world.log.exportState('nightly')).toBeUndefined();
  });

  it.each([
    ['ignores the bound', 'ignored', period.from, /it ignores filter\.date\.lt/],
    ['rejects the bound', 'rejected', period.from, /it rejects the filter with filter\.date\.lt/],
    [
      'has no reports of the period',
      'honoured',
      '2200-01-01T00:00:00Z',
      /it returns no reports from 2200-01-01T00:00:00Z/,
    ],
  ] as const)('fails if the service %s', async (_, upperBounds, from, message) => {
    await using world = await aDeployment({ upperBounds });
    await expect(probe(world.functions, from)).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringMatching(message),
    });
    expect(world.aws.objects.size).toBe(0);
  });
});
