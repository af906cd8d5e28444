/** The incidents of a run in DynamoDB: concurrent writes, lost responses, damaged items, and how long an item is kept. */

import {
  ConditionalCheckFailedException,
  DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  type PutItemCommandInput,
} from '@aws-sdk/client-dynamodb';
import { mockClient } from 'aws-sdk-client-mock';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createDynamoIncidentLog, incidentsKey } from '../../../lib/aws/dynamodb/incident-log.ts';
import { type Item, toKeyItem } from '../../../lib/aws/dynamodb/items.ts';
import { createDynamoPageLog } from '../../../lib/aws/dynamodb/page-log.ts';
import { systemRuntime } from '../../../lib/core/clock.ts';
import { addIncident, countIncidents, type Incident, noIncidents } from '../../../lib/target/incidents.ts';
import { incidentLogContract } from '../../contracts/incident-log-contract.ts';
import { startDynamoDb } from '../../support/aws/local-aws.ts';
import { anExportName, aPageEntry, aRunId, at, collect } from '../../support/builders.ts';
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

const aLog = (client = harness.client) =>
  createDynamoIncidentLog({ client, table: harness.table, service: harness.service, runtime: systemRuntime });
const aRunRef = () => ({ export: anExportName(), run: aRunId() });
const wait: Incident = { kind: 'wait', at: at('2026-11-20T02:00:00Z'), page: 1, seconds: 7 };
const addWait = (record: typeof noIncidents) => addIncident(record, wait);

incidentLogContract('The DynamoDB incident log', () => ({ log: aLog(), cleanup: async () => {} }));

describe('the item of the incidents of a run', () => {
  it('counts those of concurrent attempts', async () => {
    const run = aRunRef();
    await Promise.all(Array.from({ length: 4 }, () => aLog().update(run, addWait)));
    expect(countIncidents(await aLog().read(run)).waits).toBe(4);
  });

  it('counts an incident once whose response was lost', async () => {
    const client = new DynamoDBClient({ region: 'us-east-1' });
    const stored: Item[] = [];
    const mocked = mockClient(client);
    mocked.on(GetItemCommand).callsFake(() => ({ Item: stored.at(-1) }));
    mocked.on(PutItemCommand).callsFake(({ Item: item }: PutItemCommandInput) => {
      stored.push(item ?? {});
      throw new ConditionalCheckFailedException({ message: 'The conditional request failed', $metadata: {} });
    });
    await aLog(client).update(aRunRef(), addWait);
    expect(stored).toHaveLength(1);
  });

  it('is not written after an abort', async () => {
    const client = new DynamoDBClient({ region: 'us-east-1' });
    const abort = new AbortController();
    const mocked = mockClient(client);
    mocked.on(GetItemCommand).callsFake(() => {
      abort.abort(new Error('It took too long'));
      return {};
    });
    mocked.on(PutItemCommand).resolves({});
    await expect(aLog(client).update(aRunRef(), addWait, abort.signal)).rejects.toThrow('It took too long');
    expect(mocked.commandCalls(PutItemCommand)).toEqual([]);
    const [args] = mocked.commandCalls(GetItemCommand).map((call): readonly unknown[] => call.args);
    expect(args?.[1]).toEqual({ abortSignal: abort.signal });
  });

  it('is not an entry of the page log, and expires with the entries', async () => {
    const run = aRunRef();
    const log = createDynamoPageLog({ ...harness, runtime: systemRuntime });
    await log.append(aPageEntry({ ...run, page: 1 }));
    await aLog().update(run, addWait);
    expect((await log.last(run))?.page).toBe(1);
    expect((await collect(log.runs(run.export))).map(({ page }) => page)).toEqual([1]);
    const Key = toKeyItem(incidentsKey(harness.service, run));
    const { Item: item } = await harness.client.send(new GetItemCommand({ TableName: harness.table, Key }));
    const days = (Number(item?.expiresAt?.N) - Date.now() / 1_000) / 86_400;
    expect(Math.round(days)).toBe(400);
  });

  it('counts as none if it is damaged, and is replaced by the next incident', async () => {
    const run = aRunRef();
    await aLog().update(run, addWait);
    const damaged = {
      ...toKeyItem(incidentsKey(harness.service, run)),
      version: { N: '7' },
      record: { S: '{"newest":' },
    };
    await harness.client.send(new PutItemCommand({ TableName: harness.table, Item: damaged }));
    expect(await aLog().read(run)).toEqual(noIncidents);
    await aLog().update(run, addWait);
    expect((await aLog().read(run)).newest).toEqual([wait]);
  });
});
