/** Runs with slices or parents, and bounded runs, of a deployed stack, whose executions are killed. */

import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { ListExecutionsCommand, StopExecutionCommand } from '@aws-sdk/client-sfn';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { openStack } from '../../../lib/aws/stack/stack.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';
import { listPublishedRuns } from '../../../lib/core/storage/run-list.ts';
import type { ExportTarget, Target } from '../../../lib/operator/target.ts';
import { collect } from '../../support/builders.ts';
import type { Manifest } from '../../support/export/export-bench.ts';
import { run } from '../../support/process/command-line.ts';
import { listen } from '../../support/service/loopback.ts';
import { stepFunctions } from '../support/aws.ts';
import { deploy, type Outputs } from '../support/cdk.ts';
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
  let outputs: Outputs;
  let env: Readonly<Record<string, string>>;
  let forge: Awaited<ReturnType<typeof startForge>>;
  beforeAll(async () => {
    forge = await startForge();
    outputs = await deploy({
      stackName,
      services: {
        [serviceName]: { baseUrl: `http://127.0.0.1:${inject('servicePort')}`, vendor, filterUntil: 'date.lt' },
        forge: { baseUrl: forge.url, api: forgeApi },
      },
      bucket: { prefix: bucketPrefix },
      exports: [
        { name: 'history', service: serviceName, size: 10, since: { initial: '2026-11-20T00:00:00Z' } },
        { name: 'repos', service: 'forge', api: { request: { path: '/repos' } } },
        {
          name: 'issues',
          service: 'forge',
          parents: { export: 'repos', id: '/id' },
          slices: { parallel: 4 },
          api: { request: { path: '/repos/{parent}/issues' } },
        },
      ],
    });
    await putApiKey({ secretId: outputs.AcmeApiKeySecretId as string }, apiKey);
    env = stubOperatorEnvironment();
    stack = await openStack({ stackName, env, runtime: systemRuntime });
  });
  afterAll(async () => {
    await stack[Symbol.asyncDispose]();
    await forge[Symbol.asyncDispose]();
  });

  const start = async (exportName: string, ...options: readonly string[]) =>
    await run(['start', exportName, '--stack', stackName, '--follow', '--json', ...options], env);

  it('publishes each report once, though executions of its run are killed', async () => {
    const deployed = await stack.open('history');
    await using _ = await openService(600, { pageMs: 50 });
    const { stateMachineArn } = serviceOutput(outputs, serviceName);
    const regular = await runExecution({ stateMachineArn, exportName: 'history' });
    expect(regular.status).toBe('SUCCEEDED');
    const before = await stateAndPointer(deployed);

    const options = [...bounds, '--parallel', '4', '--slice', 'PT1M'];
    let kills = 0;
    let end: Awaited<ReturnType<typeof start>> | undefined;
    while (end?.status !== 0) {
      const following = start('history', ...options);
      if (kills < 4) {
        const running = async () => (await runningExecutions(stateMachineArn))[0];
        await Promise.race([following, eventually('an execution', running)]);
        await sleep(300);
        kills += await killAll(stateMachineArn);
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

  it('publishes the children of each parent once, though an execution is killed and a parent is deleted meanwhile', async () => {
    const deployed = await stack.open('issues');
    const { stateMachineArn } = serviceOutput(outputs, 'forge');
    expect(await start('repos')).toMatchObject({ status: 0 });
    const following = start('issues');
    const someRequests = async () => forge.requests() > 20 || undefined;
    await Promise.race([following, eventually('requests for some issues', someRequests)]);
    expect(await killAll(stateMachineArn)).toBe(1);
    expect(await following).toMatchObject({ status: 1 });
    forge.deleteLast();
    const resumed = await start('issues');
    expect(resumed).toMatchObject({ status: 0, stderr: expect.stringContaining('for 40 parents') });
    const [published, ...others] = await collect(listPublishedRuns(deployed.store, 'issues'));
    expect(others).toEqual([]);
    const { pages, parents } = JSON.parse(await readStored(deployed.store, published?.manifest ?? '')) as Manifest;
    expect(parents).toMatchObject({ export: 'repos', count: 40, gone: 1 });
    const texts = await Promise.all(pages.map(async ({ key }) => await readStored(deployed.store, key)));
    const idsOf = (text: string) => (JSON.parse(text) as { items: { id: string }[] }).items.map(({ id }) => id);
    expect(texts.flatMap(idsOf)).toEqual(repoIds.slice(0, -1).flatMap((id) => [`${id}/1`, `${id}/2`]));
    expect((await run(['verify', 'issues', '--stack', stackName], env)).status).toBe(0);
  });
});

async function runningExecutions(stateMachineArn: string) {
  const running = await stepFunctions.send(new ListExecutionsCommand({ stateMachineArn, statusFilter: 'RUNNING' }));
  return running.executions ?? [];
}

/** Resolves to how many executions were still running. */
async function killAll(stateMachineArn: string): Promise<number> {
  const stopped = (await runningExecutions(stateMachineArn)).map(async ({ executionArn }) => {
    await stepFunctions.send(new StopExecutionCommand({ executionArn, cause: 'The test kills it' }));
  });
  return (await Promise.allSettled(stopped)).filter(({ status }) => status === 'fulfilled').length;
}

const repoIds = Array.from({ length: 40 }, (_, index) => `repo-${String(index + 1).padStart(2, '0')}`);
const forgeApi = {
  auth: { kind: 'none' },
  page: { format: 'json', reports: '/items/*' },
  next: { from: 'body', at: '/next', to: { query: 'cursor' } },
} as const;

/** Repositories on one page, and the issues of each on two, of which each takes a moment. */
async function startForge() {
  let requests = 0;
  let listed = repoIds;
  const respond = (url: string) => {
    const { pathname, searchParams } = new URL(url, 'http://forge');
    const [, id = ''] = /^\/repos\/(.+)\/issues$/.exec(pathname) ?? [];
    if (id === '') return { items: listed.map((repo) => ({ id: repo })), next: null };
    requests += 1;
    const isFirst = searchParams.get('cursor') === null;
    const page = { items: [{ id: `${id}/${isFirst ? 1 : 2}` }], next: isFirst ? 'second' : null };
    return listed.includes(id) ? page : undefined;
  };
  const server = createServer(({ url = '' }, response) => {
    const page = respond(url);
    response.writeHead(page === undefined ? 404 : 200, { 'Content-Type': 'application/json' });
    setTimeout(() => response.end(JSON.stringify(page ?? {})), 100);
  });
  return Object.assign(await listen(server), {
    /** For issues. */
    requests: () => requests,
    deleteLast: () => void (listed = repoIds.slice(0, -1)),
  });
}

/** The state that a bounded run must not change. */
async function stateAndPointer({ log, store, name }: ExportTarget) {
  const { watermark, lastCompleted } = (await log.exportState(name)) ?? {};
  return { watermark, lastCompleted, latest: JSON.parse(await readStored(store, `${name}/latest.json`)) as unknown };
}
