/** Two runs of the functions in the real state machine, with a simulator of the service and a fake AWS. */

import { expect, it } from 'vitest';
import { type Api, apiSchema } from '../../lib/service/api/description.ts';
import type { FunctionEnvironment } from '../../lib/settings/deployed-settings.ts';
import { captureOutput, deployedFunctions } from '../support/aws/deployed-functions.ts';
import { createFakeAws } from '../support/aws/fake-aws.ts';
import { execute, executionArn } from '../support/export/function-machine.ts';
import { combineFaults, errorResponse, type FaultScript, onPage } from '../support/service/faults.ts';
import { inMemoryReports } from '../support/service/in-memory-reports.ts';
import { simulatorApiKey, someReports } from '../support/service/simulator-client.ts';
import { startSimulator } from '../support/service/simulator.ts';

const output = captureOutput();
const events = () => output.lines().filter(({ message }) => message !== undefined);
const metrics = () => output.lines().filter((line) => '_aws' in line);
const totalOf = (metric: string) =>
  metrics()
    .flatMap((line) => (line[metric] ?? []) as number | number[])
    .reduce((sum, value) => sum + value, 0);

/** Runs an export of five reports, two a page. */
async function runExport({
  faults,
  api,
  env,
}: { faults?: FaultScript; api?: Api; env?: Partial<FunctionEnvironment> } = {}) {
  await using stack = new AsyncDisposableStack();
  const aws = createFakeAws();
  const reports = inMemoryReports(someReports(5));
  const options = { vendor: 'SERVICE', apiKey: simulatorApiKey, reports, faults, api, pageSize: 2 };
  const service = stack.use(await startSimulator(options));
  // Otherwise, nothing may read a secret.
  if (api === undefined) aws.secrets.set('reports/api-key', simulatorApiKey);
  const settings = { service: { baseUrl: service.baseUrl, api }, exports: [{ name: 'reports', size: 2 }] };
  const result = await execute(deployedFunctions(aws, settings, env), { name: 'first' });
  const textOf = (key: string) => aws.bucket('bucket').objects.get(key)?.body.toString() ?? '';
  return { result, textOf, requests: service.exchanges.length };
}

it('needs no secret for a service without authentication', async () => {
  const api = apiSchema.parse({
    request: { path: '/logs', query: { since: '{since}', size: '{size}' } },
    auth: { kind: 'none' },
    next: { from: 'body', at: '/next', to: { query: 'cursor' } },
    page: { format: 'json', reports: '/data/*' },
  });
  const { result } = await runExport({ api, env: { apiKeySecret: undefined } });
  expect(result).toMatchObject({ status: 'succeeded', output: { pages: 3, reports: 5 } });
});

it('exports the children of the reports of another export, whose pages ExportPage reads', async () => {
  await using stack = new AsyncDisposableStack();
  const aws = createFakeAws();
  const request = { path: '/repos', query: { size: '{size}' } };
  const next = { from: 'body', at: '/next', to: { query: 'cursor' } } as const;
  const page = { format: 'json', reports: '/data/*' } as const;
  const described = { request, auth: { kind: 'none' }, next, page } as const;
  const api = apiSchema.parse(described);
  const reports = inMemoryReports(someReports(3));
  const options = { vendor: 'SERVICE', apiKey: simulatorApiKey, reports, api, pageSize: 2 };
  const { baseUrl } = stack.use(await startSimulator(options));
  const ofRepo = { request: { path: '/repos/{parent}/issues' } };
  const settings = {
    service: { baseUrl, api: described },
    exports: [
      { name: 'repos', size: 2 },
      { name: 'issues', size: 2, pagesPerInvocation: 25, api: ofRepo, parents: { export: 'repos', id: '/id' } },
    ],
  };
  const functions = deployedFunctions(aws, settings, { apiKeySecret: undefined });
  const start = async (name: string) =>
    await execute(functions, { name: `of-${name}`, input: { export: name }, remainingMs: 400_000 });
  expect((await execute(functions, { name: 'early', input: { export: 'issues' } })).states).toContain('Skipped');
  const parents = await start('repos');
  const children = await start('issues');
  expect(children).toMatchObject({ status: 'succeeded', output: { pages: 6, reports: 9 } });
  // The first invocation already leaves time to store pages of as many parents as may be walked at the same time.
  expect(children.states.filter((state) => state === 'ExportPage').length).toBeGreaterThan(1);
  const { manifest } = children.output as { manifest: string };
  expect(JSON.parse(aws.bucket('bucket').objects.get(manifest)?.body.toString() ?? '')).toMatchObject({
    parents: { export: 'repos', run: (parents.output as { run: string }).run, count: 3 },
  });
});

it('exports every report, publishes and announces them, and logs and counts each page', async () => {
  const { result, textOf, requests } = await runExport();
  expect(result).toMatchObject({
    status: 'succeeded',
    output: { pages: 3, reports: 5 },
    events: [{ export: 'reports', execution: executionArn('first'), result: { pages: 3 } }],
  });
  expect(result.states.at(-1)).toBe('Completed');
  expect(requests).toBe(3);

  const { manifest } = JSON.parse(textOf('reports/latest.json')) as { manifest: string };
  const { pages } = JSON.parse(textOf(manifest)) as { pages: readonly { key: string }[] };
  const ids = pages.flatMap(({ key }) => Array.from(textOf(key).matchAll(/<r id="([^"]*)"/g), ([, id]) => id));
  expect(ids).toEqual(['r1', 'r2', 'r3', 'r4', 'r5']);

  const { run, bytes } = result.output as { run: string; bytes: number };
  const fields = {
    level: 'INFO',
    export: 'reports',
    run,
    execution: executionArn('first'),
    request: 'request-of-first',
  };
  expect(events()).toMatchObject([
    { ...fields, message: 'run-started' },
    ...[1, 2, 3].map((page) => ({ ...fields, message: 'page-exported', page })),
    { ...fields, message: 'run-completed', pages: 3, reports: 5, bytes },
  ]);
  const totals = { RunsStarted: 1, PagesExported: 3, ReportsExported: 5, BytesExported: bytes, RunsCompleted: 1 };
  for (const [metric, total] of Object.entries(totals)) expect([metric, totalOf(metric)]).toEqual([metric, total]);
  expect(totalOf('ServiceLatency')).toBeGreaterThanOrEqual(0);
  const cloudWatchMetrics = [{ Namespace: 'ReportExporter', Dimensions: [['deployment', 'export']] }];
  for (const line of metrics()) {
    expect(line).toMatchObject({ export: 'reports', _aws: { CloudWatchMetrics: cloudWatchMetrics } });
    expect(line).not.toHaveProperty('service');
  }
  expect(metrics()).toHaveLength(5);
});

it('says why a run failed, without the API key, which the service repeats', async () => {
  const echo = combineFaults(errorResponse(401, `You sent ${simulatorApiKey}`), {
    headers: { 'x-request-id': simulatorApiKey },
  });
  const { result } = await runExport({ faults: onPage(1, echo, { times: 9 }) });
  expect(result).toMatchObject({ status: 'failed', error: 'ConfigurationError', events: [{ export: 'reports' }] });
  expect(events().at(-1)).toMatchObject({
    level: 'ERROR',
    message: 'run-failed',
    error: 'ConfigurationError',
    resumable: true,
  });
  expect(totalOf('RunsFailed')).toBe(1);
  for (const text of [output.text(), JSON.stringify(result)]) {
    expect(text).toContain('ConfigurationError');
    expect(text).not.toContain(simulatorApiKey);
  }
});
