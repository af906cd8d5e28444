/** The slots of a service in DynamoDB: compare-and-set, lost responses, damaged items, and the size of the item. */

import { GetItemCommand, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Item, slotsKey } from '../../../lib/aws/dynamodb/items.ts';
import { createDynamoSlotStore } from '../../../lib/aws/dynamodb/slot-store.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';
import {
  createPageSlots,
  type SlotHolder,
  type SlotStore,
  type StoredSlots,
} from '../../../lib/core/slots/page-slots.ts';
import { anExportName } from '../../support/builders.ts';
import { clientWithLostResponse, type DynamoHarness, localDynamoHarness } from './dynamodb-harness.ts';

let harness: DynamoHarness;
beforeAll(async () => {
  harness = await localDynamoHarness();
});
afterAll(async () => await harness.cleanup());

const holders: readonly SlotHolder[] = [{ id: '0123456789abcdef', expiresAt: 1_795_141_860 }];
const nothing: StoredSlots = { revision: undefined, holders: [] };

/** The store of a service that has nothing stored yet. */
function aStore(): { readonly service: string; readonly store: SlotStore } {
  const { client, table } = harness;
  const service = anExportName('service');
  return { service, store: createDynamoSlotStore({ client, table, service, runtime: systemRuntime }) };
}

async function itemOf(service: string): Promise<Item> {
  const { client, table } = harness;
  const Key = slotsKey(service);
  const { Item } = await client.send(new GetItemCommand({ TableName: table, Key: { ...Key }, ConsistentRead: true }));
  return Item ?? {};
}
const put = (item: Item) => harness.client.send(new PutItemCommand({ TableName: harness.table, Item: item }));

describe('the DynamoDB slot store', () => {
  it('reads nothing before the first write, and then what was written last', async () => {
    const { store } = aStore();
    expect(await store.read()).toEqual(nothing);
    expect(await store.replace(nothing, holders)).toBe(true);
    const read = await store.read();
    expect(read.holders).toEqual(holders);
    expect(await store.replace(read, [])).toBe(true);
    expect((await store.read()).holders).toEqual([]);
  });

  it('writes only on top of what was read', async () => {
    const { store } = aStore();
    expect(await store.replace({ ...nothing, revision: 'another' }, [])).toBe(false);
    expect(await store.replace(nothing, [])).toBe(true);
    const read = await store.read();
    expect(await store.replace(nothing, [])).toBe(false);
    expect(await store.replace(read, holders)).toBe(true);
    expect(await store.replace(read, [])).toBe(false);
    expect((await store.read()).holders).toEqual(holders);
  });

  it('is one readable item of the service that never expires', async () => {
    const { service, store } = aStore();
    await store.replace(nothing, holders);
    expect(await itemOf(service)).toEqual({
      pk: { S: `${service}/#slots` },
      sk: { S: 'state' },
      record: { S: '{"holders":[{"id":"0123456789abcdef","expiresAt":1795141860}]}' },
      writeToken: { S: expect.stringMatching(/^[0-9a-f]{32}$/) },
    });
  });

  it('keeps services apart', async () => {
    const [one, other] = [aStore().store, aStore().store];
    await one.replace(nothing, holders);
    expect(await other.read()).toEqual(nothing);
  });

  it('gives one slot if the response to its write is lost and the SDK retries it, also if another export has written meanwhile', async () => {
    const { service, store } = aStore();
    const another = createPageSlots({ store, limit: 2, runtime: systemRuntime });
    const { endpoint, table } = harness;
    const client = clientWithLostResponse(endpoint, () => another.acquire({ leaseMs: 60_000 }));
    const lossy = createDynamoSlotStore({ client, table, service, runtime: systemRuntime });
    const slots = createPageSlots({ store: lossy, limit: 2, runtime: systemRuntime });
    expect(await slots.acquire({ leaseMs: 60_000 })).toBeDefined();
    expect((await store.read()).holders).toHaveLength(2);
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
      await store.replace(nothing, []);
      await put(damage(await itemOf(service)));
      const slots = createPageSlots({ store, limit: 1, runtime: { ...systemRuntime, sleep: async () => {} } });
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
      await put({ ...slotsKey(service), record: { S: 'damaged' }, ...token });
      const damaged = await store.read();
      expect(damaged).toEqual({ revision: token.writeToken?.S, holders: [] });
      expect(await store.replace(damaged, holders)).toBe(true);
      expect(await store.replace(damaged, [])).toBe(false);
      expect((await store.read()).holders).toEqual(holders);
    });
  });
});
