/** The slots of a service in DynamoDB: compare-and-set, lost responses, damaged items, and the size of the item. */

import {
  ConditionalCheckFailedException,
  DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  type PutItemCommandInput,
} from '@aws-sdk/client-dynamodb';
import { mockClient } from 'aws-sdk-client-mock';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Item, slotsKey, toKeyItem } from '../../../lib/aws/dynamodb/items.ts';
import { createDynamoSlotStore } from '../../../lib/aws/dynamodb/slot-store.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';
import { createPageSlots, type SlotState, type SlotStore } from '../../../lib/core/slots/page-slots.ts';
import { startDynamoDb } from '../../support/aws/local-aws.ts';
import { anExportName } from '../../support/builders.ts';
import { dummyAccount } from '../endpoint.ts';
import { type DynamoHarness, dynamoHarness } from './dynamodb-harness.ts';

let harness: DynamoHarness;
let close: () => Promise<void>;
beforeAll(async () => {
  const server = await startDynamoDb();
  harness = await dynamoHarness({ endpoint: server.endpoint, ...dummyAccount });
  close = server.close;
});
afterAll(async () => {
  await harness.cleanup();
  await close();
});

const aState = (overrides: Partial<SlotState> = {}): SlotState => ({
  version: 1,
  holders: [{ id: '0123456789abcdef', expiresAt: 1_795_141_860 }],
  queue: [
    { export: 'Orders_EU-west', checkAt: 1_795_140_042 },
    { export: 'invoices', checkAt: 1_795_140_000 },
  ],
  averageHoldMs: 1_234,
  lastGrantAt: 1_795_139_990,
  ...overrides,
});

/** The store of a service that has nothing stored yet. */
function aStore(): { readonly service: string; readonly store: SlotStore } {
  const { client, table } = harness;
  const service = anExportName('service');
  return { service, store: createDynamoSlotStore({ client, table, service, runtime: systemRuntime }) };
}

async function itemOf(service: string): Promise<Item> {
  const { client, table } = harness;
  const Key = toKeyItem(slotsKey(service));
  const { Item } = await client.send(new GetItemCommand({ TableName: table, Key, ConsistentRead: true }));
  return Item ?? {};
}
const put = (item: Item) => harness.client.send(new PutItemCommand({ TableName: harness.table, Item: item }));

describe('the DynamoDB slot store', () => {
  it('reads nothing before the first write, and then what was written last', async () => {
    const { store } = aStore();
    expect(await store.read()).toBeUndefined();
    expect(await store.replace(aState())).toBe(true);
    expect(await store.read()).toEqual(aState());
    const empty = { version: 2, holders: [], queue: [], averageHoldMs: 0, lastGrantAt: 0 };
    expect(await store.replace(empty)).toBe(true);
    expect(await store.read()).toEqual(empty);
  });

  it('writes only on top of the version before', async () => {
    const { store } = aStore();
    expect(await store.replace(aState({ version: 2 }))).toBe(false);
    expect(await store.replace(aState())).toBe(true);
    expect(await store.replace(aState({ queue: [] }))).toBe(false);
    expect(await store.replace(aState({ version: 3 }))).toBe(false);
    expect(await store.read()).toEqual(aState());
  });

  it('is one item of the service, with readable holders and waiters, that never expires', async () => {
    const { service, store } = aStore();
    await store.replace(aState());
    expect(await itemOf(service)).toEqual({
      pk: { S: `${service}/#slots` },
      sk: { S: 'state' },
      version: { N: '1' },
      slots: {
        S:
          '{"holders":[["0123456789abcdef",1795141860]],' +
          '"queue":[["Orders_EU-west",1795140042],["invoices",1795140000]],"averageHoldMs":1234,"lastGrantAt":1795139990}',
      },
      writeToken: { S: expect.stringMatching(/^[0-9a-f]{32}$/) },
    });
  });

  it('keeps services apart', async () => {
    const [one, other] = [aStore().store, aStore().store];
    await one.replace(aState());
    expect(await other.read()).toBeUndefined();
  });

  it('takes less than 4 KB for a hundred waiters and ten holders', async () => {
    const { service, store } = aStore();
    const holders = Array.from({ length: 10 }, (_, index) => ({
      id: `0123456789abcde${index}`,
      expiresAt: 1_795_141_860 + index,
    }));
    const queue = Array.from({ length: 100 }, (_, index) => ({
      export: `orders-of-region-${100 + index}`,
      checkAt: 1_795_140_000 + index,
    }));
    await store.replace(aState({ version: 1, holders, queue, averageHoldMs: 900_000 }));
    const bytes = Object.entries(await itemOf(service))
      .map(([name, value]) => name.length + Buffer.byteLength(value.S ?? value.N ?? ''))
      .reduce((sum, each) => sum + each, 0);
    expect(bytes).toBeLessThan(4_096);
  });

  describe('when the response to a write is lost and the SDK retries it', () => {
    /** A store that does not get the response to its first write, which has reached the table. */
    function withLostResponse(service: string, meanwhile: () => Promise<unknown> = async () => {}): SlotStore {
      const { endpoint, table } = harness;
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
      return createDynamoSlotStore({ client, table, service, runtime: systemRuntime });
    }

    it.each([1, 2])('a record of version %i that finds itself was written', async (version) => {
      const { service, store } = aStore();
      if (version === 2) await store.replace(aState());
      expect(await withLostResponse(service).replace(aState({ version }))).toBe(true);
      expect(await store.read()).toEqual(aState({ version }));
    });

    it('a record that finds its successor counts as not written', async () => {
      const { service, store } = aStore();
      const next = aState({ version: 2, queue: [] });
      expect(await withLostResponse(service, () => store.replace(next)).replace(aState())).toBe(false);
      expect(await store.read()).toEqual(next);
    });

    it('an export takes one slot, also if another export has written meanwhile', async () => {
      const { service, store } = aStore();
      const another = createPageSlots({ store, limit: 2, runtime: systemRuntime });
      const lossy = withLostResponse(service, () => another.acquire('invoices', { leaseMs: 60_000 }));
      const slot = await createPageSlots({ store: lossy, limit: 2, runtime: systemRuntime }).acquire('orders', {
        leaseMs: 60_000,
      });
      expect(slot.granted).toBe(true);
      expect((await store.read())?.holders).toHaveLength(2);
    });
  });

  describe('a damaged item', () => {
    const without = (item: Item, name: string): Item =>
      Object.fromEntries(Object.entries(item).filter(([each]) => each !== name));
    const damages: [string, (item: Item) => Item][] = [
      ['has no slots', (item) => without(item, 'slots')],
      ['has slots that are not text', (item) => ({ ...item, slots: { M: {} } })],
      ['has slots that are not JSON', (item) => ({ ...item, slots: { S: '{"holders":[' } })],
      [
        'has slots without a queue',
        (item) => ({ ...item, slots: { S: '{"holders":[],"averageHoldMs":0,"lastGrantAt":0}' } }),
      ],
      [
        'has a holder without an end',
        (item) => ({ ...item, slots: { S: '{"holders":[["a"]],"queue":[],"averageHoldMs":0,"lastGrantAt":0}' } }),
      ],
      [
        'has a waiter that checks at no time',
        (item) => ({
          ...item,
          slots: { S: '{"holders":[],"queue":[["a","soon"]],"averageHoldMs":0,"lastGrantAt":0}' },
        }),
      ],
      [
        'has a negative average',
        (item) => ({ ...item, slots: { S: '{"holders":[],"queue":[],"averageHoldMs":-1,"lastGrantAt":0}' } }),
      ],
      ['has no version', (item) => without(item, 'version')],
      ['has a version that is text', (item) => ({ ...item, version: { S: '7' } })],
      ['has a version that is not whole', (item) => ({ ...item, version: { N: '7.5' } })],
      ['has a version of zero', (item) => ({ ...item, version: { N: '0' } })],
      ['has a version without a successor', (item) => ({ ...item, version: { N: '9007199254740991' } })],
      ['has a version beyond the range of JavaScript', (item) => ({ ...item, version: { N: '1E+125' } })],
      ['is empty', ({ pk, sk }) => ({ pk, sk }) as Item],
    ];

    it.each(damages)('that %s blocks no export: the limit applies from then on', async (_, damage) => {
      const { service, store } = aStore();
      await store.replace(aState());
      await put(damage(await itemOf(service)));

      const stored = await store.read();
      expect(stored?.holders ?? []).toEqual([]);
      expect(stored?.queue ?? []).toEqual([]);
      const slots = createPageSlots({ store, limit: 1, runtime: { ...systemRuntime, sleep: async () => {} } });
      // No time to poll.
      const options = { leaseMs: 1 };
      const first = await slots.acquire('orders', options);
      expect(first.granted).toBe(true);
      expect((await slots.acquire('invoices', options)).granted).toBe(false);
      if (first.granted) await first.release();
      expect((await slots.acquire('invoices', options)).granted).toBe(true);
    });

    it('with its version is not replaced if another export has done so meanwhile', async () => {
      const { service, store } = aStore();
      await store.replace(aState());
      await put({ ...(await itemOf(service)), slots: { S: 'damaged' } });
      const damaged = await store.read();
      expect(damaged).toEqual({ version: 1, holders: [], queue: [], averageHoldMs: 0, lastGrantAt: 0 });
      expect(await store.replace(aState({ version: 2 }))).toBe(true);
      expect(await store.replace(aState({ version: 2, queue: [] }))).toBe(false);
      expect(await store.read()).toEqual(aState({ version: 2 }));
    });

    it('without its version is not replaced if another export has done so meanwhile', async () => {
      const { service, store } = aStore();
      await put({ ...toKeyItem(slotsKey(service)), slots: { S: 'damaged' } });
      expect(await store.read()).toBeUndefined();
      expect(await store.replace(aState())).toBe(true);
      expect(await store.replace(aState({ queue: [] }))).toBe(false);
      expect(await store.read()).toEqual(aState());
    });
  });

  it('gives no more slots than the limit to exports that ask at the same time', async () => {
    const { store } = aStore();
    const slots = createPageSlots({ store, limit: 3, runtime: systemRuntime });
    const names = Array.from({ length: 12 }, (_, index) => `orders-${index}`);
    const acquired = await Promise.all(names.map((name) => slots.acquire(name, { leaseMs: 1 })));
    expect(acquired.filter(({ granted }) => granted)).toHaveLength(3);
    expect((await store.read())?.holders).toHaveLength(3);
  });
});

describe('the requests of the DynamoDB slot store', () => {
  function aMockedStore() {
    const client = new DynamoDBClient({ region: 'us-east-1' });
    const table = mockClient(client);
    return {
      table,
      store: createDynamoSlotStore({ client, table: 'page-log', service: 'orders', runtime: systemRuntime }),
    };
  }
  const inputOf = (table: ReturnType<typeof aMockedStore>['table'], call: number) =>
    table.commandCalls(PutItemCommand)[call]?.args[0].input as PutItemCommandInput;
  const conditionFailed = (item?: Item) =>
    new ConditionalCheckFailedException({ message: 'failed', $metadata: {}, ...(item && { Item: item }) });

  it('a read is strongly consistent', async () => {
    const { table, store } = aMockedStore();
    table.on(GetItemCommand).resolves({});
    await store.read();
    expect(table.commandCalls(GetItemCommand)[0]?.args[0].input).toEqual({
      TableName: 'page-log',
      Key: { pk: { S: 'orders/#slots' }, sk: { S: 'state' } },
      ConsistentRead: true,
    });
  });

  it('a write is conditional on the version before', async () => {
    const { table, store } = aMockedStore();
    table.on(PutItemCommand).resolves({});
    await store.replace(aState());
    await store.replace(aState({ version: 8 }));
    expect(inputOf(table, 0)).toMatchObject({
      TableName: 'page-log',
      ConditionExpression: 'attribute_not_exists(pk)',
      ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
    });
    expect(inputOf(table, 1)).toMatchObject({
      ConditionExpression: 'version = :previous',
      ExpressionAttributeValues: { ':previous': { N: '7' } },
    });
  });

  it('a record that was changed meanwhile is read from ConditionalCheckFailedException, without a second request', async () => {
    const { table, store } = aMockedStore();
    table.on(PutItemCommand).rejects(conditionFailed({ version: { N: '9' }, writeToken: { S: 'another' } }));
    expect(await store.replace(aState({ version: 8 }))).toBe(false);
    expect(table.calls()).toHaveLength(1);
  });

  it('rethrows every other error unchanged', async () => {
    const { table, store } = aMockedStore();
    const throttled = Object.assign(new Error('Throttled'), { name: 'ProvisionedThroughputExceededException' });
    table.on(PutItemCommand).rejects(throttled).on(GetItemCommand).rejects(throttled);
    await expect(store.read()).rejects.toBe(throttled);
    await expect(store.replace(aState())).rejects.toBe(throttled);
  });
});
