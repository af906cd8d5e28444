/** What the exports of a service share, in DynamoDB: lost responses, damaged items, and the form of the item. */

import { GetItemCommand, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Item, sharedRecordKey } from '../../../lib/aws/dynamodb/items.ts';
import { createDynamoSharedRecord } from '../../../lib/aws/dynamodb/shared-record.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';
import { createPageSlots, slotsRecord } from '../../../lib/core/slots/page-slots.ts';
import { nothing, sharedRecordContract, someSlots } from '../../contracts/shared-record-contract.ts';
import { anExportName } from '../../support/builders.ts';
import { clientWithLostResponse, type DynamoHarness, fakeDynamoHarness } from './dynamodb-harness.ts';

let harness: DynamoHarness;
beforeAll(async () => {
  harness = await fakeDynamoHarness();
});
afterAll(async () => await harness.cleanup());

/** The store of a service that has nothing stored yet. */
function aStore() {
  const { client, table } = harness;
  const service = anExportName('service');
  return { service, store: slotsOf(service, client, table) };
}
const slotsOf = (service: string, client = harness.client, table = harness.table) =>
  createDynamoSharedRecord(sharedRecordKey(service, 'slots'), slotsRecord, { client, table, runtime: systemRuntime });

sharedRecordContract((service) => slotsOf(service));

async function itemOf(service: string): Promise<Item> {
  const { client, table } = harness;
  const Key = sharedRecordKey(service, 'slots');
  const { Item } = await client.send(new GetItemCommand({ TableName: table, Key: { ...Key }, ConsistentRead: true }));
  return Item ?? {};
}
const put = (item: Item) => harness.client.send(new PutItemCommand({ TableName: harness.table, Item: item }));

describe('a shared record in DynamoDB', () => {
  it('gives one slot if the response to its write is lost and the SDK retries it, also if another export has written meanwhile', async () => {
    const { service, store } = aStore();
    const another = createPageSlots({ record: store, limit: 2, runtime: systemRuntime });
    const { table } = harness;
    const client = clientWithLostResponse(harness.client, () => another.acquire({ leaseMs: 60_000 }));
    const lossy = slotsOf(service, client, table);
    const slots = createPageSlots({ record: lossy, limit: 2, runtime: systemRuntime });
    expect(await slots.acquire({ leaseMs: 60_000 })).toBeDefined();
    expect((await store.read()).content?.holders).toHaveLength(2);
  });

  describe('a damaged item', () => {
    const without = (item: Item, name: string): Item =>
      Object.fromEntries(Object.entries(item).filter(([each]) => each !== name));
    const withRecord = (record: string) => (item: Item) => ({ ...item, record: { S: record } });
    const damages: [string, (item: Item) => Item][] = [
      ['has no record', (item) => without(item, 'record')],
      ['is no JSON', withRecord('{"holders"')],
      ['has no holders', withRecord('{}')],
      ['has a holder without an end', withRecord('{"holders":[{"id":"a"}]}')],
      ['has no token', (item) => without(item, 'writeToken')],
      ['has a token that is no text', (item) => ({ ...item, writeToken: { N: '7' } })],
      ['is empty', ({ pk, sk }) => ({ pk, sk }) as Item],
    ];

    it.each(damages)('that %s blocks no export: the limit applies from then on', async (_, damage) => {
      const { service, store } = aStore();
      await store.replace(nothing, { holders: [] });
      await put(damage(await itemOf(service)));
      const slots = createPageSlots({ record: store, limit: 1, runtime: { ...systemRuntime, sleep: async () => {} } });
      // No time to poll.
      const options = { leaseMs: 1 };
      const first = await slots.acquire(options);
      expect(first).toBeDefined();
      expect(await slots.acquire(options)).toBeUndefined();
      await first?.release();
      expect(await slots.acquire({ leaseMs: 60_000 })).toBeDefined();
    });

    it.each<[string, Item]>([
      ['with its token', { writeToken: { S: 'a' } }],
      ['without its token', {}],
    ])('%s is not replaced if another export has done so meanwhile', async (_, token) => {
      const { service, store } = aStore();
      await put({ ...sharedRecordKey(service, 'slots'), record: { S: 'damaged' }, ...token });
      const damaged = await store.read();
      expect(damaged).toEqual({ revision: token.writeToken?.S, content: undefined });
      expect(await store.replace(damaged, someSlots)).toBeDefined();
      expect(await store.replace(damaged, { holders: [] })).toBeUndefined();
      expect((await store.read()).content).toEqual(someSlots);
    });
  });
});
