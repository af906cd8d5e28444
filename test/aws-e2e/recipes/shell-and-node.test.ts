/** The recipes for the shell and for Node.js, on a stack, with exactly the permissions in the consumer guide. */

import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { CopyObjectCommand, GetObjectCommand, ListObjectsV2Command, PutObjectCommand } from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, inject, it } from 'vitest';
import type { RunSummary } from '../../../lib/core/storage/published-schemas.ts';
import { exampleIn } from '../../support/docs/doc-pages.ts';
import { provideNpx, recipe } from '../../support/docs/recipes.ts';
import { credentials, region } from '../emulators/ministack.ts';
import { pythonEnvironment } from '../emulators/python.ts';
import { s3 } from '../support/aws.ts';
import { bootstrap, deploy, type Outputs } from '../support/cdk.ts';
import { runExecution } from '../support/executions.ts';
import {
  apiKey,
  bucketPrefix,
  prefix,
  putApiKey,
  serviceName,
  serviceOutput,
  vendor,
} from '../support/exporter-stack.ts';
import { openService } from '../support/service.ts';

/** Its pages are compressed. Tests on directories read both forms. */
const stackName = 'ReportExporterCopied';
const firstPage = 'page-000001.xml.gz';
const workDirectory = inject('workDirectory');
const hasJq = await promisify(execFile)('jq', ['--version']).then(
  () => true,
  () => false,
);

interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

describe('the recipes for the shell and for Node.js', () => {
  let python: string;
  let outputs: Outputs;
  let bucket: string;
  /** May read the export nightly only. */
  let reader: Credentials;
  /** May also read the outputs and the metadata of the stack, as the command line does. */
  let commandReader: Credentials;

  beforeAll(async () => {
    python = await pythonEnvironment();
    await bootstrap();
    outputs = await deploy({
      stackName,
      services: { [serviceName]: { baseUrl: `http://127.0.0.1:${inject('servicePort')}`, vendor } },
      bucket: { prefix: bucketPrefix, compression: 'gzip' },
      exports: ['nightly', 'weekly'].map((name) => ({ name, size: 2, since: { overlap: 'P1D' } })),
    });
    bucket = String(outputs.BucketName);
    await putApiKey({ secretId: String(outputs.AcmeApiKeySecretId) }, apiKey);
    const policy = exampleIn('docs/consumers.md', 'reader-policy.json')
      .replaceAll('<bucket>', bucket)
      .replaceAll('<prefix>', prefix)
      .replaceAll('<export>', 'nightly');
    const { Version, Statement } = JSON.parse(policy);
    const describeStack = ['cloudformation:DescribeStacks', 'cloudformation:DescribeStackResource'];
    const stack = {
      Effect: 'Allow',
      Action: describeStack,
      Resource: `arn:aws:cloudformation:*:*:stack/${stackName}/*`,
    };
    reader = await createUser('recipe-reader', policy);
    commandReader = await createUser(
      'recipe-command-reader',
      JSON.stringify({ Version, Statement: [...Statement, stack] }),
    );
  });

  async function createUser(name: string, policy: string): Promise<Credentials> {
    const iam = async (...words: string[]) =>
      (await runAs(credentials, workDirectory, ['aws', 'iam', ...words, '--user-name', name, '--output', 'json']))
        .stdout;
    await iam('create-user');
    await iam('put-user-policy', '--policy-name', 'read', '--policy-document', policy);
    const { AccessKey } = JSON.parse(await iam('create-access-key'));
    return { accessKeyId: AccessKey.AccessKeyId, secretAccessKey: AccessKey.SecretAccessKey };
  }

  /** @throws Error with the command's output if it fails */
  async function runAs(account: Credentials, folder: string, [command = '', ...args]: readonly string[]) {
    const missingFile = join(workDirectory, 'no-such-file');
    return await promisify(execFile)(command, args, {
      cwd: folder,
      env: {
        PATH: [join(folder, 'bin'), dirname(python), dirname(process.execPath), process.env.PATH].join(delimiter),
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

  async function aFolder(): Promise<string> {
    const folder = await mkdtemp(join(workDirectory, 'recipe-'));
    await provideNpx(folder);
    return folder;
  }

  /** Completes a run. Resolves to its summary. */
  async function completeRun(): Promise<RunSummary> {
    const { stateMachineArn } = serviceOutput(outputs);
    const end = await runExecution({ stateMachineArn, exportName: 'nightly' });
    expect(end.states.at(-1)).toBe('Completed');
    const runs = await publishedRuns();
    return runs.at(-1) as RunSummary;
  }

  /** In the order of publication, from all objects of the bucket. */
  async function publishedRuns(): Promise<RunSummary[]> {
    const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket: bucket, Prefix: `${prefix}nightly/` }));
    const keys = Contents.map(({ Key = '' }) => Key).filter((key) => key.endsWith('/run.json'));
    const runs = await Promise.all(keys.map(async (key) => JSON.parse((await bytesAt(key)).toString()) as RunSummary));
    return runs.sort((one, other) => one.sequence - other.sequence);
  }

  async function bytesAt(Key: string): Promise<Buffer> {
    const { Body } = await s3.send(new GetObjectCommand({ Bucket: bucket, Key }));
    return Buffer.from((await Body?.transformToByteArray()) ?? []);
  }

  /** The folder of a run without run.json, with one page. */
  async function abandonRun({ manifest }: RunSummary): Promise<string> {
    const folder = dirname(manifest).replace(/run=[^/]*/, 'run=20991231T235959Z-ffffff');
    const CopySource = `${bucket}/${prefix}${dirname(manifest)}/${firstPage}`;
    await s3.send(new CopyObjectCommand({ Bucket: bucket, Key: `${prefix}${folder}/${firstPage}`, CopySource }));
    return folder;
  }

  const lineOf = ({ run, pages }: RunSummary) => `run ${run}: ${pages} pages\n`;
  const programs = [
    ['shell/catch-up.sh', ['bash', recipe('shell/catch-up.sh')], hasJq],
    ['node/catch-up.ts', ['node', recipe('node/catch-up.ts')], true],
  ] as const;

  describe.each(programs)('%s', (_, command, isPossible) => {
    it.skipIf(!isPossible)('copies the published runs in order, each once, and verifies them', async () => {
      await using service = await openService(3);
      const folder = await aFolder();
      const copy = join(folder, 'copy');
      const copyRuns = async (exportName = 'nightly') =>
        (await runAs(reader, folder, [...command, `s3://${bucket}/${prefix}`, exportName, copy])).stdout;

      await completeRun();
      const before = await publishedRuns();
      await abandonRun(before[0] as RunSummary);
      expect(await copyRuns()).toBe(before.map(lineOf).join(''));
      expect(await copyRuns()).toBe('');

      service.addReports(4, 5);
      const [second, third] = [await completeRun(), await completeRun()];
      // A page of the second run is damaged. It is not copied, and neither is the run after it.
      const damaged = `${prefix}${dirname(second.manifest)}/${firstPage}`;
      const original = await bytesAt(damaged);
      await s3.send(new PutObjectCommand({ Bucket: bucket, Key: damaged, Body: '<reports/>' }));
      await expect(copyRuns()).rejects.toThrow(firstPage);
      expect(await runsIn(copy)).toEqual(before.map(({ run }) => `run=${run}`).sort());
      await s3.send(new PutObjectCommand({ Bucket: bucket, Key: damaged, Body: original }));
      expect(await copyRuns()).toBe(lineOf(second) + lineOf(third));

      for (const run of [...before, second, third]) {
        const folder = dirname(run.manifest);
        const names = await readdir(join(copy, folder));
        expect(names).toHaveLength(run.pages + 2);
        for (const name of names) {
          expect(await readFile(join(copy, folder, name))).toEqual(await bytesAt(`${prefix}${folder}/${name}`));
        }
      }
      expect(JSON.parse(await readFile(join(copy, 'nightly/latest.json'), 'utf8'))).toEqual(
        JSON.parse((await bytesAt(`${prefix}nightly/latest.json`)).toString()),
      );
      // Readers of one export are denied access to another, which must not look like an export without runs.
      await expect(copyRuns('weekly')).rejects.toThrow(/AccessDenied|Access Denied/);
    });
  });

  it.skipIf(!hasJq)('shell/process-runs.sh processes each run once, in order', async () => {
    await using _ = await openService(3);
    const folder = await aFolder();
    const command = ['bash', recipe('shell/process-runs.sh'), 'nightly', '--stack', stackName];
    const processRuns = async () => (await runAs(commandReader, folder, command)).stdout;
    const processed = async () => (await readdir(folder)).filter((name) => name.endsWith('.pages')).sort();

    const first = await completeRun();
    await abandonRun(first);
    const before = await publishedRuns();
    expect(await processRuns()).toBe('');
    expect(await processed()).toEqual(before.map(({ run }) => `${run}.pages`).sort());

    await rm(join(folder, `${first.run}.pages`));
    const second = await completeRun();
    expect(await processRuns()).toBe('');
    expect(await processed()).toEqual(
      [...before.filter(({ run }) => run !== first.run), second].map(({ run }) => `${run}.pages`).sort(),
    );
    expect(await readFile(join(folder, 'last-nightly'), 'utf8')).toBe(`${second.sequence}\n`);
  });
});

/** The names of the folders of the runs in a copy. */
async function runsIn(copy: string): Promise<string[]> {
  const days = await readdir(join(copy, 'nightly'));
  const runs = await Promise.all(
    days.filter((day) => day.startsWith('date=')).map((day) => readdir(join(copy, 'nightly', day))),
  );
  return runs.flat().sort();
}
