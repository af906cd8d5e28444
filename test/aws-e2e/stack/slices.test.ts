/** Runs with slices and bounded runs of a deployed stack, whose executions are killed. */

import { setTimeout as sleep } from 'node:timers/promises';
import { ListExecutionsCommand, StopExecutionCommand } from '@aws-sdk/client-sfn';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { openStack } from '../../../lib/aws/stack/stack.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';
import type { ServiceOutput } from '../../../lib/settings/deployed-settings.ts';
import type { ExportTarget, Target } from '../../../lib/operator/target.ts';
import { run } from '../../support/process/command-line.ts';
import { stepFunctions } from '../support/aws.ts';
import { deploy } from '../support/cdk.ts';
import { eventually } from '../support/eventually.ts';
import { runExecution } from '../support/executions.ts';
import { apiKey, bucketPrefix, putApiKey, serviceName, serviceOutput, vendor } from '../support/exporter-stack.ts';
import { stubOperatorEnvironment } from '../support/operator-environment.ts';
import { publishedBoundedRuns, readStored } from '../support/published-run.ts';
import { openService, reportIds } from '../support/service.ts';

const stackName = 'ReportExporterSlices';

/** The service has the reports r1 to r600, one a second: r1 to r599 in these ten minutes. */
const bounds = ['--since', '2026-11-20T00:00:00Z', '--until', '2026-11-20T00:10:00Z'];

describe('a deployed export with slices', () => {
  let stack: Target;
  let output: ServiceOutput;
  let env: Readonly<Record<string, string>>;
  beforeAll(async () => {
    const outputs = await deploy({
      stackName,
      services: {
        [serviceName]: { baseUrl: `http://127.0.0.1:${inject('servicePort')}`, vendor, filterUntil: 'date.lt' },
      },
      bucket: { prefix: bucketPrefix },
      exports: ['history'].map((name) => ({
        name,
        size: 10,
        since: { initial: '2026-11-20T00:00:00Z' },
      })),
    });
    output = serviceOutput(outputs);
    await putApiKey({ secretId: outputs.AcmeApiKeySecretId as string }, apiKey);
    env = stubOperatorEnvironment();
    stack = await openStack({ stackName, env, runtime: systemRuntime });
  });
  afterAll(async () => await stack[Symbol.asyncDispose]());

  const start = async (exportName: string, ...options: readonly string[]) =>
    await run(['start', exportName, '--stack', stackName, '--follow', '--json', ...options], env);

  it('publishes each report once, though executions of its run are killed', async () => {
    const deployed = await stack.open('history');
    await using _ = await openService(600, { pageMs: 50 });
    const regular = await runExecution({ stateMachineArn: output.stateMachineArn, exportName: 'history' });
    expect(regular.status).toBe('SUCCEEDED');
    const before = await stateAndPointer(deployed);

    const options = [...bounds, '--parallel', '4', '--slice', 'PT1M'];
    let kills = 0;
    let end: Awaited<ReturnType<typeof start>> | undefined;
    while (end?.status !== 0) {
      const following = start('history', ...options);
      if (kills < 4) {
        await Promise.race([following, eventually('an execution', async () => (await runningExecutions())[0])]);
        await sleep(300);
        kills += await killAll();
      }
      end = await following;
    }
    expect(kills).toBeGreaterThan(0);
    const [published, ...others] = await publishedBoundedRuns(deployed);
    expect(published?.ids).toEqual(reportIds(1, 599));
    expect(others).toEqual([]);
    expect(await stateAndPointer(deployed)).toEqual(before);
    expect(await start('history', ...options)).toMatchObject({ status: 0, stdout: expect.stringContaining('"done"') });
    expect((await run(['verify', 'history', '--stack', stackName, '--run', published?.run ?? ''], env)).status).toBe(0);
  });

  async function runningExecutions() {
    const { stateMachineArn } = output;
    const running = await stepFunctions.send(new ListExecutionsCommand({ stateMachineArn, statusFilter: 'RUNNING' }));
    return running.executions ?? [];
  }

  /** Resolves to how many executions were still running. */
  async function killAll(): Promise<number> {
    const stopped = (await runningExecutions()).map(async ({ executionArn }) => {
      await stepFunctions.send(new StopExecutionCommand({ executionArn, cause: 'The test kills it' }));
    });
    return (await Promise.allSettled(stopped)).filter(({ status }) => status === 'fulfilled').length;
  }
});

/** The state that a bounded run must not change. */
async function stateAndPointer({ log, store, name }: ExportTarget) {
  const { watermark, lastCompleted } = (await log.exportState(name)) ?? {};
  return { watermark, lastCompleted, latest: JSON.parse(await readStored(store, `${name}/latest.json`)) as unknown };
}
