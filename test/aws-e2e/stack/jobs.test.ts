/** Runs of a deployed stack with report jobs, whose executions are killed at each step of a job. */

import { setTimeout as sleep } from 'node:timers/promises';
import { ScanCommand } from '@aws-sdk/client-dynamodb';
import { StartExecutionCommand, StopExecutionCommand } from '@aws-sdk/client-sfn';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openStack } from '../../../lib/aws/stack/stack.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';
import type { Target } from '../../../lib/operator/target.ts';
import type { ApiProps } from '../../../lib/settings/props.ts';
import type { Manifest } from '../../support/export/export-bench.ts';
import { jobVendors, startJobVendor } from '../../support/service/job-vendors.ts';
import { dynamoDb, logEvents, stepFunctions } from '../support/aws.ts';
import { deploy } from '../support/cdk.ts';
import { endOfExecution, runExecution } from '../support/executions.ts';
import { apiKey, putApiKey, serviceName, serviceOutput } from '../support/exporter-stack.ts';
import { stubOperatorEnvironment } from '../support/operator-environment.ts';
import { readStored } from '../support/published-run.ts';

const stackName = 'ReportExporterJobs';
const ids = ['a', 'b', 'c', 'd', 'e'];

/** A server whose exports of resources have two files, here on a host of their own. */
const vendor = jobVendors.find(({ file }) => file === 'fhir-export.json');

/** The request during which an execution is killed. */
const moments: readonly (readonly [moment: string, isRequest: (path: string) => boolean])[] = [
  ['created', (path) => path.includes('/$export?')],
  ['polled', (path) => path.includes('_jobId=')],
  ['downloaded', (path) => path.endsWith('/1')],
];

const apiWith = (hosts: readonly string[]): ApiProps => ({
  auth: { kind: 'bearer' },
  job: {
    create: {
      method: 'GET',
      path: '/r4/$export',
      query: { _since: '{since}' },
      headers: { Prefer: 'respond-async' },
    },
    id: { header: 'Content-Location', after: '/$export-poll-status?_jobId=' },
    poll: { path: '/r4/$export-poll-status', query: { _jobId: '{job}' }, every: 'PT2S' },
    when: { waiting: { status: 202 }, done: { at: '/transactionTime' } },
    result: { at: '/output/*/url', hosts },
  },
  page: { format: 'ndjson' },
});

describe('a deployed export with report jobs', () => {
  let server: Awaited<ReturnType<typeof startJobVendor>>;
  let stack: Target;
  let outputs: Awaited<ReturnType<typeof deploy>>;
  /** Called with the path of each request. */
  let onRequest: (path: string) => void = () => {};
  beforeAll(async () => {
    if (vendor === undefined) throw new Error('no such vendor');
    const rows = ids.map((id) => ({ id, at: Date.UTC(2026, 10, 3, 12) }));
    const reply: typeof vendor.reply = (asked, world) => {
      const { headers, body, ...rest } = vendor.reply(asked, world);
      const withHost = JSON.stringify(body ?? {}).replaceAll(`${world.apiUrl()}/files/`, `${world.filesUrl()}/files/`);
      return { ...rest, headers: { ...headers, 'retry-after': undefined }, body: JSON.parse(withHost) as object };
    };
    const fault = (_: unknown, { path }: { readonly path: string }) => {
      onRequest(path);
      return undefined;
    };
    const replyWithFile = vendor.reply;
    // The rows exist, whatever the date is.
    server = await startJobVendor({ reply, replyWithFile }, rows, { now: () => Date.UTC(2027, 0, 1), fault });
    outputs = await deploy({
      stackName,
      services: { [serviceName]: { baseUrl: server.url, api: apiWith([server.filesHost]) } },
      exports: moments.map(([name]) => ({ name, since: { initial: '2026-11-01T00:00:00Z' } })),
    });
    await putApiKey({ secretId: outputs.AcmeApiKeySecretId as string }, apiKey);
    stack = await openStack({ stackName, env: stubOperatorEnvironment(), runtime: systemRuntime });
  });
  afterAll(async () => {
    await stack[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  });

  it.each(moments)('is published once, with one job, though an execution is killed when it is %s', async (name, is) => {
    const { stateMachineArn } = serviceOutput(outputs);
    const before = server.created();
    const { promise: reached, resolve } = Promise.withResolvers<void>();
    onRequest = (path) => {
      if (is(path)) resolve();
    };
    const input = JSON.stringify({ export: name });
    const { executionArn = '' } = await stepFunctions.send(new StartExecutionCommand({ stateMachineArn, input }));
    await reached;
    await stepFunctions.send(new StopExecutionCommand({ executionArn, cause: 'The test kills it' }));
    const killed = await endOfExecution(executionArn);
    expect(killed.status).toBe('ABORTED');
    // The function still has its response.
    await sleep(2_000);

    const next = await runExecution({ stateMachineArn, exportName: name });
    expect(next.status).toBe('SUCCEEDED');
    const { store } = await stack.open(name);
    const { manifest: key } = JSON.parse(await readStored(store, `${name}/latest.json`)) as {
      readonly manifest: string;
    };
    const manifest = JSON.parse(await readStored(store, key)) as Manifest;
    const pages = await Promise.all(manifest.pages.map((page) => readStored(store, page.key)));
    expect(pages.flatMap((page) => Array.from(page.matchAll(/"id":"(\w)"/g), ([, id]) => id))).toEqual(ids);
    expect(server.created() - before).toBe(1);
    const { Items } = await dynamoDb.send(new ScanCommand({ TableName: outputs.TableName }));
    const texts = [Items, killed, next, await logEvents()].map((each) => JSON.stringify(each));
    for (const known of [texts[0], texts.at(-1)]) expect(known).toContain('7f3a-');
    for (const text of texts) expect(text).not.toContain('/files/');
    const ofFiles = server.received.filter(({ at }) => at === 'files');
    expect(ofFiles.map(({ headers }) => headers.authorization)).toContain(undefined);
    expect(JSON.stringify(ofFiles)).not.toContain(apiKey);
  });
});
