/**
 * A cursor is opaque (docs/service-contract.md, section 2.2): whatever it contains, it returns to the service
 * unchanged, in the query or the body, with either store and either page log, also if a process dies between the two
 * writes of a page and the next one knows the cursor only from the store.
 */

import { decodeText } from '../../lib/service/api/next/cursor-text.ts';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { S3Client } from '@aws-sdk/client-s3';
import { describe, expect, it } from 'vitest';
import { createDynamoPageLog } from '../../lib/aws/dynamodb/page-log.ts';
import { createS3PageStore } from '../../lib/aws/s3/page-store.ts';
import { systemRuntime } from '../../lib/core/clock.ts';
import { ExportError } from '../../lib/core/errors.ts';
import type { PageEntry, PageMetadata } from '../../lib/core/model.ts';
import type { PageLog, PageStore, StepDependencies } from '../../lib/core/ports.ts';
import { runExecution } from '../../lib/local/execution.ts';
import { createFakeAws, type FakeAws } from '../support/aws/fake-aws.ts';
import { anExportDefinition, anExportRequest, loggedPages } from '../support/builders.ts';
import type { Manifest } from '../support/export/export-bench.ts';
import { rawResponse, startRawServer } from '../support/service/raw-server.ts';
import { clientFor } from '../support/service/service-client.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { createSqlitePageLog, directoryStore } from '../support/export/directory-store.ts';

/** Each could be mistaken for something else by one of the encodings on its way. */
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
  'c'.repeat(600),
  'c'.repeat(701),
  `${'d'.repeat(2_000)},${'%2C"e\\'.repeat(300)}`,
  'e'.repeat(4_096),
  'f'.repeat(12_000),
];

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

interface Storage extends AsyncDisposable {
  readonly store: PageStore;
  readonly log: PageLog;
  /** The content of the object at `key`, as a consumer reads it. */
  readonly read: (key: string) => Promise<string>;
}

async function awsStorage(): Promise<Storage & { readonly aws: FakeAws }> {
  const aws = createFakeAws();
  const client = aws.createClient<S3Client, object>(S3Client, {});
  const dynamo = aws.createClient<DynamoDBClient, object>(DynamoDBClient, {});
  return {
    aws,
    store: createS3PageStore({ client, bucket: 'bucket', prefix: 'all/', runtime: systemRuntime }),
    log: createDynamoPageLog({ client: dynamo, table: aws.table, service: 'default', runtime: systemRuntime }),
    read: async (key) => aws.bucket('bucket').objects.get(`all/${key}`)?.body.toString() ?? '',
    async [Symbol.asyncDispose]() {},
  };
}

async function directoryStorage(): Promise<Storage> {
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

/** A page log whose execution fails once for each page, after the page was stored and before it is logged. */
function failingBeforeEachEntry(log: PageLog): PageLog {
  const failed = new Set<number>();
  return {
    ...log,
    async append(entry) {
      if (failed.has(entry.page)) return log.append(entry);
      failed.add(entry.page);
      throw new ExportError('ConfigurationError', 'killed');
    },
  };
}

/** Returns one cursor after another, each in response to the one before. `received` lists the requested cursors. */
function cursorService() {
  const received: (string | null)[] = [];
  const respond = (target: string, body: string) => {
    const inBody = (JSON.parse(body) as { cursor?: string }).cursor;
    const [, inQuery] = /\?cursor=(.*)$/.exec(target) ?? [];
    const cursor = inQuery === undefined ? (inBody ?? null) : decodeURIComponent(inQuery);
    received.push(cursor);
    const page = cursor === null ? 0 : cursors.indexOf(cursor) + 1;
    const next = cursors[page];
    return rawResponse({
      ...(cursor !== null && page === 0 ? { status: 404 } : {}),
      body: `<reports><report page="${page + 1}"/></reports>`,
      headers: next === undefined ? {} : { 'x-service-cursor': next },
    });
  };
  return { received, respond };
}

async function exportAll(storage: Storage, cursorIn: 'query' | 'body') {
  const service = cursorService();
  await using server = await startRawServer((socket, { target, body }) => {
    socket.write(service.respond(target, body));
  });
  await using client = clientFor(server, { cursorIn });
  const definition = anExportDefinition({ request: anExportRequest({ source: 'test' }) });
  const deps: StepDependencies = {
    definition,
    service: client,
    store: storage.store,
    log: failingBeforeEachEntry(storage.log),
    executions: { status: async () => 'unknown' as const },
    runtime: systemRuntime,
    emit: () => {},
  };
  const execute = (number: number) => runExecution(deps, { name: `execution-${number}`, input: {} });
  let end = await execute(0);
  for (let number = 1; number <= cursors.length + 1 && end.status !== 'completed'; number += 1) {
    end = await execute(number);
  }
  if (end.status !== 'completed') throw new Error(JSON.stringify(end));
  const entries = await loggedPages(storage.log, { export: definition.name, run: end.result.run });
  const manifest = JSON.parse(await storage.read(end.result.manifest ?? '')) as Manifest;
  return { entries, manifest, received: service.received };
}

function expectAllCursorsUnchanged({ entries, manifest, received }: Awaited<ReturnType<typeof exportAll>>): void {
  const textOf = (cursor: string | null) => (cursor === null ? null : decodeText(cursor));
  expect(entries.map(({ nextCursor }) => textOf(nextCursor))).toEqual([...cursors, null]);
  expect(entries.map(({ cursor }) => textOf(cursor))).toEqual([null, ...cursors]);
  expect(manifest.pages.map(({ cursor }) => textOf(cursor))).toEqual([null, ...cursors]);
  // Although each page was stored by an attempt that failed, none was requested twice, except for page 1: a run without
  // a logged page is replaced by the next start.
  expect(received).toEqual([null, null, ...cursors]);
}

describe('a cursor, whatever it contains', () => {
  it('returns unchanged by way of S3, DynamoDB and the query', async () => {
    await using storage = await awsStorage();
    const { objects } = storage.aws.bucket('bucket');
    const exported = await exportAll(storage, 'query');
    expectAllCursorsUnchanged(exported);

    const isStoredWhole = ({ nextCursor }: PageEntry) =>
      nextCursor !== null && JSON.stringify(nextCursor).length <= 500 && !/ {2}|=\?/.test(nextCursor);
    for (const entry of exported.entries) {
      const { metadata = {} } = objects.get(`all/${entry.key}`) ?? {};
      const { nextCursor } = JSON.parse(metadata.page ?? '') as PageMetadata;
      const isWhole = entry.nextCursor === null || isStoredWhole(entry);
      expect(nextCursor).toEqual(isWhole ? entry.nextCursor : { sha256: sha256(entry.nextCursor) });
    }
    const hashed = exported.entries.filter((entry) => entry.nextCursor !== null && !isStoredWhole(entry));
    expect(hashed.length).toBeGreaterThan(4);
    const inObjects = [...objects].filter(([key]) => key.includes('/_cursors/')).map(([, { body }]) => body.toString());
    expect(inObjects.toSorted()).toEqual(hashed.map(({ nextCursor }) => String(nextCursor)).toSorted());
  });

  it('returns unchanged by way of files, SQLite and the body', async () => {
    await using storage = await directoryStorage();
    const exported = await exportAll(storage, 'body');
    expectAllCursorsUnchanged(exported);
    expect(exported.entries).toHaveLength(cursors.length + 1);
  });
});
