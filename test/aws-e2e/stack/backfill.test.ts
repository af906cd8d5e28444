/** Backfills of a deployed stack: a Distributed Map whose children start executions of the service's own state machine. */

import { setTimeout as sleep } from 'node:timers/promises';
import { GetObjectCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { ListExecutionsCommand, StopExecutionCommand } from '@aws-sdk/client-sfn';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { openStack } from '../../../lib/aws/stack/stack.ts';
import { windowListFolder } from '../../../lib/core/state-machine/backfill-definition.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';
import { abandonBackfill } from '../../../lib/backfill/abandon.ts';
import type { BackfillRequest } from '../../../lib/backfill/request.ts';
import { readBackfillStatus } from '../../../lib/backfill/status.ts';
import type { BackfillOptions, DeployedExport, Deployment } from '../../../lib/target/target.ts';
import type { ServiceOutput } from '../../../lib/settings/stack-output.ts';
import { noMfa } from '../../support/aws/mocked-stack.ts';
import { at } from '../../support/builders.ts';
import { run } from '../../support/process/command-line.ts';
import { motoStepFunctions, s3, stepFunctions } from '../support/aws.ts';
import { deploy } from '../support/cdk.ts';
import { eventually } from '../support/eventually.ts';
import { createInMoto, runExecution } from '../support/executions.ts';
import { apiKey, bucketPrefix, putApiKey, serviceName, serviceOutput, vendor } from '../support/exporter-stack.ts';
import { stubOperatorEnvironment } from '../support/operator-stack.ts';
import { publishedWindows, readStored } from '../support/published-run.ts';
import { openService, reportIds } from '../support/service.ts';

const stackName = 'ReportExporterBackfill';

/** The service has the reports r1 to r75, one a second. 24 windows of three reports, so of two pages each: r1 to r72. */
const period: BackfillRequest = {
  from: at('2026-11-20T00:00:01Z'),
  to: at('2026-11-20T00:01:13Z'),
  windowMs: 3_000,
  parallel: 4,
};
const options = (overrides: Partial<BackfillOptions> = {}): BackfillOptions => ({
  follow: true,
  say: () => undefined,
  emit: () => undefined,
  onProgress: () => undefined,
  onRetry: () => undefined,
  maxAttempts: undefined,
  signal: new AbortController().signal,
  ...overrides,
});

describe('a deployed backfill', () => {
  let stack: Deployment;
  let output: ServiceOutput;
  let env: Readonly<Record<string, string>>;
  beforeAll(async () => {
    const outputs = await deploy({
      stackName,
      services: {
        [serviceName]: { baseUrl: `http://127.0.0.1:${inject('servicePort')}`, vendor, filterUntil: 'date.lt' },
      },
      bucket: { prefix: bucketPrefix },
      exports: ['history', 'given-up', 'refused'].map((name) => ({
        name,
        size: 2,
        since: { initial: period.to },
      })),
    });
    output = serviceOutput(outputs);
    await putApiKey({ secretId: outputs.AcmeApiKeySecretId as string }, apiKey);
    env = stubOperatorEnvironment();
    stack = await openStack({ stackName, env, runtime: systemRuntime, askMfaCode: noMfa });
  });
  afterAll(async () => await stack[Symbol.asyncDispose]());

  const runningExecutions = async (stateMachineArn: string) => {
    const { executions = [] } = await stepFunctions.send(
      new ListExecutionsCommand({ stateMachineArn, statusFilter: 'RUNNING' }),
    );
    return executions;
  };
  const backfillExecutions = async () => {
    const stateMachineArn = output.backfillStateMachineArn ?? '';
    return (await stepFunctions.send(new ListExecutionsCommand({ stateMachineArn }))).executions ?? [];
  };

  /** The lists of windows in the bucket. */
  const listsOfWindows = async () => {
    const Bucket = output.bucket;
    const { Contents = [] } = await s3.send(
      new ListObjectsV2Command({ Bucket, Prefix: `${output.prefix}${windowListFolder}` }),
    );
    return await Promise.all(
      Contents.map(async ({ Key: key = '' }) => {
        const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key: key }));
        const windows = JSON.parse((await Body?.transformToString()) ?? '') as readonly unknown[];
        return { key, windows };
      }),
    );
  };

  it('publishes each report of the period once, though executions are killed, and skips what is done when it is started again', async () => {
    const deployed = await stack.open('history');
    await using service = await openService(75, { pageMs: 200 });
    expect((await runExecution({ stateMachineArn: output.stateMachineArn, exportName: 'history' })).status).toBe(
      'SUCCEEDED',
    );
    const before = await stateAndPointer(deployed);
    expect(before.latest).toMatchObject({ export: 'history' });

    const killed = new Set<string>();
    const backfill = deployed.startBackfill(period, options());
    for (let isOver = false; !isOver && killed.size < 6;) {
      isOver = await Promise.race([backfill.then(() => true), sleep(100).then(() => false)]);
      const [victim] = (await runningExecutions(output.stateMachineArn)).filter(
        ({ name = '', executionArn = '' }) => name.startsWith('history-w-') && !killed.has(executionArn),
      );
      if (victim?.executionArn !== undefined && (await kill(victim.executionArn))) killed.add(victim.executionArn);
    }
    expect(killed.size).toBeGreaterThan(0);
    // Another start does nothing while the execution is running; with other windows, it is refused.
    await expect(deployed.startBackfill({ ...period, windowMs: 4_000 }, options())).rejects.toThrow(
      /are being exported\. Wait for its end/,
    );
    expect(await deployed.startBackfill(period, options({ follow: false }))).toMatchObject({
      status: 'skipped',
      reason: expect.stringContaining('is exporting the windows of history'),
    });
    expect(await backfill).toEqual({ status: 'ended' });
    expect(service.peak()).toBeLessThanOrEqual(period.parallel);

    // MiniStack lets the function that is in progress end, so the run of a killed execution may have completed after all.
    const first = await readBackfillStatus(deployed, 'history');
    expect(first?.windows).toHaveLength(24);
    const left = first?.windows.filter(({ state }) => state !== 'done') ?? [];
    expect(left.length).toBeGreaterThan(0);
    expect(left.length).toBeLessThanOrEqual(killed.size);
    const done = await publishedWindows(deployed);
    expect(done.map(({ since }) => since)).toEqual(
      first?.windows.filter(({ state }) => state === 'done').map(({ since }) => since),
    );

    const args = ['--from', period.from, '--to', period.to, '--window', 'PT3S', '--parallel', '4'];
    const again = await run(['backfill', 'history', ...args, '--stack', stackName, '--follow', '--json'], env);
    expect(again).toMatchObject({ status: 0 });
    expect(JSON.parse(again.stdout)).toMatchObject({
      status: 'ended',
      backfill: { state: 'completed', counts: { done: 24, failed: 0, interrupted: 0, waiting: 0 } },
    });

    const published = await publishedWindows(deployed);
    expect(published.flatMap(({ ids }) => ids)).toEqual(reportIds(1, 72));
    // Those that were done are the same runs.
    expect(published.filter(({ run: id }) => done.some((each) => each.run === id))).toEqual(done);
    expect(published.map(({ since, until }) => [since, until])).toEqual(
      first?.windows.map(({ since, until }) => [since, until]),
    );
    expect(await stateAndPointer(deployed)).toEqual(before);

    // Executions that were killed are failed windows, not windows that could not be started.
    expect((await backfillExecutions()).map(({ status }) => status)).toEqual(['SUCCEEDED', 'SUCCEEDED']);
    expect(await deployed.startBackfill(period, options())).toEqual({ status: 'ended' });
    expect(await backfillExecutions()).toHaveLength(2);

    // Each execution had its list, of all windows and of those that were left.
    const lists = await listsOfWindows();
    expect(lists.map(({ windows }) => windows.length).toSorted((one, other) => one - other)).toEqual([left.length, 24]);

    // moto reads such a list, too, and starts as many children.
    const machine = { stateMachineArn: output.backfillStateMachineArn ?? '', exportName: 'history' };
    const list = lists.find(({ windows }) => windows.length === 24);
    const copy = await createInMoto(machine, withChildrenThatReturnTheirInput);
    const end = await runExecution(copy, { parallel: 4, windows: list?.key }, motoStepFunctions);
    expect(end).toMatchObject({ status: 'SUCCEEDED', output: { children: list?.windows } });
  });

  it('ends when it is abandoned and stopped: no further window begins', async () => {
    const deployed = await stack.open('given-up');
    await using _ = await openService(75, { pageMs: 200 });
    const started = await deployed.startBackfill(period, options({ follow: false }));
    if (started.status !== 'started') throw new Error(`The start is ${started.status}`);
    const done = async () => (await readBackfillStatus(deployed, 'given-up'))?.counts.done ?? 0;
    await eventually('two windows', async () => ((await done()) >= 2 ? true : undefined));

    await abandonBackfill({ ...deployed, runtime: systemRuntime }, 'given-up');
    expect(await deployed.stopBackfill()).toBe(started.execution);

    expect(await deployed.stopBackfill()).toBeUndefined();
    await eventually('the end of the windows', async () =>
      (await runningExecutions(output.stateMachineArn)).length === 0 ? true : undefined,
    );
    const status = await readBackfillStatus(deployed, 'given-up');
    expect(status).toMatchObject({ state: 'abandoned', counts: { running: 0 } });
    expect(status?.counts.done).toBeLessThan(24);
    expect(await publishedWindows(deployed)).toHaveLength(status?.counts.done ?? 0);
  });

  it.each([
    ['ignores the bound', 'ignored', period.from, 'it ignores filter.date.lt'],
    ['rejects the bound', 'rejected', period.from, 'it rejects the filter with filter.date.lt'],
    [
      'has no reports of the period',
      'honoured',
      at('2200-01-01T00:00:00Z'),
      'it returns no reports from 2200-01-01T00:00:00Z',
    ],
  ] as const)('is refused by the function if the service %s', async (_, upperBounds, from, problem) => {
    const deployed = await stack.open('refused');
    await using service = await openService(3, { upperBounds });
    const request = { ...period, from, to: at('2200-01-02T00:00:00Z'), windowMs: 86_400_000_000 };
    await expect(deployed.startBackfill(request, options())).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringContaining(problem),
    });
    expect(service.exchanges.length).toBeGreaterThan(0);
    expect(await deployed.backfills.read('refused')).toBeUndefined();
  });
});

/** moto takes an integer percentage for a syntax error, and does not run the states of a window as AWS does. */
function withChildrenThatReturnTheirInput<Machine extends { readonly States: Readonly<Record<string, object>> }>(
  definition: Machine,
): Machine {
  const ExportWindows = {
    ...definition.States.ExportWindows,
    ToleratedFailurePercentage: undefined,
    ItemProcessor: {
      ProcessorConfig: { Mode: 'DISTRIBUTED', ExecutionType: 'STANDARD' },
      StartAt: 'Window',
      States: { Window: { Type: 'Pass', End: true } },
    },
    ResultSelector: { 'children.$': '$', notStarted: false },
  };
  return { ...definition, States: { ...definition.States, ExportWindows } };
}

/** Resolves to whether the execution was still running. */
async function kill(executionArn: string): Promise<boolean> {
  try {
    await stepFunctions.send(new StopExecutionCommand({ executionArn, cause: 'The test kills it' }));
    return true;
  } catch {
    return false;
  }
}

/** What a backfill must not change. */
async function stateAndPointer({ log, store, name }: DeployedExport) {
  const { watermark, lastCompleted } = (await log.exportState(name)) ?? {};
  return { watermark, lastCompleted, latest: JSON.parse(await readStored(store, `${name}/latest.json`)) as unknown };
}
