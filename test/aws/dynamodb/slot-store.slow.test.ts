/** The slots of a service in DynamoDB: compare-and-set, lost responses, damaged items, and the size of the item. */

import { GetItemCommand, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Item, slotsKey } from '../../../lib/aws/dynamodb/items.ts';
import { createDynamoSlotStore } from '../../../lib/aws/dynamodb/slot-store.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';
import { createPageSlots, type SlotState, type SlotStore } from '../../../lib/core/slots/page-slots.ts';
import { anExportName } from '../../support/builders.ts';
import { clientWithLostResponse, type DynamoHarness, localDynamoHarness } from './dynamodb-harness.ts';

let harness: DynamoHarness;
beforeAll(async () => {
  harness = await localDynamoHarness();
});
afterAll(async () => await harness.cleanup());

const aState = (overrides: Partial<SlotState> = {}): SlotState => ({
  version: 1,
  holders: [{ id: '0123456789abcdef', expiresAt: 1_795_141_860 }],
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
  const Key = slotsKey(service);
  const { Item } = await client.send(new GetItemCommand({ TableName: table, Key: { ...Key }, ConsistentRead: true }));
  return Item ?? {};
}
const put = (item: Item) => harness.client.send(new PutItemCommand({ TableName: harness.table, Item: item }));

describe('the DynamoDB slot store', () => {
  it('reads nothing before the first write, and then what was written last', async () => {
    const { store } = aStore();
    expect(await store.read()).toBeUndefined();
    expect(await store.replace(aState())).toBe(true);
    expect(await store.read()).toEqual(aState());
    const empty = { version: 2, holders: [] };
    expect(await store.replace(empty)).toBe(true);
    expect(await store.read()).toEqual(empty);
  });

  it('writes only on top of the version before', async () => {
    const { store } = aStore();
    expect(await store.replace(aState({ version: 2 }))).toBe(false);
    expect(await store.replace(aState())).toBe(true);
    expect(await store.replace(aState({ holders: [] }))).toBe(false);
    expect(await store.replace(aState({ version: 3 }))).toBe(false);
    expect(await store.read()).toEqual(aState());
  });

  it('is one readable item of the service that never expires', async () => {
    const { service, store } = aStore();
    await store.replace(aState());
    expect(await itemOf(service)).toEqual({
      pk: { S: `${service}/#slots` },
      sk: { S: 'state' },
      version: { N: '1' },
      record: { S: '{"holders":[{"id":"0123456789abcdef","expiresAt":1795141860}]}' },
      writeToken: { S: expect.stringMatching(/^[0-9a-f]{32}$/) },
    });
  });

  it('keeps services apart', async () => {
    const [one, other] = [aStore().store, aStore().store];
    await one.replace(aState());
    expect(await other.read()).toBeUndefined();
  });

  it('gives one slot if the response to its write is lost and the SDK retries it, also if another export has written meanwhile', async () => {
    const { service, store } = aStore();
    const another = createPageSlots({ store, limit: 2, runtime: systemRuntime });
    const { endpoint, table } = harness;
    const client = clientWithLostResponse(endpoint, () => another.acquire({ leaseMs: 60_000 }));
    const lossy = createDynamoSlotStore({ client, table, service, runtime: systemRuntime });
    const slots = createPageSlots({ store: lossy, limit: 2, runtime: systemRuntime });
    expect(await slots.acquire({ leaseMs: 60_000 })).toBeDefined();
    expect((await store.read())?.holders).toHaveLength(2);
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
      const slots = createPageSlots({ store, limit: 1, runtime: { ...systemRuntime, sleep: async () => {} } });
      // No time to poll.
      const options = { leaseMs: 1 };
      const first = await slots.acquire(options);
      expect(first).toBeDefined();
      expect(await slots.acquire(options)).toBeUndefined();
      await first?.release();
      expect(await slots.acquire({ leaseMs: 60_000 })).toBeDefined();
    });

    it('with its version is not replaced if another export has done so meanwhile', async () => {
      const { service, store } = aStore();
      await store.replace(aState());
      await put({ ...(await itemOf(service)), record: { S: 'damaged' } });
      const damaged = await store.read();
      expect(damaged).toEqual({ version: 1, holders: [] });
      expect(await store.replace(aState({ version: 2 }))).toBe(true);
      expect(await store.replace(aState({ version: 2, holders: [] }))).toBe(false);
      expect(await store.read()).toEqual(aState({ version: 2 }));
    });

    it('without its version is not replaced if another export has done so meanwhile', async () => {
      const { service, store } = aStore();
      await put({ ...slotsKey(service), record: { S: 'damaged' } });
      expect(await store.read()).toBeUndefined();
      expect(await store.replace(aState())).toBe(true);
      expect(await store.replace(aState({ holders: [] }))).toBe(false);
      expect(await store.read()).toEqual(aState());
    });
  });
});
