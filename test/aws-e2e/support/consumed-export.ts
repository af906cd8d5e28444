/**
 * An export with published runs, for the programs in docs/recipes: of the shared stack, whose pages are compressed, or
 * in a local directory, where those of every second run are. Both are exported for real, and read by a program that has
 * no permissions except those in docs/consumers.md.
 */

import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rename, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { gunzipSync, gzipSync } from 'node:zlib';
import { GetObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import { inject } from 'vitest';
import type { LatestPointer } from '../../../lib/core/model.ts';
import { apiSchema } from '../../../lib/service/api/description.ts';
import type { ApiProps } from '../../../lib/settings/props.ts';
import { type InMemoryReport, inMemoryReports } from '../../support/service/in-memory-reports.ts';
import { startSimulator } from '../../support/service/simulator.ts';
import { exampleIn } from '../../support/docs/doc-pages.ts';
import type { Manifest } from '../../support/export/export-bench.ts';
import { jsonOf, readManifest, runInProcess } from '../../support/process/command-line.ts';
import { credentials, region } from '../emulators/ministack.ts';
import { pythonEnvironment } from '../emulators/python.ts';
import { s3 } from './aws.ts';
import { runExecution } from './executions.ts';
import { apiKey, exporterStack, prefix, vendor } from './exporter-stack.ts';

const workDirectory = inject('workDirectory');
const requirements = join(import.meta.dirname, '../recipes/requirements.txt');

/** For the first test on a machine, which installs the engines, and for engines on a busy machine. */
export const engineTimeoutMs = 600_000;

/** The Python environment with everything that the recipes need. */
export const recipesPython = (): Promise<string> =>
  pythonEnvironment({
    name: 'recipes',
    tools: 'DuckDB',
    requirements,
    neededBy: 'npm run test:aws',
  });

const request = { path: '/events', query: { since: '{since}', until: '{until}', limit: '{size}' } };
const next = { from: 'header', at: 'X-Next', to: { query: 'cursor' } } as const;
/** APIs whose pages have the other formats. Of JSON, the list of reports is inside an object inside another one. */
export const otherFormats: Readonly<Record<'json' | 'ndjson' | 'csv', ApiProps>> = {
  json: {
    request,
    auth: { kind: 'bearer' },
    next: { ...next, from: 'body', at: '/next' },
    page: { format: 'json', reports: '/data/events/*' },
  },
  ndjson: { request, auth: { kind: 'bearer' }, next, page: { format: 'ndjson' } },
  csv: { request, auth: { kind: 'bearer' }, next, page: { format: 'csv' } },
};

export interface ConsumedExport {
  readonly name: string;
  /** Where its keys start: `s3://<bucket>/<prefix>`, or a directory. */
  readonly source: string;
  /** Exports from a service that has exactly these reports. Resolves to the manifest. */
  publish(reports: readonly InMemoryReport[]): Promise<Manifest>;
  /** The text of an object, decompressed. */
  read(key: string): Promise<string>;
  /** Writes an object, compressed if its name says so. */
  write(key: string, text: string): Promise<void>;
  /** Changes the text of an object. Resolves to a function that restores the object, byte for byte. */
  damage(key: string, change: (text: string) => string): Promise<() => Promise<void>>;
  /** The variables with which a program reads it. */
  readonly env: Readonly<Record<string, string>>;
  /** Runs a program that may read this export. @throws Error with the program's output if it fails */
  run(command: string, parameters: readonly string[], options?: ProgramOptions): Promise<string>;
}

interface ProgramOptions {
  readonly env?: Readonly<Record<string, string>> | undefined;
  readonly cwd?: string | undefined;
}

/** A report that is dated now. */
export const reportNow = (id: string, xml = `<r id="${id}" />`): InMemoryReport => ({ id, date: Date.now(), xml });

/** An export of the shared stack, which must have an overlap. */
export async function exportInBucket(name: string): Promise<ConsumedExport> {
  const stack = await exporterStack();
  const machine = stack.stateMachineOf(name);
  const readerVariables = awsVariablesOf(await createReader(stack.bucket, name));
  const Bucket = stack.bucket;
  const objects = accessTo({
    async get(key) {
      const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key: prefix + key }));
      return Buffer.from((await Body?.transformToByteArray()) ?? []);
    },
    async put(key, Body) {
      await s3.send(new PutObjectCommand({ Bucket, Key: prefix + key, Body }));
    },
  });
  return {
    name,
    source: `s3://${Bucket}/${prefix.slice(0, -1)}`,
    ...objects,
    async publish(reports) {
      const port = inject('servicePort');
      await using _ = await startSimulator({ vendor, apiKey, port, reports: inMemoryReports(reports) });
      const { status, cause } = await runExecution(machine);
      if (status !== 'SUCCEEDED') throw new Error(`The execution has ended with ${status}: ${cause}`);
      return await newestManifest(name, objects.read);
    },
    env: readerVariables,
    run: (command, parameters, { env, cwd } = {}) =>
      runProgram(command, parameters, { cwd, env: { ...readerVariables, ...env } }),
  };
}

export interface LocalExport extends ConsumedExport {
  /** With these flags of the command. */
  publish(reports: readonly InMemoryReport[], ...flags: readonly string[]): Promise<Manifest>;
}

/** An export in a new directory, with the same settings. With `api`, of an API that is described like this. */
export async function exportInDirectory(name: string, api?: ApiProps): Promise<LocalExport> {
  const source = await mkdtemp(join(workDirectory, 'consumed-'));
  const objects = accessTo({
    get: (key) => readFile(join(source, key)),
    async put(key, content) {
      await mkdir(dirname(join(source, key)), { recursive: true });
      await writeFile(join(source, key), content);
    },
  });
  let compressesNext = false;
  return {
    name,
    source,
    ...objects,
    async publish(reports, ...flags) {
      const port = inject('servicePort');
      await using simulator = await startSimulator({
        vendor,
        apiKey,
        port,
        reports: inMemoryReports(reports),
        ...(api && { api: apiSchema.parse(api), pageSize: 2 }),
      });
      const settings = join(source, 'settings.json');
      const service = {
        baseUrl: simulator.baseUrl,
        ...(api === undefined ? { vendor, filterUntil: 'date.lt' } : { api }),
      };
      const exports = [{ name, size: 2, since: { overlap: 'P1D' } }];
      const bucket = compressesNext ? { compression: 'gzip' } : {};
      compressesNext = !compressesNext;
      await writeFile(settings, JSON.stringify({ services: { acme: service }, exports, bucket }));
      const ended = await runInProcess(['local', '--out', source, '--settings', settings, ...flags, '--json'], {
        REPORT_EXPORT_API_KEY: apiKey,
      });
      if (ended.status !== 0) throw new Error(ended.stderr);
      return await readManifest(jsonOf(ended).manifest ?? '');
    },
    env: {},
    run: runProgram,
  };
}

interface Objects {
  readonly get: (key: string) => Promise<Buffer>;
  readonly put: (key: string, content: Buffer) => Promise<void>;
}

function accessTo({ get, put }: Objects): Pick<ConsumedExport, 'read' | 'write' | 'damage'> {
  const isCompressed = (key: string) => key.endsWith('.gz');
  const read = async (key: string) => {
    const object = await get(key);
    return (isCompressed(key) ? gunzipSync(object) : object).toString();
  };
  const write = async (key: string, text: string) =>
    await put(key, isCompressed(key) ? gzipSync(text) : Buffer.from(text));
  return {
    read,
    write,
    async damage(key, change) {
      const original = await get(key);
      const text = await read(key);
      const changed = change(text);
      if (changed === text) throw new Error(`Nothing of ${key} was changed`);
      await write(key, changed);
      return async () => await put(key, original);
    },
  };
}

/**
 * Publishes a nightly run, a bounded one in two slices, and a nightly one in slices, each with a higher sequence. As in
 * a replica, the first one has not arrived yet: `arrive` adds it. The reports r1 to r4 are in the runs named here.
 */
export async function publishAllKinds(consumed: LocalExport) {
  const minutesAgo = (minutes: number) => Date.now() - minutes * 60_000;
  const instant = (ms: number) => new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
  const report = (id: string): InMemoryReport => ({ ...reportNow(id), date: minutesAgo(30) });
  const nightly = await consumed.publish(['r1', 'r2', 'r3'].map(report));
  await untilAfter(nightly);
  const bounds = ['--since', instant(minutesAgo(60)), '--until', instant(minutesAgo(5))];
  const slices = ['--parallel', '2', '--slice', 'PT15M'];
  const bounded = await consumed.publish(['r2', 'r3'].map(report), ...bounds, ...slices);
  await untilAfter(bounded);
  const sliced = await consumed.publish(['r3', 'r4'].map(report), '--since', instant(minutesAgo(60)), ...slices);
  const folder = join(consumed.source, dirname(nightly.pages[0]?.key ?? ''));
  const elsewhere = join(consumed.source, '.late');
  await rename(folder, elsewhere);
  const arrive = async () => await rename(elsewhere, folder);
  return { nightly, bounded, sliced, arrive, newest: { r1: nightly, r2: bounded, r3: sliced, r4: sliced } };
}

/** Resolves once a run that begins has a higher sequence, whatever its kind: sequences follow the clock. */
async function untilAfter({ sequence }: Manifest): Promise<void> {
  while (Date.now() / 1000 < Number(sequence) + 1) await sleep(50);
}

/** Adds the folder of an abandoned run, with the first page of `manifest`. Returns the page's key. */
export async function addAbandonedRun(consumed: ConsumedExport, { pages: [page] }: Manifest): Promise<string> {
  const published = page?.key ?? '';
  const key = published.replace(/run=[^/]*/, 'run=20991231T235959Z-ffffffb2d407');
  await consumed.write(key, (await consumed.read(published)).replaceAll('id="', 'id="abandoned-'));
  return key;
}

async function newestManifest(name: string, read: ConsumedExport['read']): Promise<Manifest> {
  const latest: LatestPointer = JSON.parse(await read(`${name}/latest.json`));
  return JSON.parse(await read(latest.manifest));
}

interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

/** Creates a user with exactly the permissions in the consumer guide. */
async function createReader(bucket: string, exportName: string): Promise<Credentials> {
  const policy = exampleIn('docs/consumers.md', 'reader-policy.json')
    .replaceAll('<bucket>', bucket)
    .replaceAll('<prefix>', prefix)
    .replaceAll('<export>', exportName);
  const aws = join(dirname(await pythonEnvironment()), 'aws');
  const iam = async (operation: string, ...parameters: string[]) => {
    const words = ['iam', operation, '--user-name', `reader-of-${exportName}`, '--output', 'json', ...parameters];
    return JSON.parse((await runProgram(aws, words, { env: awsVariablesOf(credentials) })) || 'null');
  };
  await iam('create-user');
  await iam('put-user-policy', '--policy-name', 'read', '--policy-document', policy);
  const { AccessKey } = await iam('create-access-key');
  return { accessKeyId: AccessKey.AccessKeyId, secretAccessKey: AccessKey.SecretAccessKey };
}

function awsVariablesOf({ accessKeyId, secretAccessKey }: Credentials): Record<string, string> {
  const missingFile = join(workDirectory, 'no-such-file');
  return {
    AWS_ENDPOINT_URL: inject('miniStack'),
    AWS_REGION: region,
    AWS_DEFAULT_REGION: region,
    AWS_ACCESS_KEY_ID: accessKeyId,
    AWS_SECRET_ACCESS_KEY: secretAccessKey,
    AWS_CONFIG_FILE: missingFile,
    AWS_SHARED_CREDENTIALS_FILE: missingFile,
    AWS_EC2_METADATA_DISABLED: 'true',
    NO_PROXY: '127.0.0.1',
  };
}

export async function runProgram(
  command: string,
  parameters: readonly string[],
  { env, cwd }: ProgramOptions = {},
): Promise<string> {
  const PATH = [dirname(command), process.env.PATH].join(delimiter);
  const { stdout } = await promisify(execFile)(command, parameters, { cwd, env: { PATH, ...env } });
  return stdout;
}
