import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { CopyObjectCommand, GetObjectCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { build } from 'esbuild';
import { beforeAll, describe, expect, inject, it } from 'vitest';
import { errorResponse, onPage } from '../../../lib/report-service/simulator/faults.ts';
import { exampleIn } from '../../support/docs/doc-pages.ts';
import { problemsIn } from '../../support/docs/published-schemas.ts';
import type { Manifest } from '../../support/export/export-bench.ts';
import { credentials, region } from '../emulators/ministack.ts';
import { pythonEnvironment } from '../emulators/python.ts';
import { s3 } from '../support/aws.ts';
import { deployApp } from '../support/cdk.ts';
import type { ConsumerAppSettings } from '../support/consumer-app.ts';
import { openEventQueue } from '../support/event-queue.ts';
import { eventually } from '../support/eventually.ts';
import { runExecution } from '../support/executions.ts';
import {
  apiKey,
  bucketPrefix,
  exporterStack,
  prefix,
  putApiKey,
  serviceName,
  serviceOutput,
  vendor,
} from '../support/exporter-stack.ts';
import { openService } from '../support/service.ts';

/** The export of both deployments. */
const nightlyOf = (outputs: Readonly<Record<string, string>>) => ({
  stateMachineArn: serviceOutput(outputs).stateMachineArn,
  exportName: 'nightly',
});

const page = 'docs/recipes.md';
const workDirectory = inject('workDirectory');
const [consumedStack, otherStack] = ['ConsumersWatched', 'ConsumersOther'];
const hasJq = await promisify(execFile)('jq', ['--version']).then(
  () => true,
  () => false,
);

interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

describe('the recipes', () => {
  let python: string;
  let deployments: Readonly<Record<string, Readonly<Record<string, string>>>>;
  let eventQueue: ReturnType<typeof openEventQueue>;
  let reader: Credentials;
  const output = (name: string, stackName = consumedStack): string => {
    const value = deployments[stackName]?.[name];
    if (value === undefined) throw new Error(`Stack ${stackName} has no output ${name}`);
    return value;
  };

  beforeAll(async () => {
    eventQueue = openEventQueue((await exporterStack()).eventQueue);
    python = await pythonEnvironment();
    deployments = await deployApp(await buildApp(), [consumedStack, otherStack]);
    for (const stackName of [consumedStack, otherStack]) {
      await putApiKey({ secretId: output('AcmeApiKeySecretId', stackName) }, apiKey);
    }
    const createKey = ['iam', 'create-access-key', '--user-name', output('ReaderName'), '--output', 'json'];
    const { AccessKey } = JSON.parse((await runAs(credentials, 'aws', createKey)).stdout);
    reader = { accessKeyId: AccessKey.AccessKeyId, secretAccessKey: AccessKey.SecretAccessKey };
  });

  /** Completes a run. Resolves to its event and its manifest. */
  async function completeRun(stackName = consumedStack) {
    const end = await runExecution(nightlyOf(deployments[stackName] ?? {}));
    expect(end.states.at(-1)).toBe('Completed');
    const event = await eventQueue.find('about the run', isOf(end.arn));
    const { manifest: key } = (event.detail as { result: { manifest: string } }).result;
    return {
      event,
      key,
      manifest: JSON.parse(await textAt(output('BucketName', stackName), prefix + key)) as Manifest,
    };
  }

  it('are based on events, manifests and pointers that match their schemas', async () => {
    await using service = await openService(3);
    const { event, manifest } = await completeRun();
    expect(problemsIn('completed.v1', event.detail)).toEqual([]);
    expect(problemsIn('manifest.v1', manifest)).toEqual([]);
    const latest = JSON.parse(await textAt(output('BucketName'), `${prefix}nightly/latest.json`));
    expect(problemsIn('latest.v1', latest)).toEqual([]);
    expect(service.exchanges).toHaveLength(2);
  });

  it('a function that subscribes to runs copies their pages, once or twice', async () => {
    await using service = await openService(5);
    const { event, key, manifest } = await completeRun();

    const copies = await eventually('the pages to be copied', async () => {
      const keys = (await keysIn(output('CopiesBucket'))).filter((each) => each.startsWith(dirname(key)));
      return keys.length === manifest.pages.length ? keys : undefined;
    });
    expect(copies).toEqual(manifest.pages.map((each) => each.key));
    for (const each of copies) {
      expect(await textAt(output('CopiesBucket'), each)).toBe(await textAt(output('BucketName'), prefix + each));
    }

    // The same event is delivered again.
    expect(await invoke(output('LoadFunction'), event)).toEqual({ run: manifest.run, pages: manifest.pages.length });
    const newer = { ...event, detail: { ...(event.detail as object), eventVersion: 2 } };
    expect(await invoke(output('LoadFunction'), newer)).toMatchObject({
      errorMessage: expect.stringContaining('Unknown eventVersion'),
    });
    expect(service.exchanges.length).toBeGreaterThan(0);
  });

  it('subscribers to an export receive its completions and failures, but none of an export of the same name in another stack', async () => {
    const received: unknown[] = [];
    const subscription = openEventQueue(output('EventsUrl'));
    const receive = async (arn: string) =>
      await subscription.find('about our run', (each) => {
        received.push((each.detail as { execution: string }).execution);
        return isOf(arn)(each);
      });
    const failRun = async (stackName: string) => {
      await using _ = await openService(5, { faults: onPage(1, errorResponse(404)) });
      return await runExecution(nightlyOf(deployments[stackName] ?? {}), { restart: true });
    };
    // The other stack's runs are first, so that an event about them would arrive before ours.
    const theirFailure = await failRun(otherStack);
    const ourFailure = await failRun(consumedStack);
    const event = await receive(ourFailure.arn);
    expect(event['detail-type']).toBe('Report Export Failed');
    expect(problemsIn('failed.v1', event.detail)).toEqual([]);

    await using _ = await openService(5);
    const theirRun = await completeRun(otherStack);
    const ourRun = await completeRun();
    const completed = await receive((ourRun.event.detail as { execution: string }).execution);
    expect(completed.detail).toEqual(ourRun.event.detail);

    const theirs = [theirFailure.arn, (theirRun.event.detail as { execution: string }).execution];
    expect(received.filter((each) => theirs.includes(each as string))).toEqual([]);
    // A subscriber to all events receives both.
    await eventQueue.find('about their failure', isOf(theirFailure.arn));
  });

  it.skipIf(!hasJq)('a shell script catches up on all runs since its last execution, in order', async () => {
    await using service = await openService(3);
    const directory = await mkdtemp(join(workDirectory, 'catch-up-'));
    const script = join(directory, 'catch-up.sh');
    await writeFile(script, exampleIn(page, 'catch-up.sh'));
    const catchUp = async (exportName = 'nightly') =>
      await asReader('bash', [script, output('BucketName'), prefix, exportName, join(directory, exportName)]);

    const before = await publishedRuns();
    const first = await completeRun();
    // An unfinished run: it has a page, but no manifest.
    const [page1] = first.manifest.pages;
    if (page1 === undefined) throw new Error('the run has no page');
    const unfinished = page1.key.replace(/run=[^/]*/, 'run=20991231T235959Z-ffffff');
    await s3.send(
      new CopyObjectCommand({
        Bucket: output('BucketName'),
        Key: prefix + unfinished,
        CopySource: `${output('BucketName')}/${prefix}${page1.key}`,
      }),
    );
    const runs = [...before, first.manifest.run];
    expect((await catchUp()).stdout.split('\n').map((line) => line.split(/[ :]/)[1])).toEqual([...runs, undefined]);

    service.addReports(4, 5);
    const second = await completeRun();
    expect((await catchUp()).stdout).toBe(`run ${second.manifest.run}: ${second.manifest.pages.length} pages\n`);
    expect((await catchUp()).stdout).toBe('');
    for (const { key } of [...first.manifest.pages, ...second.manifest.pages]) {
      const copy = await readFile(join(directory, 'nightly', key), 'utf8');
      expect(copy).toBe(await textAt(output('BucketName'), prefix + key));
    }
    // Readers of one export are denied access to another, which must not look like an export without runs.
    await expect(catchUp('weekly')).rejects.toThrow(/AccessDenied/);
  });

  async function buildApp() {
    const load = join(workDirectory, 'load');
    await mkdir(load, { recursive: true });
    const source = join(load, 'load-run.mjs');
    await writeFile(source, exampleIn(page, 'load-run.mjs'));
    await build({
      entryPoints: [source],
      outfile: join(load, 'bundle/index.mjs'),
      bundle: true,
      platform: 'node',
      format: 'esm',
      // Lambda provides the SDK. Here it is bundled.
      nodePaths: [join(import.meta.dirname, '../../../node_modules')],
      banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
      logLevel: 'error',
    });
    const settings: ConsumerAppSettings = {
      stackNames: [consumedStack, otherStack],
      deployment: {
        services: { [serviceName]: { baseUrl: `http://127.0.0.1:${inject('servicePort')}`, vendor } },
        bucket: { prefix: bucketPrefix },
        exports: [{ name: 'nightly', size: 2, since: { overlap: 'P1D' } }],
      },
      functionFolder: join(load, 'bundle'),
      policy: exampleIn('docs/consumers.md', 'reader-policy.json'),
    };
    const file = join(workDirectory, 'consumers.json');
    await writeFile(file, JSON.stringify(settings));
    return {
      file: join(import.meta.dirname, '../support/consumer-app.ts'),
      context: { consumers: file },
      assembly: join(workDirectory, 'consumers.out'),
    };
  }

  /** Runs a command with the permissions of a reader. @throws Error with the command's output if it fails */
  const asReader = (command: string, parameters: readonly string[]) => runAs(reader, command, parameters);

  async function runAs(account: Credentials, command: string, parameters: readonly string[]) {
    const missingFile = join(workDirectory, 'no-such-file');
    return await promisify(execFile)(command, parameters, {
      env: {
        PATH: [dirname(python), process.env.PATH].join(delimiter),
        AWS_ENDPOINT_URL: inject('miniStack'),
        AWS_REGION: region,
        AWS_DEFAULT_REGION: region,
        AWS_ACCESS_KEY_ID: account.accessKeyId,
        AWS_SECRET_ACCESS_KEY: account.secretAccessKey,
        AWS_CONFIG_FILE: missingFile,
        AWS_SHARED_CREDENTIALS_FILE: missingFile,
        NO_PROXY: '127.0.0.1',
      },
    });
  }

  /** The IDs of the published runs, in the order of publication. */
  async function publishedRuns(): Promise<string[]> {
    const bucket = output('BucketName');
    const manifests = (await keysIn(bucket)).filter((key) => key.endsWith('/manifest.json'));
    const read = await Promise.all(manifests.map(async (key) => JSON.parse(await textAt(bucket, key))));
    return read.sort((a, b) => a.sequence - b.sequence).map((each) => each.run);
  }
});

/** The response of a function, or its error. */
async function invoke(FunctionName: string, event: unknown): Promise<unknown> {
  const lambda = new LambdaClient({ endpoint: inject('miniStack'), region, credentials });
  const { Payload } = await lambda.send(new InvokeCommand({ FunctionName, Payload: JSON.stringify(event) }));
  return JSON.parse(Payload?.transformToString() ?? 'null');
}

const isOf =
  (execution: string) =>
  ({ detail }: { readonly detail: unknown }): boolean =>
    (detail as { execution?: unknown }).execution === execution;

async function textAt(Bucket: string, Key: string): Promise<string> {
  const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key }));
  return (await Body?.transformToString()) ?? '';
}

async function keysIn(Bucket: string): Promise<string[]> {
  const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket }));
  return Contents.map(({ Key = '' }) => Key);
}
