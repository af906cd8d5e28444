/** Backfills of a deployed export, as the command starts, follows and stops them. */

import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import {
  DescribeExecutionCommand,
  type DescribeExecutionCommandOutput,
  ListExecutionsCommand,
  SFNClient,
  StartExecutionCommand,
  StopExecutionCommand,
} from '@aws-sdk/client-sfn';
import { mockClient } from 'aws-sdk-client-mock';
import { describe, expect, it, vi } from 'vitest';
import { deployedBackfill } from '../../../lib/aws/stack/deployed-backfill.ts';
import type { ExportState } from '../../../lib/core/model.ts';
import type { BackfillRequest } from '../../../lib/backfill/request.ts';
import type { BackfillOptions, DeployedService } from '../../../lib/target/target.ts';
import type { ExportEvent } from '../../../lib/core/ports.ts';
import type { ServiceOutput } from '../../../lib/settings/stack-output.ts';
import { windowRequestChecksum } from '../../../lib/backfill/window-definition.ts';
import { type Window, windowName } from '../../../lib/backfill/windows.ts';
import { arn, awsError, serviceOutput } from '../../support/aws/mocked-stack.ts';
import { aPageEntry, aRun, aRunResult, anExportDefinition, at, collect } from '../../support/builders.ts';
import { createMemoryLog, createMemoryStore } from '../../support/export/memory-adapters.ts';

const machine = arn('stateMachine', 'acme-backfill');
const running = arn('execution', 'acme-backfill:nightly-backfill-00000000000000aa');
const started = arn('execution', 'acme-backfill:nightly-backfill-0000000000000001');
const request: BackfillRequest = {
  from: at('2020-01-01T00:00:00Z'),
  to: at('2020-01-04T00:00:00Z'),
  windowMs: 86_400_000,
  parallel: 2,
};
const day = (number: number): Window => ({
  since: at(`2020-01-0${number}T00:00:00Z`),
  until: at(`2020-01-0${number + 1}T00:00:00Z`),
});
const definition = anExportDefinition({ name: 'nightly' });
const nameOf = (number: number) => windowName('nightly', day(number));
const answer = (payload: unknown, FunctionError?: string) => ({
  Payload: Buffer.from(JSON.stringify(payload)) as never,
  ...(FunctionError === undefined ? {} : { FunctionError }),
});

interface Options {
  readonly service?: Partial<DeployedService>;
  readonly output?: Partial<ServiceOutput>;
}

/** An export of a service that honors the bound. Between two polls, the next of `changes` happens. */
function aDeployedExport({ service = {}, output = {} }: Options = {}) {
  const stepFunctions = new SFNClient({ region: 'eu-central-1' });
  const lambda = new LambdaClient({ region: 'eu-central-1' });
  const mocked = { stepFunctions: mockClient(stepFunctions), lambda: mockClient(lambda) };
  mocked.stepFunctions.on(ListExecutionsCommand).resolves({ executions: [] });
  mocked.stepFunctions.on(StartExecutionCommand).callsFake(({ stateMachineArn = '', name }) => ({
    executionArn: `${stateMachineArn.replace(':stateMachine:', ':execution:')}:${name}`,
  }));
  mocked.stepFunctions.on(StopExecutionCommand).resolves({});
  mocked.lambda.on(InvokeCommand).resolves(answer({ honorsUntil: true, documentRoot: 'reports' }));
  const log = createMemoryLog();
  const events: ExportEvent[] = [];
  const progress: string[] = [];
  const messages: string[] = [];
  const delays: number[] = [];
  const interruption = new AbortController();
  const changes: (() => unknown)[] = [];
  let now = Date.UTC(2026, 10, 20);
  let random = 0;
  const store = createMemoryStore();
  const backfill = deployedBackfill({
    name: 'nightly',
    definition,
    service: { untilOperator: 'lt', ...service } as DeployedService,
    output: serviceOutput({ name: 'acme', exports: [], output: { backfillStateMachineArn: machine, ...output } }),
    log,
    backfills: log.backfills,
    store,
    clients: { stepFunctions, lambda },
    runtime: {
      now: () => now,
      monotonicNow: () => now,
      async sleep(ms, signal) {
        delays.push(ms);
        now += ms;
        const change = changes.shift();
        if (change === undefined) throw new Error('Another poll after the last change');
        await change();
        signal?.throwIfAborted();
      },
      randomHex: (length) => String((random += 1)).padStart(length, '0'),
    },
  });
  const options: BackfillOptions = {
    follow: true,
    say: (text) => messages.push(text),
    emit: (event) => events.push(event),
    onProgress: ({ done, windows, pages }) => progress.push(`${done} of ${windows}, ${pages} pages`),
    onRetry: () => {},
    maxAttempts: undefined,
    signal: interruption.signal,
  };
  return {
    ...mocked,
    log,
    store,
    events,
    progress,
    messages,
    delays,
    interruption,
    changes,
    stop: () => backfill.stopBackfill(),
    start: (overrides: Partial<BackfillRequest & Pick<BackfillOptions, 'follow'>> = {}) => {
      const { follow = true, ...rest } = overrides;
      return backfill.startBackfill({ ...request, ...rest }, { ...options, follow });
    },
    /** The answers to the polls, one after the other. */
    describes: (...descriptions: (Partial<DescribeExecutionCommandOutput> | Error)[]) => {
      const remaining = [...descriptions];
      mocked.stepFunctions.on(DescribeExecutionCommand, { executionArn: started }).callsFake(() => {
        const description = remaining.shift();
        if (description === undefined || description instanceof Error) throw description;
        return description;
      });
    },
    async write(name: string, change: Partial<ExportState>) {
      const { version = 0 } = (await log.exportState(name)) ?? {};
      await log.replaceState({ export: name, sequence: 1, version: version + 1, ...change });
    },
    async listedWindows(key: string): Promise<unknown> {
      const object = await store.read(key);
      return object === undefined ? undefined : JSON.parse(Buffer.concat(await collect(object)).toString());
    },
    startInputs: () =>
      mocked.stepFunctions
        .commandCalls(StartExecutionCommand)
        .map(({ args: [{ input }] }) => ({ ...input, input: JSON.parse(input.input ?? '') as unknown })),
  };
}

type Deployed = ReturnType<typeof aDeployedExport>;
const completed = (number: number, execution = 'e') => ({
  lastCompleted: {
    execution,
    completedAt: at('2026-11-20T00:00:00Z'),
    result: aRunResult({ export: 'nightly', ...day(number), watermark: null }),
  },
  plan: { id: 1, requestChecksum: windowRequestChecksum(definition, 'lt') },
});

/** What a refused start must not have done. */
async function expectNothingDone({ log, stepFunctions }: Deployed): Promise<void> {
  expect(await log.backfills.read('nightly')).toBeUndefined();
  expect(stepFunctions.commandCalls(StartExecutionCommand)).toEqual([]);
}

describe('starting a backfill', () => {
  it('probes from the function, records the backfill, and starts one execution with its windows', async () => {
    const deployed = aDeployedExport();
    expect(await deployed.start({ follow: false })).toEqual({ status: 'started', execution: started });

    const [invocation] = deployed.lambda.commandCalls(InvokeCommand);
    expect(invocation?.args[0].input.FunctionName).toContain('acme-ExportPage');
    expect(JSON.parse(Buffer.from(invocation?.args[0].input.Payload as Uint8Array).toString())).toEqual({
      probe: { export: 'nightly', since: request.from, until: request.to },
    });
    expect(await deployed.log.backfills.read('nightly')).toMatchObject({ ...request, version: 1 });
    expect(deployed.startInputs()).toEqual([
      {
        stateMachineArn: machine,
        name: 'nightly-backfill-0000000000000001',
        input: { parallel: 2, windows: 'reports/acme/_backfills/nightly-backfill-0000000000000001.json' },
      },
    ]);
    expect(await deployed.listedWindows('_backfills/nightly-backfill-0000000000000001.json')).toEqual(
      [1, 2, 3].map((number) => ({ export: 'nightly', window: nameOf(number).slice('nightly/'.length) })),
    );
    expect(deployed.messages).toEqual([`Execution ${started}`]);
  });

  it('leaves out the windows that are done, and starts nothing if all are', async () => {
    const deployed = aDeployedExport();
    for (const number of [1, 3]) await deployed.write(nameOf(number), completed(number));
    await deployed.start({ follow: false });
    expect(deployed.startInputs()).toHaveLength(1);
    expect(await deployed.listedWindows('_backfills/nightly-backfill-0000000000000001.json')).toEqual([
      { export: 'nightly', window: nameOf(2).slice('nightly/'.length) },
    ]);

    await deployed.write(nameOf(2), completed(2));
    expect(await deployed.start({ follow: false })).toEqual({ status: 'ended' });
    expect(deployed.startInputs()).toHaveLength(1);
  });

  it('starts nothing if the list of windows cannot be written', async () => {
    const deployed = aDeployedExport();
    vi.spyOn(deployed.store, 'putDocument').mockRejectedValue(awsError('AccessDenied'));
    await expect(deployed.start()).rejects.toMatchObject({ name: 'AccessDenied' });
    expect(deployed.startInputs()).toEqual([]);
  });

  it('is skipped while an execution of the same export is running, on any page of the list', async () => {
    const deployed = aDeployedExport();
    const others = ['nightly-backfill-2-backfill-00000000000000bb', 'other-backfill-00000000000000cc', 'manual'];
    deployed.stepFunctions.on(ListExecutionsCommand).callsFake(({ statusFilter, stateMachineArn, nextToken }) => {
      expect({ statusFilter, stateMachineArn }).toEqual({ statusFilter: 'RUNNING', stateMachineArn: machine });
      const item = (name: string) => ({ name, executionArn: arn('execution', `acme-backfill:${name}`) });
      return nextToken === undefined
        ? { executions: others.map(item), nextToken: 'more' }
        : { executions: [item('nightly-backfill-00000000000000aa')] };
    });
    expect(await deployed.start({ follow: false })).toEqual({
      status: 'skipped',
      reason: `execution ${running} is exporting the windows of nightly`,
    });
    await expectNothingDone(deployed);
    expect(deployed.lambda.calls()).toEqual([]);
  });

  describe('while an execution of it is running', () => {
    async function aRunningBackfill() {
      const deployed = aDeployedExport();
      await deployed.start({ follow: false });
      const executions = [{ name: 'nightly-backfill-0000000000000001', executionArn: started }];
      deployed.stepFunctions.on(ListExecutionsCommand).resolves({ executions: executions as never });
      return deployed;
    }

    it('follows that one', async () => {
      const deployed = await aRunningBackfill();
      deployed.describes({ status: 'RUNNING' }, { status: 'SUCCEEDED' });
      deployed.changes.push(() => deployed.write(nameOf(1), completed(1)));
      expect(await deployed.start()).toEqual({ status: 'ended' });
      expect(deployed.progress).toEqual(['0 of 3, 0 pages', '1 of 3, 3 pages']);
      expect(deployed.startInputs()).toHaveLength(1);
    });

    it('is skipped while that of an abandoned backfill ends', async () => {
      const deployed = await aRunningBackfill();
      const recorded = await deployed.log.backfills.read('nightly');
      if (recorded === undefined) throw new Error('no backfill');
      const abandonedAt = at('2026-11-20T00:00:00Z');
      await deployed.log.backfills.replace({ ...recorded, version: 2, abandonedAt });
      expect(await deployed.start()).toMatchObject({
        status: 'skipped',
        reason: expect.stringContaining('of the abandoned backfill is ending'),
      });
    });

    it('is refused with other windows', async () => {
      const deployed = await aRunningBackfill();
      await expect(deployed.start({ windowMs: 3_600_000 })).rejects.toMatchObject({
        name: 'ConfigurationError',
        message: expect.stringContaining('are being exported. Wait for its end, or abandon it'),
      });
    });
  });

  it.each([
    ['the service has no filterUntil', { service: { untilOperator: undefined } }, /its service has no filterUntil/],
    [
      'the stack was deployed without the state machine',
      { output: { backfillStateMachineArn: undefined } },
      /Service acme of export nightly was deployed without a state machine for backfills\. Deploy the stack again/,
    ],
    [
      'more windows than concurrent pages are requested',
      { service: { maxConcurrentPages: 1 } },
      /--parallel: must be at most 1, because .*\(maxConcurrentPages\)/,
    ],
    [
      'more windows than invocations are reserved',
      { service: { spareConcurrency: 1 } },
      /--parallel: must be at most 1, because .*exportPage\.reservedConcurrency/,
    ],
  ] satisfies [string, Options, RegExp][])('is refused if %s', async (_, options, message) => {
    const deployed = aDeployedExport(options);
    await expect(deployed.start()).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringMatching(message),
    });
    await expectNothingDone(deployed);
    expect(deployed.lambda.calls()).toEqual([]);
  });

  it('is refused with the reason of the function, if the service ignores the bound', async () => {
    const deployed = aDeployedExport();
    const errorMessage =
      'The service https://reports.example.com cannot be exported by window: it ignores filter.date.lt';
    deployed.lambda.on(InvokeCommand).resolves(answer({ errorType: 'ConfigurationError', errorMessage }, 'Unhandled'));
    await expect(deployed.start()).rejects.toMatchObject({ name: 'ConfigurationError', message: errorMessage });
    await expectNothingDone(deployed);
  });

  it('is refused if the function is older, and answers the probe as a health check', async () => {
    const deployed = aDeployedExport();
    deployed.lambda.on(InvokeCommand).resolves(answer({ reports: 1, latencyMs: 20, clockLeadMs: 0 }));
    await expect(deployed.start()).rejects.toThrow(/did not answer as this version does\. Deploy the stack again/);
    await expectNothingDone(deployed);
  });
});

describe('following a backfill', () => {
  const run = aRun({ export: 'nightly', since: day(2).since });

  it('reports each window that has changed, until the execution ends', async () => {
    const deployed = aDeployedExport();
    await deployed.write(nameOf(3), completed(3));
    deployed.describes({ status: 'RUNNING' }, { status: 'RUNNING' }, { status: 'SUCCEEDED' });
    deployed.changes.push(
      () => deployed.write(nameOf(2), { active: { ...run, until: day(2).until } }),
      async () => {
        await deployed.write(nameOf(1), completed(1));
        await deployed.log.append(aPageEntry({ export: 'nightly', run: run.run, page: 1, bytes: 100, reports: 10 }));
        const lastFailure = { error: 'RequestRejectedError', message: 'no', at: at('2026-11-20T00:00:01Z') };
        await deployed.write(nameOf(2), { active: { ...run, until: day(2).until, lastFailure } });
      },
    );
    expect(await deployed.start()).toEqual({ status: 'ended' });
    expect(deployed.progress).toEqual(['1 of 3, 3 pages', '1 of 3, 3 pages', '2 of 3, 6 pages']);
    expect(deployed.events).toHaveLength(2);
    expect(deployed.events).toContainEqual(
      expect.objectContaining({ event: 'run-completed', since: day(1).since, until: day(1).until }),
    );
    expect(deployed.events).toContainEqual(
      expect.objectContaining({ event: 'run-failed', run: run.run, pages: 1, message: 'no', resumable: true }),
    );
  });

  it('reports a window whose run can never complete', async () => {
    const deployed = aDeployedExport();
    deployed.describes({ status: 'RUNNING' }, { status: 'RUNNING' }, { status: 'SUCCEEDED' });
    deployed.changes.push(
      () => deployed.write(nameOf(2), { active: { ...run, until: day(2).until } }),
      async () => {
        const failure = { error: 'RepeatedCursorError', message: 'no', at: at('2026-11-20T00:00:01Z') };
        const abandoned = { run: aRun().run, since: day(1).since, pages: 3, reports: 3, bytes: 3, failure };
        await deployed.write(nameOf(1), { lastAbandoned: abandoned });
      },
    );
    await deployed.start();
    expect(deployed.events).toHaveLength(1);
    expect(deployed.events).toContainEqual(
      expect.objectContaining({ event: 'run-failed', export: 'nightly', since: day(1).since, resumable: false }),
    );
  });

  it('survives temporary errors of AWS', async () => {
    const deployed = aDeployedExport();
    const throttled = Object.assign(awsError('ThrottlingException'), { $retryable: { throttling: true } });
    deployed.describes(awsError('ExecutionDoesNotExist'), throttled, { status: 'SUCCEEDED' });
    deployed.changes.push(
      () => {},
      () => {},
    );
    expect(await deployed.start()).toEqual({ status: 'ended' });
    expect(deployed.delays).toEqual([2_000, 3_000]);
  });

  it('gives up after an error that does not pass; the execution continues', async () => {
    const deployed = aDeployedExport();
    deployed.describes(awsError('AccessDeniedException'));
    await expect(deployed.start()).rejects.toMatchObject({ name: 'AccessDeniedException' });
    expect(deployed.messages.at(-1)).toBe(`Execution ${started} continues, but its progress can no longer be followed`);
  });

  it('ends when it is interrupted; the execution continues', async () => {
    const deployed = aDeployedExport();
    deployed.describes({ status: 'RUNNING' });
    deployed.changes.push(() => deployed.interruption.abort());
    expect(await deployed.start()).toEqual({ status: 'started', execution: started });
    expect(deployed.stepFunctions.commandCalls(StopExecutionCommand)).toEqual([]);
  });

  it('says why the execution has ended, if it was stopped or has failed', async () => {
    const deployed = aDeployedExport();
    deployed.describes({ status: 'ABORTED', cause: 'The backfill was abandoned' });
    expect(await deployed.start()).toEqual({ status: 'ended' });
    expect(deployed.messages.at(-1)).toBe(
      `Execution ${started} has ended before all windows were exported: ExecutionAborted: The backfill was abandoned`,
    );
  });
});

describe('stopping a backfill', () => {
  it('stops the execution, if one is running', async () => {
    const deployed = aDeployedExport();
    expect(await deployed.stop()).toBeUndefined();
    deployed.stepFunctions
      .on(ListExecutionsCommand)
      .resolves({ executions: [{ name: 'nightly-backfill-00000000000000aa', executionArn: running } as never] });
    expect(await deployed.stop()).toBe(running);
    expect(deployed.stepFunctions.commandCalls(StopExecutionCommand).map(({ args: [{ input }] }) => input)).toEqual([
      { executionArn: running, error: 'Abandoned', cause: 'The backfill was abandoned' },
    ]);
  });

  it('does nothing in a stack without backfills', async () => {
    const deployed = aDeployedExport({ output: { backfillStateMachineArn: undefined } });
    expect(await deployed.stop()).toBeUndefined();
    expect(deployed.stepFunctions.calls()).toEqual([]);
  });
});
