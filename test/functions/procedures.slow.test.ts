/** The procedures in docs/procedures.md, with the real functions and a fake AWS. */

import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { S3Client } from '@aws-sdk/client-s3';
import { mockClient } from 'aws-sdk-client-mock';
import { describe, expect, it, vi } from 'vitest';
import { createDynamoPageLog } from '../../lib/aws/dynamodb/page-log.ts';
import { createS3PageStore } from '../../lib/aws/s3/page-store.ts';
import { systemRuntime } from '../../lib/core/clock.ts';
import { verifyRun } from '../../lib/operator/verify-run.ts';
import { openPublishedRun, readLatestPointer } from '../../lib/core/storage/published-runs.ts';
import { combineScripts, errorResponse, type FaultScript, onPage } from '../support/service/faults.ts';
import { inMemoryReports } from '../support/service/in-memory-reports.ts';
import { startSimulator } from '../support/service/simulator.ts';
import { captureOutput, deployedFunctions } from '../support/aws/deployed-functions.ts';
import { createFakeAws, type FakeAws } from '../support/aws/fake-aws.ts';
import { exampleIn } from '../support/docs/doc-pages.ts';
import { type ExecutionResult, execute, executionArn, type Functions } from '../support/export/function-machine.ts';
import { simulatorApiKey, someReports } from '../support/service/simulator-client.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const root = join(import.meta.dirname, '../..');

captureOutput();

/** A service with five reports. */
const startService = (faults?: FaultScript) =>
  startSimulator({ vendor: 'SERVICE', apiKey: simulatorApiKey, reports: inMemoryReports(someReports(5)), faults });

type Service = Awaited<ReturnType<typeof startService>>;

interface Deployment {
  readonly aws: FakeAws;
  readonly bucket: string;
  readonly functions: Functions;
}

/** A stack. Its functions have caches of their own, as in new containers. */
function deploy(
  aws: FakeAws,
  service: Service,
  { bucket = 'bucket', settings = {} }: { bucket?: string; settings?: object } = {},
): Deployment {
  const functions = deployedFunctions(
    aws,
    { service: { baseUrl: service.baseUrl }, exports: [{ name: 'nightly', size: 1, ...settings }] },
    { bucket, prefix: 'all/' },
  );
  return { aws, bucket, functions };
}

function localAws(): FakeAws {
  const aws = createFakeAws();
  aws.secrets.set('reports/api-key', simulatorApiKey);
  return aws;
}

interface Completed {
  readonly run: string;
  readonly since: string;
  readonly watermark: string;
  readonly manifest: string;
}

const completed = ({ status, output, cause }: ExecutionResult): Completed => {
  expect({ status, cause }).toEqual({ status: 'succeeded', cause: undefined });
  return output as Completed;
};

function objectAt({ aws, bucket }: Deployment, key: string): string {
  return aws.bucket(bucket).objects.get(`all/${key}`)?.body.toString() ?? '';
}

const latestOf = (deployment: Deployment) =>
  JSON.parse(objectAt(deployment, 'nightly/latest.json')) as { run: string; sequence: number };

/** The sequence follows the clock, in seconds. The runs of these tests follow each other faster than real ones. */
async function clockAfter({ sequence }: { readonly sequence: number }): Promise<void> {
  while (Math.floor(Date.now() / 1_000) <= sequence) await sleep(50);
}

function idsOf(deployment: Deployment, manifest: string): string[] {
  const { pages } = JSON.parse(objectAt(deployment, manifest)) as { pages: readonly { key: string }[] };
  return pages.flatMap(({ key }) =>
    [...objectAt(deployment, key).matchAll(/<r id="([^"]*)"/g)].map(([, id]) => id ?? ''),
  );
}

const allIds = ['r1', 'r2', 'r3', 'r4', 'r5'];

/** What `verify` finds, and its notes. */
async function verify({ aws, bucket }: Deployment, run?: string) {
  const client = aws.createClient<S3Client, object>(S3Client, {});
  const store = createS3PageStore({ client, bucket, prefix: 'all/', runtime: systemRuntime });
  const dynamoDb = aws.createClient<DynamoDBClient, object>(DynamoDBClient, {});
  const log = createDynamoPageLog({ client: dynamoDb, table: aws.table, service: 'acme', runtime: systemRuntime });
  const newest = run ?? (await readLatestPointer(store, 'nightly'))?.run ?? '';
  const published = await openPublishedRun(store, 'nightly', newest);
  const { notes, pages, ...found } = await verifyRun({ store, log, onPage: () => undefined }, published);
  return { run: published.header.run, findings: found.findings.map(({ message }) => message), notes, pages };
}

/** Restores the table as it is now beside it. */
const restoreBeside = (aws: FakeAws): void => aws.replaceItems('restored', aws.items());

const deleteItems = (aws: FakeAws, prefix: string): void =>
  aws.replaceItems(
    aws.table,
    aws.items().filter(({ sk }) => sk?.S?.startsWith(prefix) !== true),
  );

/** The pages of the bucket, by key. */
const pagesIn = (aws: FakeAws) =>
  new Map(
    [...aws.bucket('bucket').objects]
      .filter(([key]) => key.includes('/page-'))
      .map(([key, { body }]) => [key, body.toString()]),
  );

/** Runs the program in the documentation, and returns its output. */
async function copyItems(aws: FakeAws, prefix: string): Promise<string> {
  const within = join(root, 'node_modules/.cache');
  await mkdir(within, { recursive: true });
  await using directory = await temporaryDirectory(within);
  const program = join(directory.path, 'copy-items.mjs');
  await writeFile(program, exampleIn('docs/procedures.md', 'copy-items.mjs'));
  const requests = mockClient(DynamoDBClient);
  requests.send.callsFake(async (command) => (await aws.send(DynamoDBClient, command)) as never);
  const log = vi.spyOn(console, 'log').mockReturnValue();
  const { argv } = process;
  process.argv = ['node', program, 'restored', aws.table, 'acme/nightly', prefix];
  await import(pathToFileURL(program).href);
  process.argv = argv;
  requests.restore();
  return String(log.mock.lastCall);
}

describe('restoring the table', () => {
  it('restores the page log of a run', async () => {
    const aws = localAws();
    await using service = await startService();
    const deployment = deploy(aws, service);
    const { run } = completed(await execute(deployment.functions, { name: 'first' }));
    restoreBeside(aws);
    deleteItems(aws, `run#${run}#page#000000000003`);
    expect((await verify(deployment)).findings).not.toEqual([]);

    expect(await copyItems(aws, `run#${run}#`)).toBe('5 items copied');
    expect(await verify(deployment)).toEqual({ run, findings: [], notes: [], pages: 5 });
  });

  it('exports reports of later runs again after a restore to an earlier time, with a higher sequence', async () => {
    const aws = localAws();
    await using service = await startService();
    const deployment = deploy(aws, service);
    const first = completed(await execute(deployment.functions, { name: 'first' }));
    restoreBeside(aws);
    const second = completed(await execute(deployment.functions, { name: 'second' }));
    const before = latestOf(deployment);
    await copyItems(aws, 'state');
    await clockAfter(before);

    const third = completed(await execute(deployment.functions, { name: 'third' }));
    expect(third.since).toBe(first.watermark);
    expect(third.run).not.toBe(second.run);
    expect(latestOf(deployment).run).toBe(third.run);
    expect(latestOf(deployment).sequence).toBeGreaterThan(before.sequence);
    expect((await verify(deployment, second.run)).findings).toEqual([]);
  });

  it('resumes a run that was in progress then and still is, and uses the pages that it has stored since', async () => {
    const aws = localAws();
    const faults = combineScripts(onPage(3, errorResponse(403)), onPage(5, errorResponse(403)));
    await using service = await startService(faults);
    const deployment = deploy(aws, service);
    expect(await execute(deployment.functions, { name: 'first' })).toMatchObject({ status: 'failed' });
    aws.executions.set(executionArn('first'), 'FAILED');
    restoreBeside(aws);
    expect(await execute(deployment.functions, { name: 'second' })).toMatchObject({ status: 'failed' });
    aws.executions.set(executionArn('second'), 'FAILED');
    const stored = pagesIn(aws);
    expect(stored.size).toBe(4);

    deleteItems(aws, 'run#');
    expect(await copyItems(aws, 'run#')).toBe('2 items copied');
    expect(await copyItems(aws, 'state')).toBe('1 items copied');
    const { run, manifest } = completed(await execute(deployment.functions, { name: 'third' }));
    expect(idsOf(deployment, manifest)).toEqual(allIds);
    for (const [key, body] of stored) expect([key, pagesIn(aws).get(key)]).toEqual([key, body]);
    expect(await verify(deployment)).toEqual({ run, findings: [], notes: [], pages: 5 });
  });

  it('refuses a run that was in progress then and is published now, until a start with `restart`', async () => {
    const aws = localAws();
    await using service = await startService(onPage(3, errorResponse(403)));
    const deployment = deploy(aws, service);
    expect(await execute(deployment.functions, { name: 'first' })).toMatchObject({ status: 'failed' });
    aws.executions.set(executionArn('first'), 'FAILED');
    restoreBeside(aws);
    const published = completed(await execute(deployment.functions, { name: 'second' }));
    const before = latestOf(deployment);
    const objects = new Map(aws.bucket('bucket').objects);

    await copyItems(aws, 'state');
    await clockAfter(before);
    const refused = await execute(deployment.functions, { name: 'third' });
    expect(refused).toMatchObject({ status: 'failed', error: 'PageConflictError' });
    expect(JSON.stringify(refused.cause)).toContain('already exists, but does not match what this exporter wrote');
    expect(aws.bucket('bucket').objects).toEqual(objects);

    aws.executions.set(executionArn('third'), 'FAILED');
    const input = { export: 'nightly', restart: true };
    const again = completed(await execute(deployment.functions, { name: 'fourth', input }));
    expect(again).toMatchObject({ since: published.since, run: expect.not.stringMatching(published.run) as string });
    expect(latestOf(deployment).run).toBe(again.run);
    expect(latestOf(deployment).sequence).toBeGreaterThan(before.sequence);
    expect((await verify(deployment)).findings).toEqual([]);
    expect((await verify(deployment, published.run)).findings).toEqual([]);
  });
});

/** What `aws s3 sync` does: the objects with their metadata. */
function copyBucket(from: FakeAws, to: FakeAws, bucket: string): void {
  for (const [key, object] of from.bucket('bucket').objects) to.bucket(bucket).restore(key, object);
}

describe('moving', () => {
  it('to another bucket keeps published runs and the watermark', async () => {
    const aws = localAws();
    await using service = await startService();
    const before = deploy(aws, service);
    const first = completed(await execute(before.functions, { name: 'first' }));
    copyBucket(aws, aws, 'new-bucket');
    const after = deploy(aws, service, { bucket: 'new-bucket' });
    const old = aws.bucket('bucket');
    for (const key of old.objects.keys()) old.restore(key, undefined);

    expect(await verify(after, first.run)).toEqual({ run: first.run, findings: [], notes: [], pages: 5 });
    expect(idsOf(after, first.manifest)).toEqual(allIds);
    const second = completed(await execute(after.functions, { name: 'second' }));
    expect(second.since).toBe(first.watermark);
    expect(latestOf(after).run).toBe(second.run);
    expect((await verify(after)).findings).toEqual([]);
    expect(old.objects.size).toBe(0);
  });

  it('to another account starts at the old watermark, and copied runs can be verified', async () => {
    const aws = localAws();
    const newAws = localAws();
    await using service = await startService();
    const before = deploy(aws, service);
    const first = completed(await execute(before.functions, { name: 'first' }));
    const last = latestOf(before);
    copyBucket(aws, newAws, 'bucket');
    await clockAfter(last);

    const after = deploy(newAws, service);
    const copied = await verify(after, first.run);
    expect(copied).toMatchObject({ run: first.run, findings: [], pages: 5 });
    expect(copied.notes).toEqual([expect.stringContaining('page log')]);
    const input = { export: 'nightly', since: first.watermark };
    const second = completed(await execute(after.functions, { name: 'second', input }));
    expect(second.since).toBe(first.watermark);
    expect(latestOf(after).run).toBe(second.run);
    expect(latestOf(after).sequence).toBeGreaterThan(last.sequence);
    expect(completed(await execute(after.functions, { name: 'third' })).since).toBe(second.watermark);
  });
});
