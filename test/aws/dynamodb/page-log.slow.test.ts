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
import { instantOf } from '../../../lib/core/timestamps.ts';
import { editedPageLogContract } from '../../contracts/edited-page-log-contract.ts';
import { pageLogContract } from '../../contracts/page-log-contract.ts';
import { startDynamoDb } from '../../support/aws/local-aws.ts';
import {
  aFullRun,
  anExportName,
  anExportRequest,
  anExportState,
  aPageEntry,
  aRun,
  aWatermark,
  collect,
} from '../../support/builders.ts';
import { dummyAccount } from '../endpoint.ts';
import { type DynamoHarness, dynamoHarness } from './dynamodb-harness.ts';

const at = (now: number) => ({ ...systemRuntime, now: () => now });

// The entries of the long run need more than one response, which holds 1 MB.
pageLogContract('The DynamoDB page log', createHarness, { manyEntries: 800 });

editedPageLogContract('The DynamoDB page log', createHarness);

async function createHarness(): Promise<DynamoHarness> {
  const server = await startDynamoDb();
  const harness = await dynamoHarness({ endpoint: server.endpoint, ...dummyAccount });
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
    harness = await createHarness();
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

  describe('the items in the table', () => {
    it('a page is an item of its service and export, with one attribute per field and a time to live', async () => {
      const now = Date.UTC(2026, 10, 20, 2);
      const { client, table, service } = harness;
      const entry = aPageEntry({ page: 7 });
      await createDynamoPageLog({ client, table, service, runtime: at(now), retentionDays: 30 }).append(entry);

      expect(await itemAt(`orders/${entry.export}`, `run#${entry.run}#page#000000000007`)).toEqual({
        pk: `orders/${entry.export}`,
        sk: `run#${entry.run}#page#000000000007`,
        ...entry,
        checksum: checksumOf(entry),
        expiresAt: Date.UTC(2026, 11, 20, 2) / 1_000,
      });
    });

    it('pages are kept for 400 days by default', async () => {
      const { client, table, service } = harness;
      const entry = aPageEntry({ page: 1 });
      await createDynamoPageLog({ client, table, service, runtime: at(0) }).append(entry);
      const { expiresAt } = await itemAt(`orders/${entry.export}`, `run#${entry.run}#page#000000000001`);
      expect(expiresAt).toBe(400 * 24 * 3_600);
      const mayHaveExpired = (now: number) =>
        createDynamoPageLog({ client, table, service, runtime: at(now) }).mayHaveExpired(instantOf(0));
      expect([400 * 86_400_000 - 1, 400 * 86_400_000].map(mayHaveExpired)).toEqual([false, true]);
    });

    it('the state is an item of the export that never expires; its filter is JSON text', async () => {
      const filter = { b: { '': null }, a: [1.5, 1e-300] };
      const exportName = anExportName();
      const active = aRun({ export: exportName, request: anExportRequest({ filter }) });
      await log.replaceState(anExportState({ export: exportName, active }));

      const item = await itemAt(`orders/${exportName}`, 'state');
      expect(item).toMatchObject({
        version: 1,
        active: { run: active.run, request: { filter: JSON.stringify(filter) } },
      });
      expect(item).not.toHaveProperty('expiresAt');
    });
  });

  it('preserves the order of a filter, because a manifest that is written twice must have the same bytes', async () => {
    const filter = { z: 1, a: { y: '', b: null }, m: [] };
    const exportName = anExportName();
    const active = aRun({ export: exportName, request: anExportRequest({ filter }) });
    await log.replaceState(anExportState({ export: exportName, active }));
    expect(JSON.stringify((await log.exportState(exportName))?.active?.request.filter)).toBe(JSON.stringify(filter));
  });

  it('preserves empty strings: a failure without a message', async () => {
    const exportName = anExportName();
    const run = aFullRun({ export: exportName });
    const state = anExportState({
      export: exportName,
      active: { ...run, lastFailure: { error: 'States.Timeout', message: '', at: run.startedAt } },
    });
    await log.replaceState(state);
    expect(await log.exportState(exportName)).toEqual(state);
  });

  it('keeps exports of the same name apart if they belong to different services', async () => {
    const { client, table } = harness;
    const other = createDynamoPageLog({ client, table, service: 'invoices', runtime: systemRuntime });
    const entry = aPageEntry();
    await log.replaceState(anExportState({ export: entry.export }));
    await log.append(entry);
    expect(await other.exportState(entry.export)).toBeUndefined();
    expect(await other.last(entry)).toBeUndefined();
    expect(await collect(other.runs(entry.export))).toEqual([]);
  });

  it('lists the runs of an export in one request for each, however many slices it has', async () => {
    const { endpoint, table, service } = harness;
    const client = new DynamoDBClient({ endpoint, ...dummyAccount });
    const commands: unknown[] = [];
    client.middlewareStack.add(
      (next, context) => (args) => {
        commands.push(context.commandName);
        return next(args);
      },
      { step: 'initialize' },
    );
    const exportName = anExportName();
    const run = asRunId('20261120T020000Z-0b0b0b');
    for (let slice = 1; slice <= 20; slice += 1) {
      await log.append(aPageEntry({ export: exportName, run, slice, attempt: 1 }));
    }
    const counted = createDynamoPageLog({ client, table, service, runtime: systemRuntime });
    expect((await collect(counted.runs(exportName))).map((entry) => [entry.run, entry.slice])).toEqual([[run, 20]]);
    expect(commands).toEqual(['QueryCommand', 'QueryCommand']);
  });

  it('stores cursors of 16 KiB, the maximum of a header, as cursor, next cursor and tortoise', async () => {
    const cursor = 'c'.repeat(16_384) as NonNullable<ReturnType<typeof aPageEntry>['cursor']>;
    const entry = aPageEntry({ cursor, nextCursor: cursor, cycle: { tortoise: cursor, power: 2, steps: 1 } });
    await log.append(entry);
    expect(await log.last(entry)).toEqual(entry);
  });

  describe('when the response to a write is lost and the SDK retries it', () => {
    /** A page log that does not get the response to its first write, which has reached the table. */
    function logWithLostResponse(meanwhile: () => Promise<unknown> = async () => {}): PageLog {
      const { endpoint, table, service } = harness;
      const client = new DynamoDBClient({ endpoint, ...dummyAccount });
      let isLost = false;
      client.middlewareStack.add(
        (next, context) => async (args) => {
          const response = await next(args);
          if (context.commandName !== 'PutItemCommand' || isLost) return response;
          isLost = true;
          await meanwhile();
          throw Object.assign(new Error('The response is lost'), { name: 'TimeoutError' });
        },
        { step: 'finalizeRequest', priority: 'low' },
      );
      return createDynamoPageLog({ client, table, service, runtime: systemRuntime });
    }

    it.each([1, 2])('a state of version %i that finds itself was written', async (version) => {
      const state = anExportState({ version });
      if (version === 2) await log.replaceState({ ...state, version: 1 });
      expect(await logWithLostResponse().replaceState(state)).toBe(true);
      expect(await log.exportState(state.export)).toEqual(state);
    });

    it('a state that finds its successor counts as not written, so that its writer reads again', async () => {
      const state = anExportState();
      const next = { ...state, version: 2 };
      expect(await logWithLostResponse(() => log.replaceState(next)).replaceState(state)).toBe(false);
      expect(await log.exportState(state.export)).toEqual(next);
    });

    it('returns the entry that the first attempt wrote', async () => {
      const entry = aPageEntry();
      expect(await logWithLostResponse().append(entry)).toEqual(entry);
    });
  });
});

describe('the requests of the DynamoDB page log', () => {
  function aMockedLog() {
    const client = new DynamoDBClient({ region: 'us-east-1' });
    return {
      table: mockClient(client),
      log: createDynamoPageLog({ client, table: 'page-log', service: 'orders', runtime: at(0) }),
    };
  }
  const conditionFailed = (item?: Item) =>
    new ConditionalCheckFailedException({
      message: 'The conditional request failed',
      $metadata: {},
      ...(item && { Item: item }),
    });

  it('reads are strongly consistent', async () => {
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

  it('the last entry is read by a query for one item', async () => {
    const { table, log } = aMockedLog();
    const entry = aPageEntry({ page: 12 });
    table.on(QueryCommand).resolves({ Items: [toEntryItem('orders', entry, 1)] });
    expect(await log.last(entry)).toEqual(entry);
    expect(table.commandCalls(QueryCommand)[0]?.args[0].input).toMatchObject({ ScanIndexForward: false, Limit: 1 });
  });

  it('entries are requested batch by batch, the next one while a batch is consumed', async () => {
    const { table, log } = aMockedLog();
    const run = aRun();
    const [first = {}, second = {}, third = {}] = [1, 2, 3].map((page) =>
      toEntryItem('orders', aPageEntry({ export: run.export, run: run.run, page }), 1),
    );
    const startKey = { pk: { S: 'pk' }, sk: { S: 'sk' } };
    table
      .on(QueryCommand)
      .resolvesOnce({ Items: [first, second], LastEvaluatedKey: startKey })
      .resolvesOnce({ Items: [], LastEvaluatedKey: startKey })
      .resolves({ Items: [third] });

    const pagesAndRequests: number[] = [];
    for await (const { page } of log.entries(run)) pagesAndRequests.push(page, table.calls().length);

    expect(pagesAndRequests).toEqual([1, 1, 2, 2, 3, 3]);
    const startKeys = table.commandCalls(QueryCommand).map(({ args: [{ input }] }) => input.ExclusiveStartKey);
    expect(startKeys).toEqual([undefined, startKey, startKey]);
  });

  it('an existing entry is read from ConditionalCheckFailedException, without a second request', async () => {
    const { table, log } = aMockedLog();
    const existing = aPageEntry({ page: 3 });
    table.on(PutItemCommand).rejects(conditionFailed(toEntryItem('orders', existing, 1)));
    expect(await log.append({ ...existing, bytes: 1 })).toEqual(existing);
    expect(table.calls()).toHaveLength(1);
    expect(table.commandCalls(PutItemCommand)[0]?.args[0].input).toMatchObject({
      ConditionExpression: 'attribute_not_exists(pk)',
      ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
    });
  });

  const unexpectedAttributes: [string, Item[string]][] = [
    ['a number beyond the range of JavaScript', { N: '1E+125' }],
    ['a number beyond the precision of JavaScript', { N: '9007199254740993' }],
    ['an invalid number', { N: 'many' }],
    ['bytes', { B: Buffer.from('4096') }],
    ['a set of strings', { SS: ['4096'] }],
    ['a set of numbers', { NS: ['4096'] }],
    ['a list', { L: [{ N: '4096' }] }],
    ['a map', { M: { N: { N: '4096' } } }],
    ['a string', { S: '4096' }],
    ['NULL', { NULL: true }],
    ['an attribute without a value', {} as Item[string]],
  ];

  it.each(unexpectedAttributes)('an entry whose bytes are %s is a conflict', async (_, attribute) => {
    const { table, log } = aMockedLog();
    const entry = aPageEntry({ page: 3 });
    table.on(QueryCommand).resolves({ Items: [{ ...toEntryItem('orders', entry, 1), bytes: attribute }] });
    const conflict = {
      name: 'PageConflictError',
      message: expect.stringContaining('page 3 of run') as unknown as string,
    };
    await expect(log.last(entry)).rejects.toMatchObject(conflict);
    await expect(collect(log.entries(entry))).rejects.toMatchObject(conflict);
  });

  it.each(unexpectedAttributes)(
    'a state whose run, request, filter or watermark is %s is a conflict',
    async (_, attribute) => {
      const state = anExportState({
        active: aRun(),
        watermark: aWatermark(),
      });
      const item = toStateItem('orders', state, 'token');
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
        await expect(log.exportState(state.export)).rejects.toMatchObject({
          name: 'PageConflictError',
          message: expect.stringMatching(
            /in table page-log .*point-in-time recovery.*since\.initial/,
          ) as unknown as string,
        });
      }
    },
  );

  it.each([
    'run#20261120T020000Z-1f3a5c#page#3',
    'run#20261120T020000Z-1f3a5c#page#000000000004',
    'run#20261120T020000Z-1f3a5c#page#',
    'run#20261120T020000Z-1f3a5c#page#00000000000x',
    'state',
    undefined,
  ])('an entry of page 3 with the sort key %s is a conflict', async (sk) => {
    const { table, log } = aMockedLog();
    const entry = aPageEntry({ run: asRunId('20261120T020000Z-1f3a5c'), page: 3 });
    const { sk: _, ...item } = toEntryItem('orders', entry, 1);
    table.on(QueryCommand).resolves({ Items: [{ ...item, ...(sk && { sk: { S: sk } }) }] });
    await expect(log.last(entry)).rejects.toMatchObject({
      name: 'PageConflictError',
      message: expect.stringContaining('it is the entry of page 3 of run 20261120T020000Z-1f3a5c') as unknown as string,
    });
  });

  it('an entry that disappears after the condition check failed is an error', async () => {
    const { table, log } = aMockedLog();
    table.on(PutItemCommand).rejects(conditionFailed()).on(GetItemCommand).resolves({});
    await expect(log.append(aPageEntry({ page: 3 }))).rejects.toThrow(/^Page 3 of run .* disappeared .* retried$/);
  });

  it('rethrows every other error unchanged', async () => {
    const { table, log } = aMockedLog();
    const throttled = Object.assign(new Error('Throttled'), { name: 'ProvisionedThroughputExceededException' });
    table.on(PutItemCommand).rejects(throttled);
    await expect(log.append(aPageEntry())).rejects.toBe(throttled);
    await expect(log.replaceState(anExportState())).rejects.toBe(throttled);
  });
});
