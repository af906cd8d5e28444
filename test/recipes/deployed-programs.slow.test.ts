/** The functions in docs/recipes/aws, with an S3 and a queue that fail as those of AWS do. */

import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { runInThisContext } from 'node:vm';
import { gunzipSync, gzipSync } from 'node:zlib';
import { NoSuchKey, NotFound, S3Client } from '@aws-sdk/client-s3';
import { SQSClient } from '@aws-sdk/client-sqs';
import { mockClient } from 'aws-sdk-client-mock';
import { build, type BuildOptions } from 'esbuild';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { createStoredObject, s3Error } from '../simulation/world/s3.ts';
import { createFakeAws } from '../support/aws/fake-aws.ts';
import { sha256Of } from '../support/builders.ts';
import { recipe } from '../support/docs/recipes.ts';

const run = {
  runVersion: 1,
  export: 'nightly',
  run: '20261120T010003Z-f59183b2d407',
  sequence: 1_795_136_403,
  since: '2026-11-19T00:45:01Z',
  watermark: '2026-11-20T01:00:02Z',
  startedAt: '2026-11-20T01:00:03Z',
  completedAt: '2026-11-20T01:02:41.207Z',
  serviceStartedAt: '2026-11-20T01:00:02Z',
  serviceCompletedAt: '2026-11-20T01:02:40Z',
  format: 'XML',
  container: 'NONE',
  source: 'https://reports.example.com',
  pages: 3,
  reports: 3,
  bytes: 30,
  manifest: 'nightly/date=2026-11-20/run=20261120T010003Z-f59183b2d407/manifest.json',
};
const folder = dirname(run.manifest);
const plainPages = [1, 2, 3].map((page) => {
  const body = `<r id="${page}"/>`;
  const key = `${folder}/page-00000${page}.xml`;
  return { body, entry: { page, key, reports: 1, bytes: body.length, sha256: sha256Of(body) } };
});
/** The same pages in a run that compresses them. Bodies are text with a character per byte. */
const compressedPages = plainPages.map(({ body, entry }) => {
  const object = gzipSync(body);
  const form = { compression: 'gzip', storedBytes: object.length, storedSha256: sha256Of(object) };
  return { body: object.toString('latin1'), entry: { ...entry, key: `${entry.key}.gz`, ...form } };
});
/** The same pages in a run with two slices, of which the second was started over. */
const slicedPages = plainPages.map(({ body, entry }, index) => {
  const [slice, name] = index === 0 ? [1, '0001-000001'] : [2, `0002.2-00000${index}`];
  const { page, ...rest } = entry;
  return { body, entry: { page, slice, ...rest, key: `${folder}/page-${name}.xml` } };
});
const keys = plainPages.map(({ entry }) => entry.key);
const detail = {
  eventVersion: 1,
  export: run.export,
  execution: 'arn:aws:states:us-east-1:123456789012:execution:Exports:nightly',
  result: run,
};

type AnyCommand = { readonly input: object };
/** Answers a command instead of AWS, or throws its error, or returns undefined. */
type Interception = (name: string, command: AnyCommand) => unknown;

/** AWS with the run in the bucket `source`, and an empty bucket `copies`. */
function openAws(
  intercept: Interception = () => undefined,
  pages: typeof plainPages | typeof compressedPages = plainPages,
) {
  const manifest = `{\n  "manifestVersion": 1,\n  "pages": [\n${pages.map(({ entry }) => `    ${JSON.stringify(entry)}`).join(',\n')}\n  ]\n}\n`;
  const aws = createFakeAws();
  const commands: string[] = [];
  const s3 = mockClient(S3Client);
  const sqs = mockClient(SQSClient);
  onTestFinished(() => {
    s3.restore();
    sqs.restore();
  });
  const respond = async (command: AnyCommand) => {
    const name = nameOf(command);
    commands.push(name);
    return (await intercept(name, command)) ?? (await aws.send(S3Client, command).catch(throwModeled));
  };
  s3.send.callsFake(async (command) => (await respond(command as AnyCommand)) as never);
  sqs.send.callsFake(async (command) => (await respond(command as AnyCommand)) as never);
  const split = (path: string) => [path.split('/')[0] ?? '', path.split('/').slice(1).join('/')] as const;
  const put = (path: string, content: string) => {
    const [bucket, key] = split(path);
    aws.bucket(bucket).restore(key, createStoredObject(Buffer.from(content, 'latin1'), {}, false));
  };
  put(`source/p/${run.manifest}`, manifest);
  put(`source/p/${folder}/run.json`, JSON.stringify(run));
  for (const { entry, body } of pages) put(`source/p/${entry.key}`, body);
  return {
    put,
    /** One character per byte. */
    read(path: string) {
      const [bucket, key] = split(path);
      return aws.bucket(bucket).objects.get(key)?.body.toString('latin1');
    },
    keysIn: (bucket: string) => [...aws.bucket(bucket).objects.keys()],
    commands,
  };
}

/** `PutObject copies/nightly/latest.json`. */
function nameOf(command: AnyCommand): string {
  const { Bucket = '', Key = '' } = command.input as { readonly Bucket?: string; readonly Key?: string };
  return `${command.constructor.name.replace('Command', '')} ${Bucket}/${Key}`;
}

/** The SDK has classes for these two errors. */
function throwModeled(error: unknown): never {
  const { name, message } = error as Error;
  const details = { message, $metadata: {} };
  throw name === 'NotFound' ? new NotFound(details) : name === 'NoSuchKey' ? new NoSuchKey(details) : error;
}

/** Calls the handler of a recipe with an event. */
const invoke = async (program: string, event: object = detail): Promise<unknown> =>
  await call(program, 'handler', { detail: event });

/** Calls a function of a recipe, as NodejsFunction bundles it. */
async function call(program: string, handler: string, payload: object): Promise<unknown> {
  const options = {
    bundle: true,
    platform: 'node' as const,
    format: 'cjs' as const,
    write: false as const,
    external: ['@aws-sdk/*'],
  } satisfies BuildOptions;
  // The package is this repository.
  const alias = { 'report-exporter/schemas': join(import.meta.dirname, '../../docs/schemas') };
  const { outputFiles } = await build({ ...options, alias, entryPoints: [recipe(program)] });
  const variables = { BUCKET: 'source', PREFIX: 'p/', COPIES: 'copies', RESULTS: 'results', QUEUE: 'pages' };
  for (const [name, value] of Object.entries({ ...variables, AWS_REGION: 'us-east-1' })) vi.stubEnv(name, value);
  onTestFinished(() => void vi.unstubAllEnvs());
  const module = { exports: {} as Record<string, (event: object) => Promise<unknown>> };
  const require = createRequire(import.meta.url);
  runInThisContext(`(module, exports, require) => {${outputFiles[0]?.text}}`)(module, module.exports, require);
  return await module.exports[handler]?.(payload);
}

it.each(['aws/copy-run.ts', 'aws/send-pages.ts'])('%s rejects an event with an unknown version', async (program) => {
  const aws = openAws();
  await expect(invoke(program, { ...detail, eventVersion: 2 })).rejects.toThrow(
    'Unknown format: event/eventVersion must be equal to constant',
  );
  expect(aws.commands).toEqual([]);
});

describe('the function that copies runs', () => {
  it('copies a page again after 409 and 503', async () => {
    const failures = [s3Error('ConditionalRequestConflict', 409), s3Error('SlowDown', 503)];
    const server = openAws((name) => {
      const failure = name === `PutObject copies/${keys[1]}` ? failures.shift() : undefined;
      if (failure !== undefined) throw failure;
    });
    expect(await invoke('aws/copy-run.ts')).toEqual([run.run]);
    expect(failures).toEqual([]);
    for (const { entry, body } of plainPages) expect(server.read(`copies/${entry.key}`)).toBe(body);
    expect(server.keysIn('copies')).toContain(`tables/runs/nightly-${run.run}.json`);
    expect(server.keysIn('copies')).toContain('nightly/latest.json');
  });

  it('copies the pages of slices that the manifest names, and does not read those that are copied', async () => {
    const server = openAws(undefined, slicedPages);
    server.put(`source/p/${folder}/page-000002-000001.xml`, 'of the first attempt');
    const [first] = slicedPages;
    server.put(`copies/${first?.entry.key}`, first?.body ?? '');
    expect(await invoke('aws/copy-run.ts')).toEqual([run.run]);
    const copied = server.keysIn('copies').filter((key) => key.startsWith(`${folder}/page-`));
    expect(copied.sort()).toEqual(slicedPages.map(({ entry }) => entry.key));
    const read = slicedPages.filter(({ entry }) => server.commands.includes(`GetObject source/p/${entry.key}`));
    expect(read).toEqual(slicedPages.slice(1));
  });

  it('copies the list of parents without pages, which S3 verifies, before the manifest', async () => {
    const server = openAws();
    const list = '{"slice":4,"parent":"a/b","reason":"gone","status":404}\n';
    const missing = {
      key: `${folder}/missing-parents-0123456789ab.ndjson`,
      bytes: list.length,
      sha256: sha256Of(list),
    };
    const version = '"manifestVersion": 1,\n';
    const manifest = server.read(`source/p/${run.manifest}`) ?? '';
    const parents = JSON.stringify({ parents: { count: 4, missing } }, null, 2).slice(2, -2);
    server.put(`source/p/${run.manifest}`, manifest.replace(version, `${version}${parents},\n`));
    server.put(`source/p/${missing.key}`, list.replace('404', '410'));
    await expect(invoke('aws/copy-run.ts')).rejects.toThrow(`Cannot copy ${missing.key}`);
    expect(server.keysIn('copies')).not.toContain(run.manifest);
    server.put(`source/p/${missing.key}`, list);
    expect(await invoke('aws/copy-run.ts')).toEqual([run.run]);
    expect(server.read(`copies/${missing.key}`)).toBe(list);
  });

  it('copies each run of a replica once, bounded ones included, whatever their order and their days', async () => {
    const server = openAws(undefined, slicedPages);
    const text = server.read(`source/p/${run.manifest}`) ?? '';
    /** A copy of the run in another folder. */
    const add = (id: string, overrides: object, name = 'run.json') => {
      const moved = `nightly/date=${id.replace(/^(....)(..)(..).*/, '$1-$2-$3')}/run=${id}`;
      const summary = { ...run, run: id, manifest: `${moved}/manifest.json`, ...overrides };
      server.put(`source/p/${moved}/${name}`, JSON.stringify(summary));
      server.put(`source/p/${summary.manifest}`, text.replaceAll(folder, moved));
      for (const { entry, body } of slicedPages) server.put(`source/p/${entry.key.replace(folder, moved)}`, body);
      return `${moved}/${name}`;
    };
    const copy = async () => await invoke('aws/copy-run.ts');
    const latest = () => server.read('copies/nightly/latest.json');
    const ahead = '20270601T010003Z-aaaaaaaaaaaa';
    add(ahead, { sequence: run.sequence + 1 });
    expect(await copy()).toEqual([run.run, ahead]);
    const [late, behind, bounded] = [
      '20261101T010003Z-bbbbbbbbbbbb',
      '20260101T010003Z-cccccccccccc',
      '20261120T020000Z-dddddddddddd',
    ];
    add(late, { sequence: run.sequence - 1 });
    add(behind, { sequence: run.sequence + 2 });
    const bounds = { bounded: true, until: '2026-11-19T12:00:00Z', watermark: null };
    const summary = add(bounded, { ...bounds, sequence: run.sequence + 3 }, 'bounded.json');
    expect(await copy()).toEqual([late, behind, bounded]);
    expect(latest()).toContain(`"run":"${behind}"`);
    expect(server.keysIn('copies')).toContain(summary);
    expect(await copy()).toEqual([]);
  });
});

describe('the function that processes pages', () => {
  it.each([
    ['pages', plainPages],
    ['compressed pages', compressedPages],
  ] as const)('verifies %s, and has one result for each', async (_, pages) => {
    const server = openAws(undefined, pages);
    const process = (...entries: readonly object[]) => {
      const Records = entries.map((entry, index) => ({ messageId: `m${index}`, body: JSON.stringify(entry) }));
      return call('aws/process-pages.ts', 'fromQueue', { Records });
    };
    expect(await process(...pages.map(({ entry }) => entry))).toEqual({ batchItemFailures: [] });
    for (const [index, { entry }] of pages.entries()) {
      const body = plainPages[index]?.body;
      const key = entry.key.replace(/\.gz$/, '');
      const result = Buffer.from(server.read(`results/${key}.gz`) ?? '', 'latin1');
      expect(gunzipSync(result).toString()).toBe(body);
    }
    const [first, second] = pages;
    const error = vi.spyOn(console, 'error').mockReturnValue();
    const damaged = { ...first?.entry, sha256: '0'.repeat(64) };
    expect(await process(damaged, second?.entry ?? {})).toEqual({ batchItemFailures: [{ itemIdentifier: 'm0' }] });
    expect(String(error.mock.lastCall)).toContain(`${first?.entry.key} does not match its manifest`);
    error.mockRestore();
  });
});

it('the function that sends pages to a queue sends only the messages again that the queue did not accept', async () => {
  const batches: number[][] = [];
  openAws((name, { input }) => {
    if (!name.startsWith('SendMessageBatch')) return undefined;
    const { Entries } = input as { readonly Entries: readonly { readonly Id: string }[] };
    batches.push(Entries.map(({ Id }) => Number(Id)));
    return batches.length > 1 ? {} : { Failed: [{ Id: Entries[0]?.Id, SenderFault: false, Code: 'InternalError' }] };
  });
  await invoke('aws/send-pages.ts');
  expect(batches).toEqual([[1, 2, 3], [1]]);
});
