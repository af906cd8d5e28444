/** The functions in docs/recipes/aws, against a server that fails like S3 and SQS do. */

import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { gunzipSync, gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createS3 } from '../support/aws/local-s3.ts';
import { sha256Of } from '../support/builders.ts';
import { listen } from '../support/service/loopback.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
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

interface Answer {
  readonly status?: number;
  readonly body: string;
  readonly type?: string;
}
/** Answers a request instead of the server, or not. */
type Interception = (request: IncomingMessage) => Answer | undefined | Promise<Answer | undefined>;

/** A server with the run in the bucket `source`, and an empty bucket `copies`. */
async function openServer(
  intercept: Interception = () => undefined,
  pages: typeof plainPages | typeof compressedPages = plainPages,
) {
  const manifest = `{\n  "manifestVersion": 1,\n  "pages": [\n${pages.map(({ entry }) => `    ${JSON.stringify(entry)}`).join(',\n')}\n  ]\n}\n`;
  const requests: string[] = [];
  const s3 = createS3();
  const respond = async (request: IncomingMessage, response: ServerResponse) => {
    requests.push(nameOf(request));
    const answer = await intercept(request);
    if (answer === undefined) return await s3.respond(request, response);
    const { status = 200, body, type = 'application/xml' } = answer;
    request.resume();
    response.writeHead(status, { 'content-type': type }).end(body);
  };
  const server = await listen(createServer((request, response) => void respond(request, response)));
  onTestFinished(server[Symbol.asyncDispose]);
  const put = (path: string, content: string) => {
    const body = Buffer.from(content, 'latin1');
    s3.objects.set(path, { body, bytes: body.length, headers: {}, etag: `"${sha256Of(body).slice(0, 32)}"` });
  };
  put(`source/p/${run.manifest}`, manifest);
  put(`source/p/${folder}/run.json`, JSON.stringify(run));
  for (const { entry, body } of pages) put(`source/p/${entry.key}`, body);
  return {
    ...s3,
    put,
    /** One character per byte. */
    read: (path: string) => s3.objects.get(path)?.body.toString('latin1'),
    requests,
    endpoint: server.url,
  };
}

const nameOf = ({ method, url = '' }: IncomingMessage) =>
  `${method} ${decodeURIComponent(new URL(url, 'http://localhost').pathname)}`;

const failure = (status: number, code: string): Answer => ({
  status,
  body: `<Error><Code>${code}</Code><Message>${code}</Message></Error>`,
});

/** Calls the handler of a recipe with an event. @throws Error with its output if it fails */
const invoke = async (program: string, endpoint: string, event: object = detail): Promise<unknown> =>
  await call(program, 'handler', endpoint, { detail: event });

/** The handlers of a recipe as CommonJS, as NodejsFunction bundles them. */
async function bundled(program: string): Promise<string> {
  const options = { bundle: true, platform: 'node', format: 'cjs', write: false } as const;
  // The package is this repository.
  const alias = { 'report-exporter/schemas': join(import.meta.dirname, '../../docs/schemas') };
  const { outputFiles } = await build({ ...options, alias, entryPoints: [recipe(program)] });
  return outputFiles[0]?.text ?? '';
}

async function call(program: string, handler: string, endpoint: string, payload: object): Promise<unknown> {
  await using folder = await temporaryDirectory();
  const script = join(folder.path, 'index.cjs');
  const run = `module.exports.${handler}(${JSON.stringify(payload)})`;
  await writeFile(
    script,
    `${await bundled(program)}
    ${run}.then((result) => console.log(JSON.stringify(result ?? null)));`,
  );
  const { stdout } = await promisify(execFile)(process.execPath, [script], {
    env: {
      PATH: process.env.PATH,
      AWS_ENDPOINT_URL: endpoint,
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'key',
      AWS_SECRET_ACCESS_KEY: 'secret',
      NO_PROXY: '127.0.0.1',
      BUCKET: 'source',
      PREFIX: 'p/',
      COPIES: 'copies',
      RESULTS: 'results',
      QUEUE: `${endpoint}/123456789012/pages`,
    },
  });
  return JSON.parse(stdout);
}

it.each(['aws/copy-run.ts', 'aws/send-pages.ts'])('%s rejects an event with an unknown version', async (program) => {
  const server = await openServer();
  await expect(invoke(program, server.endpoint, { ...detail, eventVersion: 2 })).rejects.toThrow(
    'Unknown format: event/eventVersion must be equal to constant',
  );
  expect(server.requests).toEqual([]);
});

describe('the function that copies runs', () => {
  it('copies a page again after 409 and 503', async () => {
    const failures = [failure(409, 'ConditionalRequestConflict'), failure(503, 'SlowDown')];
    const server = await openServer((request) =>
      nameOf(request) === `PUT /copies/${keys[1]}` ? failures.shift() : undefined,
    );
    expect(await invoke('aws/copy-run.ts', server.endpoint)).toEqual([run.run]);
    expect(failures).toEqual([]);
    for (const { entry, body } of plainPages) expect(server.read(`copies/${entry.key}`)).toBe(body);
    expect(server.objects.has(`copies/tables/runs/nightly-${run.run}.json`)).toBe(true);
    expect(server.objects.has('copies/nightly/latest.json')).toBe(true);
  });

  it('copies the pages of slices that the manifest names, and does not read those that are copied', async () => {
    const server = await openServer(undefined, slicedPages);
    server.put(`source/p/${folder}/page-0002-000001.xml`, 'of the first attempt');
    const [first] = slicedPages;
    server.put(`copies/${first?.entry.key}`, first?.body ?? '');
    expect(await invoke('aws/copy-run.ts', server.endpoint)).toEqual([run.run]);
    const copied = [...server.objects.keys()].filter((key) => key.startsWith(`copies/${folder}/page-`));
    expect(copied.sort()).toEqual(slicedPages.map(({ entry }) => `copies/${entry.key}`));
    const read = slicedPages.filter(({ entry }) => server.requests.includes(`GET /source/p/${entry.key}`));
    expect(read).toEqual(slicedPages.slice(1));
  });

  it('copies each run of a replica once, bounded ones included, whatever their order and their days', async () => {
    const server = await openServer(undefined, slicedPages);
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
    const copy = async () => await invoke('aws/copy-run.ts', server.endpoint);
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
    expect(server.objects.has(`copies/${summary}`)).toBe(true);
    expect(await copy()).toEqual([]);
  });

  it('does not repeat a copy that S3 rejects, and publishes nothing of the run', async () => {
    const server = await openServer((request) =>
      nameOf(request) === `PUT /copies/${keys[1]}` ? failure(400, 'BadDigest') : undefined,
    );
    await expect(invoke('aws/copy-run.ts', server.endpoint)).rejects.toThrow(`Cannot copy ${keys[1]}: BadDigest`);
    expect(server.requests.filter((request) => request === `PUT /copies/${keys[1]}`)).toHaveLength(1);
    // Readers see nothing of the run.
    expect(server.requests.filter((request) => /^PUT .*\.json$/.test(request))).toEqual([]);
  });
});

describe('the function that processes pages', () => {
  it.each([
    ['pages', plainPages],
    ['compressed pages', compressedPages],
  ] as const)('verifies %s, and has one result for each', async (_, pages) => {
    const server = await openServer(undefined, pages);
    const process = (...entries: readonly object[]) =>
      call('aws/process-pages.ts', 'fromMap', server.endpoint, { Items: entries });
    await process(...pages.map(({ entry }) => entry));
    for (const [index, { entry }] of pages.entries()) {
      const body = plainPages[index]?.body;
      const key = entry.key.replace(/\.gz$/, '');
      const result = Buffer.from(server.read(`results/${key}.gz`) ?? '', 'latin1');
      expect(gunzipSync(result).toString()).toBe(body);
    }
    const [first] = pages;
    await expect(process({ ...first?.entry, sha256: '0'.repeat(64) })).rejects.toThrow(
      `${first?.entry.key} does not match its manifest`,
    );
  });
});

describe('the function that sends pages to a queue', () => {
  /** A queue that answers the first request with `failed`, and accepts what is sent then. */
  async function openQueue(failed: { readonly SenderFault: boolean; readonly Code: string }) {
    const batches: number[][] = [];
    const server = await openServer(async (request) => {
      if (request.headers['x-amz-target'] !== 'AmazonSQS.SendMessageBatch') return undefined;
      const { Entries } = JSON.parse(await text(request)) as { Entries: { Id: string; MessageBody: string }[] };
      batches.push(Entries.map(({ Id }) => Number(Id)));
      const [first, ...others] = Entries;
      const isFirst = batches.length === 1;
      const Successful = (isFirst ? others : Entries).map(({ Id, MessageBody }) => ({
        Id,
        MessageId: Id,
        MD5OfMessageBody: createHash('md5').update(MessageBody).digest('hex'),
      }));
      const Failed = isFirst ? [{ Id: first?.Id, Message: failed.Code, ...failed }] : [];
      return { body: JSON.stringify({ Successful, Failed }), type: 'application/x-amz-json-1.0' };
    });
    return { batches, endpoint: server.endpoint };
  }

  it('sends only the messages again that the queue did not accept', async () => {
    const { batches, endpoint } = await openQueue({ SenderFault: false, Code: 'InternalError' });
    await invoke('aws/send-pages.ts', endpoint);
    expect(batches).toEqual([[1, 2, 3], [1]]);
  });
});
