/**
 * A cursor is opaque (docs/service-contract.md, section 2.2): whatever it contains, it returns to the service unchanged, in the
 * query or the body, through either store and either page log, and even if a process dies between the two writes, so that the
 * next one knows it from the store alone. A cursor that no header may contain is rejected.
 */

import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { createDynamoPageLog } from '../../lib/aws/dynamodb/page-log.ts';
import { createS3Client } from '../../lib/aws/s3/client.ts';
import { createS3PageStore } from '../../lib/aws/s3/page-store.ts';
import { systemRuntime } from '../../lib/core/clock.ts';
import { ExportError } from '../../lib/core/errors.ts';
import type { PageEntry } from '../../lib/core/model.ts';
import type { PageLog, PageStore, StepDependencies } from '../../lib/core/ports.ts';
import { interpretExecution } from '../../lib/local/interpreter.ts';
import { createSqlitePageLog } from '../../lib/local/sqlite/page-log.ts';
import { startLocalAws } from '../support/aws/local-aws.ts';
import { anExportDefinition, anExportRequest, collect } from '../support/builders.ts';
import { directoryStore } from '../support/export/directory-store.ts';
import type { Manifest } from '../support/export/export-bench.ts';
import { rawAnswer, startRawServer } from '../support/service/raw-server.ts';
import { clientFor, failureOf, pageRequest } from '../support/service/service-client.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

/** As many as there are ways to be mistaken for something else on the way. */
const cursors = [
  '1588888888888,550e8400-e29b-41d4-a716-446655440000',
  'no-comma',
  ',',
  '%',
  '%2C',
  'a%2Cb,%25%00%0d%0a',
  '+a+b&c=d#e?f;g/h:i@j',
  'a b',
  'a  b   c',
  '"quoted", "twice"',
  "it's; DROP TABLE pages;--",
  'back\\slash \\u0000 \\n \\"',
  '=?UTF-8?Q?=C3=A9?=',
  '<&amp;>]]>',
  '{"cursor":null}',
  'null',
  '0',
  '__proto__',
  '../../../etc/passwd',
  '$(jndi:x) $(x) `x` %s {0}',
  '~!*()[]{}|^',
  'c'.repeat(800),
  'c'.repeat(801),
  `${'d'.repeat(2_000)},${'%2C"e\\'.repeat(300)}`,
  'e'.repeat(4_096),
  'f'.repeat(12_000),
];

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

interface World extends AsyncDisposable {
  readonly store: PageStore;
  readonly log: PageLog;
  /** What a reader finds at `key`. */
  readonly read: (key: string) => Promise<string>;
}

async function onAws(): Promise<World & { readonly objects: Awaited<ReturnType<typeof startLocalAws>>['objects'] }> {
  const aws = await startLocalAws();
  for (const [name, value] of Object.entries(aws.env)) vi.stubEnv(name, value);
  const { objects, table } = aws;
  const dynamo = new DynamoDBClient({});
  const s3 = createS3Client(aws.env);
  return {
    objects,
    store: createS3PageStore({ client: s3, bucket: 'bucket', prefix: 'all/', runtime: systemRuntime }),
    log: createDynamoPageLog({ client: dynamo, table, runtime: systemRuntime }),
    read: async (key) => objects.get(`bucket/all/${key}`)?.body.toString() ?? '',
    async [Symbol.asyncDispose]() {
      dynamo.destroy();
      s3.destroy();
      await aws[Symbol.asyncDispose]();
    },
  };
}

async function onThisMachine(): Promise<World> {
  const directory = await temporaryDirectory();
  const store = directoryStore(directory.path);
  const log = createSqlitePageLog(join(directory.path, 'state.sqlite'));
  return {
    store,
    log,
    read: (key) => readFile(join(directory.path, key), 'utf8'),
    async [Symbol.asyncDispose]() {
      log.close();
      store.close();
      await directory.remove();
    },
  };
}

/** The log of an execution that dies, once for each page, when the page lies in the store and is about to be logged. */
function dyingBeforeEachPageIsLogged(log: PageLog): PageLog {
  const died = new Set<number>();
  return {
    ...log,
    async append(entry) {
      if (died.has(entry.page)) return log.append(entry);
      died.add(entry.page);
      throw new ExportError('ConfigurationError', 'killed');
    },
  };
}

/** Hands out one cursor after the other, to whoever brings back the one before; `brought` is what came, as it came. */
function serviceHandingOut() {
  const brought: (string | null)[] = [];
  const answer = (target: string, body: string) => {
    const inBody = (JSON.parse(body) as { cursor?: string }).cursor;
    const [, inQuery] = /\?cursor=(.*)$/.exec(target) ?? [];
    const cursor = inQuery === undefined ? (inBody ?? null) : decodeURIComponent(inQuery);
    brought.push(cursor);
    const page = cursor === null ? 0 : cursors.indexOf(cursor) + 1;
    const next = cursors[page];
    return rawAnswer({
      ...(cursor !== null && page === 0 ? { status: 404 } : {}),
      body: `<reports><report page="${page + 1}"/></reports>`,
      headers: next === undefined ? {} : { 'x-service-cursor': next },
    });
  };
  return { brought, answer };
}

async function walk(world: World, cursorIn: 'query' | 'body') {
  const service = serviceHandingOut();
  await using server = await startRawServer((socket, { target, body }) => {
    socket.write(service.answer(target, body));
  });
  await using client = clientFor(server, { cursorIn });
  const definition = anExportDefinition({ request: anExportRequest({ source: 'test' }) });
  const deps: StepDependencies = {
    definition,
    service: client,
    store: world.store,
    log: dyingBeforeEachPageIsLogged(world.log),
    executions: { isRunning: async () => false },
    runtime: systemRuntime,
    emit: () => {},
  };
  const execute = (nth: number) => interpretExecution(deps, { name: `walk-${nth}`, input: {} }, { pauseSeconds: 0 });
  let end = await execute(0);
  for (let nth = 1; nth <= cursors.length + 1 && end.status !== 'completed'; nth += 1) end = await execute(nth);
  if (end.status !== 'completed') throw new Error(JSON.stringify(end));
  const entries = await collect(world.log.entries({ export: definition.name, run: end.result.run }));
  const manifest = JSON.parse(await world.read(end.result.manifest)) as Manifest;
  return { entries, manifest, brought: service.brought };
}

function expectEachCursorKept({ entries, manifest, brought }: Awaited<ReturnType<typeof walk>>): void {
  expect(entries.map(({ nextCursor }) => nextCursor)).toEqual([...cursors, null]);
  expect(entries.map(({ cursor }) => cursor)).toEqual([null, ...cursors]);
  expect(manifest.pages.map(({ cursor }) => cursor)).toEqual([null, ...cursors]);
  // Some pages were asked for twice, as the store held only a hash of what they name; none with another cursor.
  expect([...new Set(brought)]).toEqual([null, ...cursors]);
}

afterEach(() => {
  vi.unstubAllEnvs();
});

describe('a cursor, whatever it is made of', () => {
  it.each(['query', 'body'] as const)(
    'comes back as it was handed out, by way of S3, DynamoDB and the %s',
    async (route) => {
      await using world = await onAws();
      const walked = await walk(world, route);
      expectEachCursorKept(walked);

      const whole = ({ nextCursor }: PageEntry) =>
        nextCursor !== null && nextCursor.length <= 800 && !/ {2}|=\?/.test(nextCursor);
      for (const entry of walked.entries) {
        const headers = world.objects.get(`bucket/all/${entry.key}`)?.headers ?? {};
        expect(headers['x-amz-meta-next-cursor']).toBe(whole(entry) ? entry.nextCursor : undefined);
        expect(headers['x-amz-meta-next-cursor-sha256']).toBe(
          whole(entry) || entry.nextCursor === null ? undefined : sha256(entry.nextCursor),
        );
      }
      const hashed = walked.entries.filter((entry) => entry.nextCursor !== null && !whole(entry));
      expect(walked.brought).toHaveLength(cursors.length + 1 + hashed.length);
      expect(hashed.length).toBeGreaterThan(4);
    },
  );

  it.each(['query', 'body'] as const)(
    'comes back as it was handed out, by way of files, SQLite and the %s',
    async (route) => {
      await using world = await onThisMachine();
      const walked = await walk(world, route);
      expectEachCursorKept(walked);
      expect(walked.brought).toEqual([null, ...cursors]);
    },
  );
});

describe('a cursor that no header should hold', () => {
  it.each([
    ['a line feed', 'a\nb'],
    ['a carriage return', 'a\rb'],
    ['a line of its own', 'a\r\nb'],
    ['a second cursor behind a line break', 'a\r\nx-service-cursor: b'],
    ['a folded line', 'a\r\n b'],
    ['a nought', 'a\0b'],
    ['an escape', 'a\x1b[2Jb'],
    ['a delete', 'a\x7fb'],
    ['a tab', 'a\tb'],
    ['Latin-1', 'caf\xe9'],
    ['UTF-8', Buffer.from('café').toString('latin1')],
    ['nothing', ''],
    ['nothing but blanks', ' \t '],
    ['more than all headers may', 'c'.repeat(17_000)],
  ])('is refused: %s', async (_, cursor) => {
    await using server = await startRawServer(rawAnswer({ headers: { 'x-service-cursor': cursor } }));
    await using client = clientFor(server);
    expect(await failureOf(client.fetchPage(pageRequest()))).toMatchObject({ name: 'ContractError' });
  });
});
