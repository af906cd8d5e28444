import { execFile } from 'node:child_process';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { DeleteObjectCommand, GetObjectCommand, ListObjectsV2Command, PutObjectCommand } from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, inject, it } from 'vitest';
import type { LatestPointer, RunSummary } from '../../../lib/core/storage/published-schemas.ts';
import { problemsIn } from '../../support/docs/published-schemas.ts';
import { provideNpx, recipe } from '../../support/docs/recipes.ts';
import type { Manifest } from '../../support/export/export-bench.ts';
import { credentials, region } from '../emulators/ministack.ts';
import { pythonEnvironment } from '../emulators/python.ts';
import { s3 } from '../support/aws.ts';
import { awsVariables, deployApp } from '../support/cdk.ts';
import { openEventQueue } from '../support/event-queue.ts';
import { eventually } from '../support/eventually.ts';
import { runExecution } from '../support/executions.ts';
import { apiKey, exporterStack, putApiKey, serviceName, serviceOutput, vendor } from '../support/exporter-stack.ts';
import type { RecipesAppSettings } from '../support/recipes-app.ts';
import { openService } from '../support/service.ts';

const hasJq = await promisify(execFile)('jq', ['--version']).then(
  () => true,
  () => false,
);
const workDirectory = inject('workDirectory');
const stackName = 'Recipes';
const exportName = 'nightly';
// A quote, which is special in intrinsic functions of Step Functions.
const bucketPrefix = "team's/";
const prefix = `${bucketPrefix}${serviceName}/`;

describe('the recipes for AWS services', () => {
  let outputs: Readonly<Record<string, string>>;
  let eventQueue: ReturnType<typeof openEventQueue>;
  const output = (name: string): string => {
    const value = outputs[name] ?? outputs[`Recipe${name}`];
    if (value === undefined) throw new Error(`Stack ${stackName} has no output ${name}`);
    return value;
  };

  beforeAll(async () => {
    eventQueue = openEventQueue((await exporterStack()).eventQueue);
    const settings: RecipesAppSettings = {
      deployment: {
        stackName,
        services: { [serviceName]: { baseUrl: `http://127.0.0.1:${inject('servicePort')}`, vendor } },
        bucket: { prefix: bucketPrefix },
        exports: [{ name: exportName, size: 2, since: { overlap: 'P1D' } }],
      },
      exportName,
    };
    const file = join(workDirectory, 'recipes.json');
    await writeFile(file, JSON.stringify(settings));
    const app = {
      file: join(import.meta.dirname, '../support/recipes-app.ts'),
      context: { recipes: file },
      assembly: join(workDirectory, 'recipes.out'),
    };
    outputs = (await deployApp(app, [stackName]))[stackName] ?? {};
    await putApiKey({ secretId: output('AcmeApiKeySecretId') }, apiKey);
  });

  /** Completes a run. Resolves to its event, manifest and summary. */
  async function completeRun() {
    const end = await runExecution({ stateMachineArn: serviceOutput(outputs).stateMachineArn, exportName });
    expect(end.states.at(-1)).toBe('Completed');
    const isItsEvent = ({ detail }: { readonly detail: unknown }) =>
      (detail as { execution?: unknown }).execution === end.arn;
    const event = await eventQueue.find('about the run', isItsEvent);
    expect(problemsIn('completed.v1', event.detail)).toEqual([]);
    const { manifest: key } = (event.detail as { result: RunSummary }).result;
    const summaryKey = `${dirname(key)}/run.json`;
    const manifest: Manifest = JSON.parse(await source(key));
    const summary: RunSummary = JSON.parse(await source(summaryKey));
    return { event, key, manifest, summaryKey, summary };
  }
  type CompletedRun = Awaited<ReturnType<typeof completeRun>>;

  const source = (key: string) => textAt(output('BucketName'), prefix + key);
  const copyOf = (key: string) => textAt(output('Copies'), key);

  /** Waits until `latest.json` of the copy points to the run. */
  const untilCopied = async ({ summary }: CompletedRun) =>
    await eventually(`run ${summary.run} to be copied`, async () => {
      const keys = await keysIn(output('Copies'));
      if (!keys.includes(`${exportName}/latest.json`)) return undefined;
      const latest: LatestPointer = JSON.parse(await copyOf(`${exportName}/latest.json`));
      return latest.run === summary.run ? latest : undefined;
    });

  const expectCopied = async ({ manifest, key, summaryKey, summary }: CompletedRun) => {
    for (const each of [...manifest.pages.map((page) => page.key), key, summaryKey]) {
      expect(await copyOf(each)).toBe(await source(each));
    }
    expect(JSON.parse(await copyOf(`tables/runs/${exportName}-${summary.run}.json`))).toEqual(summary);
  };

  it('a function copies each run once, with its manifest last', async () => {
    await using _ = await openServiceWith(5);
    // An unfinished run: it has a page, but no manifest.
    const unfinished = `${exportName}/date=2026-01-01/run=20991231T235959Z-ffffffb2d407/page-000001.xml`;
    await s3.send(new PutObjectCommand({ Bucket: output('BucketName'), Key: prefix + unfinished, Body: '<reports/>' }));

    const run = await completeRun();
    const latest = await untilCopied(run);
    expect(problemsIn('latest.v1', latest)).toEqual([]);
    expect(latest).toEqual(JSON.parse(await source(`${exportName}/latest.json`)));
    await expectCopied(run);
    const copied = await objectsIn(output('Copies'));
    expect(copied.map(({ Key }) => Key).filter((key) => key?.includes('ffffff'))).toEqual([]);
    expect(copied).toHaveLength(run.manifest.pages.length + 4);

    // The same event is delivered again.
    expect(await invoke(output('CopyRun'), run.event)).toEqual([]);
    expect(await objectsIn(output('Copies'))).toEqual(copied);
  });

  it('a worker processes the pages in a queue, each with one result', async () => {
    await using _ = await openServiceWith(25);
    const run = await completeRun();
    const { pages } = run.manifest;
    expect(pages.length).toBeGreaterThan(10);
    const results = () => resultsOf(output('QueueResults'), run);
    const untilComplete = () =>
      eventually('a result of every page', async () => (await results()).length === pages.length || undefined);
    await untilComplete();
    expect(await results()).toEqual(pages.map((page) => `${page.key}.gz`));
    for (const { key } of pages) expect(await gunzipped(output('QueueResults'), `${key}.gz`)).toBe(await source(key));

    const [first] = pages;
    await s3.send(new DeleteObjectCommand({ Bucket: output('QueueResults'), Key: `${first?.key}.gz` }));
    // The same event is delivered again.
    expect(await invoke(output('SendPages'), run.event)).toBeNull();
    await untilComplete();
    expect(await results()).toEqual(pages.map((page) => `${page.key}.gz`));

    const damaged = { ...first, sha256: '0'.repeat(64) };
    const Records = [damaged, pages[1]].map((page, index) => ({ messageId: `m${index}`, body: JSON.stringify(page) }));
    expect(await invoke(output('Worker'), { Records })).toEqual({ batchItemFailures: [{ itemIdentifier: 'm0' }] });
  });

  it.skipIf(!hasJq)('scripts send the runs that were missed, and count results', async () => {
    await using _ = await openServiceWith(5);
    const run = await completeRun();
    const { pages } = run.manifest;
    const missed = [exportName, stackName, String(run.summary.sequence - 1)];
    const untilComplete = () =>
      eventually('a result of every page', async () => {
        const results = await resultsOf(output('QueueResults'), run);
        return results.length === pages.length || undefined;
      });
    await untilComplete();
    const deleteResult = async ({ key = '' }: { readonly key?: string } = {}) =>
      await s3.send(new DeleteObjectCommand({ Bucket: output('QueueResults'), Key: `${key}.gz` }));
    const isComplete = async () =>
      await runScript('aws/is-complete.sh', [output('QueueResults')], JSON.stringify(run.summary));
    for (const page of pages) await deleteResult(page);
    await expect(isComplete()).rejects.toMatchObject({ stdout: `0 of ${pages.length} pages have a result\n` });

    await runScript('aws/send-missed-runs.sh', [...missed, output('SendPages')]);
    await untilComplete();
    expect((await isComplete()).stdout).toBe(`${pages.length} of ${pages.length} pages have a result\n`);
    await deleteResult(pages[0]);
    await expect(isComplete()).rejects.toMatchObject({
      code: 1,
      stdout: `${pages.length - 1} of ${pages.length} pages have a result\n`,
    });
  });

  /** Runs a script with the package and the AWS CLI. @throws Error with its output if it fails */
  async function runScript(file: string, args: readonly string[], input = '') {
    const python = await pythonEnvironment();
    const folder = await mkdtemp(join(workDirectory, 'scripts-'));
    const path = [await provideNpx(folder), dirname(python), dirname(process.execPath), process.env.PATH];
    const env = {
      ...awsVariables(),
      AWS_DEFAULT_REGION: region,
      PATH: path.join(delimiter),
      NO_PROXY: '127.0.0.1',
    };
    const ended = promisify(execFile)('bash', [recipe(file), ...args], { cwd: folder, env });
    ended.child.stdin?.end(input);
    return await ended;
  }
});

/** Starts a service with so many reports that are dated now, so that every run exports them again. */
async function openServiceWith(count: number) {
  const service = await openService(0);
  service.addReports(...Array.from({ length: count }, (_, index) => index + 1));
  return service;
}

/** The keys of the run's results, without its manifest. */
async function resultsOf(bucket: string, { key }: { readonly key: string }): Promise<string[]> {
  const keys = await keysIn(bucket);
  return keys.filter((each) => dirname(each) === dirname(key) && each !== key);
}

/** The response of a function, or its error. */
async function invoke(FunctionName: string, event: unknown): Promise<unknown> {
  const lambda = new LambdaClient({ endpoint: inject('miniStack'), region, credentials });
  const { Payload } = await lambda.send(new InvokeCommand({ FunctionName, Payload: JSON.stringify(event) }));
  return JSON.parse(Payload?.transformToString() || 'null');
}

async function textAt(Bucket: string, Key: string): Promise<string> {
  const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key }));
  return (await Body?.transformToString()) ?? '';
}

async function gunzipped(Bucket: string, Key: string): Promise<string> {
  const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key }));
  return gunzipSync((await Body?.transformToByteArray()) ?? new Uint8Array()).toString();
}

async function objectsIn(Bucket: string) {
  const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket }));
  return Contents.map(({ Key, ETag, LastModified }) => ({ Key, ETag, LastModified }));
}

const keysIn = async (bucket: string): Promise<string[]> => (await objectsIn(bucket)).map(({ Key = '' }) => Key);
