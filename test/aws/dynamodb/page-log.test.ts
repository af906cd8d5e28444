import {
  type AttributeValue,
  ConditionalCheckFailedException,
  DynamoDBClient,
  GetItemCommand,
  type GetItemCommandInput,
  PutItemCommand,
  QueryCommand,
  type QueryCommandInput,
} from '@aws-sdk/client-dynamodb';
import { unmarshall } from '@aws-sdk/util-dynamodb';
import { mockClient } from 'aws-sdk-client-mock';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Item, toEntryItem, toStateItem } from '../../../lib/aws/dynamodb/items.ts';
import { createDynamoPageLog } from '../../../lib/aws/dynamodb/page-log.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';
import { asRunId } from '../../../lib/core/model.ts';
import type { PageLog } from '../../../lib/core/ports.ts';
import { checksumOf } from '../../../lib/core/storage/stored-records.ts';
import { editedPageLogContract } from '../../contracts/edited-page-log-contract.ts';
import { pageLogContract } from '../../contracts/page-log-contract.ts';
import { aFullRun, aHead, anExportName, anExportRequest, aPageEntry, aRun, collect } from '../../support/builders.ts';
import { startDynamoDb } from '../../support/local-dynamodb.ts';
import { anyone } from '../endpoint.ts';
import { type DynamoHarness, dynamoHarness } from './dynamodb-harness.ts';

const at = (now: number) => ({ ...systemRuntime, now: () => now });

// Entries of the long run fill more than one answer, which holds 1 MB.
pageLogContract('The DynamoDB page log', aHarness, { manyEntries: 800 });

editedPageLogContract('The DynamoDB page log', aHarness);

async function aHarness(): Promise<DynamoHarness> {
  const server = await startDynamoDb();
  const harness = await dynamoHarness({ endpoint: server.endpoint, ...anyone });
  return {
    ...harness,
    async cleanup() {
      await harness.cleanup();
      await server.close();
    },
  };
}

describe('the DynamoDB page log', () => {
  let harness: DynamoHarness;
  let log: PageLog;
  beforeAll(async () => {
    harness = await aHarness();
    log = harness.log;
  });
  afterAll(async () => await harness.cleanup());

  async function itemAt(pk: string, sk: string): Promise<Record<string, unknown>> {
    const { client, table } = harness;
    const { Item } = await client.send(
      new GetItemCommand({ TableName: table, Key: { pk: { S: pk }, sk: { S: sk } }, ConsistentRead: true }),
    );
    return unmarshall(Item ?? {});
  }

  describe('what a person sees in the table', () => {
    it('a page is an item under its export, with an attribute for each fact, until it expires', async () => {
      const now = Date.UTC(2026, 10, 20, 2);
      const { client, table } = harness;
      const entry = aPageEntry({ page: 7 });
      await createDynamoPageLog({ client, table, runtime: at(now), retentionDays: 30 }).append(entry);

      expect(await itemAt(entry.export, `run#${entry.run}#page#000000000007`)).toEqual({
        pk: entry.export,
        sk: `run#${entry.run}#page#000000000007`,
        ...entry,
        checksum: checksumOf(entry),
        expiresAt: Date.UTC(2026, 11, 20, 2) / 1_000,
      });
    });

    it('pages are kept for 400 days where nothing else is said', async () => {
      const { client, table } = harness;
      const entry = aPageEntry({ page: 1 });
      await createDynamoPageLog({ client, table, runtime: at(0) }).append(entry);
      const { expiresAt } = await itemAt(entry.export, `run#${entry.run}#page#000000000001`);
      expect(expiresAt).toBe(400 * 24 * 3_600);
    });

    it('the head lies beside them and never expires; a filter is the text it will be sent as', async () => {
      const filter = { b: { '': null }, a: [1.5, 1e300] };
      const exportName = anExportName();
      const active = aRun({ export: exportName, request: anExportRequest({ filter }) });
      await log.replaceState(aHead({ export: exportName, active }));

      const item = await itemAt(exportName, 'state');
      expect(item).toMatchObject({
        version: 1,
        active: { run: active.run, request: { filter: JSON.stringify(filter) } },
      });
      expect(item).not.toHaveProperty('expiresAt');
    });
  });

  it('a filter comes back in the order it was written in, as a manifest written twice must have the same bytes', async () => {
    const filter = { z: 1, a: { y: '', b: null }, m: [] };
    const exportName = anExportName();
    const active = aRun({ export: exportName, request: anExportRequest({ filter }) });
    await log.replaceState(aHead({ export: exportName, active }));
    expect(JSON.stringify((await log.exportState(exportName))?.active?.request.filter)).toBe(JSON.stringify(filter));
  });

  it('what is empty stays empty: a failure without a message', async () => {
    const exportName = anExportName();
    const run = aFullRun({ export: exportName });
    const head = aHead({
      export: exportName,
      active: { ...run, lastFailure: { error: 'States.Timeout', message: '', at: run.startedAt } },
    });
    await log.replaceState(head);
    expect(await log.exportState(exportName)).toEqual(head);
  });

  it('a cursor of 16 KiB, all that fits into a header, has room as page, next page and tortoise', async () => {
    const cursor = 'c'.repeat(16_384) as NonNullable<ReturnType<typeof aPageEntry>['cursor']>;
    const entry = aPageEntry({ cursor, nextCursor: cursor, cycle: { tortoise: cursor, power: 2, steps: 1 } });
    await log.append(entry);
    expect(await log.last(entry)).toEqual(entry);
  });

  describe('where the answer to a write is lost and the SDK repeats it', () => {
    /** A page log that hears nothing of its first write, though it reached the table. */
    function deafLog(meanwhile: () => Promise<unknown> = async () => {}): PageLog {
      const { endpoint, table } = harness;
      const client = new DynamoDBClient({ endpoint, ...anyone });
      let heard = false;
      client.middlewareStack.add(
        (next, context) => async (args) => {
          const answer = await next(args);
          if (context.commandName !== 'PutItemCommand' || heard) return answer;
          heard = true;
          await meanwhile();
          throw Object.assign(new Error('the answer is lost'), { name: 'TimeoutError' });
        },
        { step: 'finalizeRequest', priority: 'low' },
      );
      return createDynamoPageLog({ client, table, runtime: systemRuntime });
    }

    it.each([1, 2])('a head of version %i that meets itself was written', async (version) => {
      const head = aHead({ version });
      if (version === 2) await log.replaceState({ ...head, version: 1 });
      expect(await deafLog().replaceState(head)).toBe(true);
      expect(await log.exportState(head.export)).toEqual(head);
    });

    it('a head that meets its successor was not, for all that is known: who wrote it decides anew', async () => {
      const head = aHead();
      const next = { ...head, version: 2 };
      expect(await deafLog(() => log.replaceState(next)).replaceState(head)).toBe(false);
      expect(await log.exportState(head.export)).toEqual(next);
    });

    it('an entry that meets itself is logged', async () => {
      const entry = aPageEntry();
      expect(await deafLog().append(entry)).toEqual(entry);
    });
  });
});

describe('what the DynamoDB page log asks of the table', () => {
  function aMockedLog() {
    const client = new DynamoDBClient({ region: 'us-east-1' });
    return { table: mockClient(client), log: createDynamoPageLog({ client, table: 'page-log', runtime: at(0) }) };
  }
  const taken = (item?: Item) =>
    new ConditionalCheckFailedException({
      message: 'The conditional request failed',
      $metadata: {},
      ...(item && { Item: item }),
    });

  it('every read is consistent', async () => {
    const { table, log } = aMockedLog();
    table.on(GetItemCommand).resolves({}).on(QueryCommand).resolves({});
    const run = aRun();
    await log.exportState(run.export);
    await log.last(run);
    await collect(log.entries(run));
    const reads = table.calls().map(({ args: [{ input }] }) => input as GetItemCommandInput | QueryCommandInput);
    expect(reads).toHaveLength(3);
    for (const read of reads) expect(read).toMatchObject({ TableName: 'page-log', ConsistentRead: true });
  });

  it('the last page is one item, not a walk through all', async () => {
    const { table, log } = aMockedLog();
    const entry = aPageEntry({ page: 12 });
    table.on(QueryCommand).resolves({ Items: [toEntryItem(entry, 1)] });
    expect(await log.last(entry)).toEqual(entry);
    expect(table.commandCalls(QueryCommand)[0]?.args[0].input).toMatchObject({ ScanIndexForward: false, Limit: 1 });
  });

  it('entries are asked for as they are read, batch after batch', async () => {
    const { table, log } = aMockedLog();
    const run = aRun();
    const [first, second] = [1, 2].map((page) =>
      toEntryItem(aPageEntry({ export: run.export, run: run.run, page }), 1),
    );
    const from = { pk: { S: 'pk' }, sk: { S: 'sk' } };
    table
      .on(QueryCommand)
      .resolvesOnce({ Items: first ? [first] : [], LastEvaluatedKey: from })
      .resolvesOnce({ Items: [], LastEvaluatedKey: from })
      .resolves({ Items: second ? [second] : [] });

    const asked: number[] = [];
    for await (const { page } of log.entries(run)) asked.push(page, table.calls().length);

    expect(asked).toEqual([1, 1, 2, 3]);
    const starts = table.commandCalls(QueryCommand).map(({ args: [{ input }] }) => input.ExclusiveStartKey);
    expect(starts).toEqual([undefined, from, from]);
  });

  it('an entry in the way comes with the refusal, and needs no second look', async () => {
    const { table, log } = aMockedLog();
    const existing = aPageEntry({ page: 3 });
    table.on(PutItemCommand).rejects(taken(toEntryItem(existing, 1)));
    expect(await log.append({ ...existing, bytes: 1 })).toEqual(existing);
    expect(table.calls()).toHaveLength(1);
    expect(table.commandCalls(PutItemCommand)[0]?.args[0].input).toMatchObject({
      ConditionExpression: 'attribute_not_exists(pk)',
      ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
    });
  });

  const odd: [string, Item[string]][] = [
    ['a number beyond all numbers', { N: '1E+125' }],
    ['a number that JavaScript cannot hold', { N: '9007199254740993' }],
    ['a number that is none', { N: 'many' }],
    ['bytes', { B: Buffer.from('4096') }],
    ['a set of texts', { SS: ['4096'] }],
    ['a set of numbers', { NS: ['4096'] }],
    ['a list', { L: [{ N: '4096' }] }],
    ['a map', { M: { N: { N: '4096' } } }],
    ['text', { S: '4096' }],
    ['nothing, said outright', { NULL: true }],
    ['no value of any type', {} as Item[string]],
  ];

  it.each(odd)('what only DynamoDB can hold is no number of bytes: %s', async (_, attribute) => {
    const { table, log } = aMockedLog();
    const entry = aPageEntry({ page: 3 });
    table.on(QueryCommand).resolves({ Items: [{ ...toEntryItem(entry, 1), bytes: attribute }] });
    const conflict = {
      name: 'PageConflictError',
      message: expect.stringContaining('page 3 of run') as unknown as string,
    };
    await expect(log.last(entry)).rejects.toMatchObject(conflict);
    await expect(collect(log.entries(entry))).rejects.toMatchObject(conflict);
  });

  it.each(odd)('nor an active run, a request or a filter: %s', async (_, attribute) => {
    const head = aHead({ active: aRun(), watermark: { instant: aRun().since, source: 'simulator', filter: {} } });
    const item = toStateItem(head, 'token');
    const request = { M: { ...item.active?.M?.request?.M, filter: attribute } };
    const changed = [
      { ...item, active: attribute },
      { ...item, active: { M: { ...item.active?.M, request: attribute } } },
      { ...item, active: { M: { ...item.active?.M, request } } },
      { ...item, watermark: attribute },
    ];
    for (const Item of changed) {
      const { table, log } = aMockedLog();
      table.on(GetItemCommand).resolves({ Item: Item as Record<string, AttributeValue> });
      await expect(log.exportState(head.export)).rejects.toMatchObject({
        name: 'PageConflictError',
        message: expect.stringMatching(
          /in table page-log .*point-in-time recovery.*since\.initial/,
        ) as unknown as string,
      });
    }
  });

  it.each([
    'run#20261120T020000Z-1f3a5c#page#3',
    'run#20261120T020000Z-1f3a5c#page#000000000004',
    'run#20261120T020000Z-1f3a5c#page#',
    'run#20261120T020000Z-1f3a5c#page#00000000000x',
    'state',
    undefined,
  ])('an entry under the key %s is not that of page 3', async (sk) => {
    const { table, log } = aMockedLog();
    const entry = aPageEntry({ run: asRunId('20261120T020000Z-1f3a5c'), page: 3 });
    const { sk: _, ...item } = toEntryItem(entry, 1);
    table.on(QueryCommand).resolves({ Items: [{ ...item, ...(sk && { sk: { S: sk } }) }] });
    await expect(log.last(entry)).rejects.toMatchObject({
      name: 'PageConflictError',
      message: expect.stringContaining('it tells of page 3 of run 20261120T020000Z-1f3a5c') as unknown as string,
    });
  });

  it('an entry that was in the way and is gone is no entry', async () => {
    const { table, log } = aMockedLog();
    table.on(PutItemCommand).rejects(taken()).on(GetItemCommand).resolves({});
    await expect(log.append(aPageEntry({ page: 3 }))).rejects.toThrow(/^Page 3 of run .* disappeared .* retried$/);
  });

  it('every other error passes through as it was', async () => {
    const { table, log } = aMockedLog();
    const throttled = Object.assign(new Error('too fast'), { name: 'ProvisionedThroughputExceededException' });
    table.on(PutItemCommand).rejects(throttled);
    await expect(log.append(aPageEntry())).rejects.toBe(throttled);
    await expect(log.replaceState(aHead())).rejects.toBe(throttled);
  });
});
