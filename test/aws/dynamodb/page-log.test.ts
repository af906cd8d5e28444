/** The items, requests and errors of the DynamoDB page log. Its contracts are in page-log.slow.test.ts. */

import {
  ConditionalCheckFailedException,
  DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  QueryCommand,
} from '@aws-sdk/client-dynamodb';
import { mockClient } from 'aws-sdk-client-mock';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Item, toEntryItem, toStateItem } from '../../../lib/aws/dynamodb/items.ts';
import { createDynamoPageLog } from '../../../lib/aws/dynamodb/page-log.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';
import type { ExportState, LogEntry } from '../../../lib/core/model.ts';
import type { PageLog } from '../../../lib/core/ports.ts';
import { toStoredRecord } from '../../../lib/core/storage/stored-records.ts';
import { instantOf } from '../../../lib/core/timestamps.ts';
import { anExportState, aPageEntry } from '../../support/builders.ts';
import { clientWithLostResponse, type DynamoHarness, fakeDynamoHarness } from './dynamodb-harness.ts';

const at = (now: number) => ({ ...systemRuntime, now: () => now });

describe('the DynamoDB page log', () => {
  let harness: DynamoHarness;
  let log: PageLog;
  beforeAll(async () => {
    harness = await fakeDynamoHarness();
    log = harness.log;
  });
  afterAll(async () => await harness.cleanup());

  async function itemAt(pk: string, sk: string): Promise<Item> {
    const { client, table } = harness;
    const { Item } = await client.send(
      new GetItemCommand({ TableName: table, Key: { pk: { S: pk }, sk: { S: sk } }, ConsistentRead: true }),
    );
    return Item ?? {};
  }

  describe('the items in the table', () => {
    it('a page is an item of its service and export with a time to live, a state one that never expires', async () => {
      const now = Date.UTC(2026, 10, 20, 2);
      const { client, table, service } = harness;
      const log = createDynamoPageLog({ client, table, service, runtime: at(now) });
      const entry = aPageEntry({ page: 7 });
      const state = anExportState({ export: entry.export });
      await log.append(entry);
      await log.replaceState(state);

      const pk = { S: `orders/${entry.export}` };
      const sk = `run#${entry.run}#page#000000000007`;
      const stored = (record: ExportState | LogEntry) => {
        const { json, checksum } = toStoredRecord(record);
        return { record: { S: json }, checksum: { S: checksum } };
      };
      const expiresAt = { N: String(now / 1_000 + 400 * 86_400) };
      expect(await itemAt(pk.S, sk)).toEqual({ pk, sk: { S: sk }, ...stored(entry), expiresAt });
      const mayHaveExpiredAfter = (days: number): boolean =>
        createDynamoPageLog({ client, table, service, runtime: at(now + days * 86_400_000) }).mayHaveExpired(
          instantOf(now),
        );
      expect([399, 400].map(mayHaveExpiredAfter)).toEqual([false, true]);
      const writeToken = { S: expect.stringMatching(/^[0-9a-f]{32}$/) as unknown as string };
      const ofState = { pk, sk: { S: 'state' }, ...stored(state), version: { N: '1' }, writeToken };
      expect(await itemAt(pk.S, 'state')).toEqual(ofState);
    });
  });

  it('keeps exports of the same name apart if they belong to different services', async () => {
    const { client, table } = harness;
    const other = createDynamoPageLog({ client, table, service: 'invoices', runtime: systemRuntime });
    const entry = aPageEntry();
    await log.replaceState(anExportState({ export: entry.export }));
    await log.append(entry);
    expect(await other.exportState(entry.export)).toBeUndefined();
    expect(await other.last(entry)).toBeUndefined();
  });

  describe('when the response to a write is lost and the SDK retries it', () => {
    function logWithLostResponse(meanwhile: () => Promise<unknown> = async () => {}): PageLog {
      const { table, service } = harness;
      const client = clientWithLostResponse(harness.client, meanwhile);
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

  it.each<[string, Item]>([
    ['a record in another form', { record: { M: {} } }],
    ['no record', { record: { NULL: true } }],
    ['text that is no JSON', { record: { S: '{"unfinished' } }],
    ['a checksum that is a number', { checksum: { N: '1' } }],
  ])('an item with %s is a conflict', async (_, changed) => {
    const { table, log } = aMockedLog();
    const [entry, state] = [aPageEntry({ page: 3 }), anExportState()];
    table.on(QueryCommand).resolves({ Items: [{ ...toEntryItem('orders', entry, 1), ...changed }] });
    table.on(GetItemCommand).resolves({ Item: { ...toStateItem('orders', state), ...changed } });
    const conflict = (message: RegExp) => ({
      name: 'PageConflictError',
      message: expect.stringMatching(message) as unknown as string,
    });
    await expect(log.last(entry)).rejects.toMatchObject(conflict(/page 3 of run/));
    await expect(log.exportState(state.export)).rejects.toMatchObject(
      conflict(/in table page-log .*point-in-time recovery, or delete it and set since\.initial/),
    );
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
