/**
 * As kill-children.ts, with the deployed functions: exports the children of very many parents into a DynamoDB and an S3
 * in this process. The process of the functions is killed again and again, and each step is then invoked once more.
 *
 *     node bench/contenders/kill-deployed-children.ts --parents 10000 --pages 3 --kill-every 30
 *
 * Prints the commands that each step has sent, how large states and payloads were, and whether all children are there.
 */

import { type ChildProcess, fork } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { environmentVariable, functionSettings, settingsVersion } from '../../lib/settings/deployed-settings.ts';
import { isConditionMet, type Item, text } from '../../test/simulation/world/dynamodb.ts';
import { createSimulatedS3 } from '../../test/simulation/world/s3.ts';
import { aDeployment } from '../../test/support/settings.ts';
import { assertAllThere, childrenSettings, countPages } from '../harness/children.ts';
import { startServer } from '../harness/processes.ts';
import type { ParentServiceOptions } from '../servers/parent-service.ts';
import type { CommandMessage, FromProcess, InvokeMessage, ResponseMessage, ResultMessage } from './step-process.ts';

const { values } = parseArgs({
  options: {
    parents: { type: 'string', default: '1000' },
    pages: { type: 'string', default: '3' },
    parallel: { type: 'string', default: '16' },
    'kill-every': { type: 'string', default: '30' },
    timeout: { type: 'string', default: '900' },
  },
});
const parents = Number(values.parents);
const pages = Number(values.pages);
const killEveryMs = Number(values['kill-every']) * 1_000;
const timeoutMs = Number(values.timeout) * 1_000;

/** A DynamoDB with one table: knows the expressions of the page log. */
function createDynamoDb() {
  const database = new DatabaseSync(':memory:');
  database.exec('CREATE TABLE items (pk TEXT, sk TEXT, item TEXT, PRIMARY KEY (pk, sk)) WITHOUT ROWID');
  const getItem = database.prepare('SELECT item FROM items WHERE pk = ? AND sk = ?');
  const putItem = database.prepare('INSERT OR REPLACE INTO items VALUES (?, ?, ?)');
  const range = (order: string) =>
    database.prepare(
      `SELECT sk, item FROM items WHERE pk = ? AND sk >= ? AND sk <= ? AND sk > ? ORDER BY sk ${order} LIMIT ?`,
    );
  const [ascending, descending] = [range('ASC'), range('DESC')];
  const find = (pk: string, sk: string): Item | undefined => {
    const row = getItem.get(pk, sk);
    return row === undefined ? undefined : (JSON.parse(String(row.item)) as Item);
  };
  let largestState = 0;
  return {
    largestState: () => largestState,
    items: () => Number(database.prepare('SELECT count(*) AS count FROM items').get()?.count),
    perform(name: string, input: Record<string, never>): unknown {
      const {
        Key,
        Item: item,
        ConditionExpression: condition,
        ExpressionAttributeValues: values,
      } = input as {
        Key?: Item;
        Item?: Item;
        ConditionExpression?: string;
        ExpressionAttributeValues?: Item;
      };
      if (name === 'GetItemCommand') return { Item: find(text(Key, 'pk'), text(Key, 'sk')) };
      if (name === 'PutItemCommand') {
        const [pk, sk] = [text(item, 'pk'), text(item, 'sk')];
        const existing = find(pk, sk);
        if (!isConditionMet(condition, values, existing)) {
          throw Object.assign(new Error('The conditional request failed'), {
            name: 'ConditionalCheckFailedException',
            Item: existing,
          });
        }
        const json = JSON.stringify(item);
        if (sk === 'state') largestState = Math.max(largestState, json.length);
        putItem.run(pk, sk, json);
        return {};
      }
      if (name !== 'QueryCommand') throw new Error(`Unknown command ${name}`);
      const {
        ScanIndexForward = true,
        Limit = 1_000,
        ExclusiveStartKey,
        KeyConditionExpression,
      } = input as {
        ScanIndexForward?: boolean;
        Limit?: number;
        ExclusiveStartKey?: Item;
        KeyConditionExpression?: string;
      };
      const pk = text(values, ':pk');
      const isPrefix = KeyConditionExpression?.includes('begins_with') === true;
      const from = isPrefix ? text(values, ':prefix') : text(values, ':from');
      const to = isPrefix ? `${from}\uffff` : text(values, ':to');
      const statement = ScanIndexForward ? ascending : descending;
      const rows = statement.all(
        pk,
        from,
        to,
        ExclusiveStartKey === undefined ? '' : text(ExclusiveStartKey, 'sk'),
        Math.min(Limit, 1_000),
      );
      const Items = rows.map((row) => JSON.parse(String(row.item)) as Item);
      const last = rows.at(-1);
      const isFull = rows.length === Math.min(Limit, 1_000) && last !== undefined;
      return { Items, ...(isFull && { LastEvaluatedKey: { pk: { S: pk }, sk: { S: String(last.sk) } } }) };
    },
  };
}

const dynamoDb = createDynamoDb();
const s3 = createSimulatedS3(() => {}, 1_000_000);
/** The entries of a listing that has begun, so that they are not sorted again for each thousand. */
const listings = new Map<string, readonly string[]>();
const executions = new Map<string, string>();
/** The commands of the invocation in progress. */
let counts: Record<string, number> = {};
let isResumed = false;

function perform({ client, command, input }: CommandMessage): unknown {
  const kind = `${client.replace('Client', '')} ${command.replace('Command', '')}`;
  counts[kind] = (counts[kind] ?? 0) + 1;
  if (client === 'DynamoDBClient') return dynamoDb.perform(command, input as Record<string, never>);
  if (client === 'SFNClient') {
    const { executionArn = '' } = input as { executionArn?: string };
    return { executionArn, status: executions.get(executionArn) };
  }
  if (client !== 'S3Client') throw new Error(`Unknown client ${client}`);
  if (command === 'ListObjectsV2Command') return list(input as ListInput);
  if (/^Put|^Complete/.test(command)) listings.clear();
  const simulated = Object.assign(Object.create({ constructor: { name: command } }) as object, { input });
  const output = s3.perform(simulated as never) as { Body?: unknown };
  const { Key = '' } = input as { Key?: string };
  return output.Body === undefined ? output : { ...output, Body: s3.objects.get(Key)?.body };
}

interface ListInput {
  readonly Prefix?: string;
  readonly Delimiter?: string;
  readonly ContinuationToken?: string;
  readonly MaxKeys?: number;
}

function list({ Prefix = '', Delimiter, ContinuationToken, MaxKeys = 1_000 }: ListInput): object {
  const name = `${Prefix} ${Delimiter ?? ''}`;
  const entryOf = (key: string) => {
    const end = Delimiter === undefined ? -1 : key.indexOf(Delimiter, Prefix.length);
    return end < 0 ? key : key.slice(0, end + 1);
  };
  const found = [...s3.objects.keys()].filter((key) => key.startsWith(Prefix));
  const entries = listings.get(name) ?? [...new Set(found.map(entryOf))].sort();
  listings.set(name, entries);
  const start = ContinuationToken === undefined ? 0 : Number(ContinuationToken);
  const page = entries.slice(start, start + MaxKeys);
  const isPrefix = (entry: string) => Delimiter !== undefined && entry.endsWith(Delimiter);
  const isTruncated = start + page.length < entries.length;
  return {
    CommonPrefixes: page.filter(isPrefix).map((entry) => ({ Prefix: entry })),
    Contents: page
      .filter((entry) => !isPrefix(entry))
      .map((Key) => ({ Key, Size: s3.objects.get(Key)?.body.length, ETag: s3.objects.get(Key)?.etag })),
    IsTruncated: isTruncated,
    ...(isTruncated && { NextContinuationToken: String(start + page.length) }),
  };
}

const service: ParentServiceOptions = { parents, pages, pageBytes: 200, latencyMs: 2, bodyMs: 0 };
await using server = await startServer('parent-service.ts', service);
const written = childrenSettings(server.baseUrl, Number(values.parallel));
const [{ bench }, exports] = [written.services, written.exports];
// As in a directory: an invocation ends when its time is up.
const longer = exports.map((each) => ({ ...each, pagesPerInvocation: 1_000 }));
const settings = JSON.stringify(functionSettings(aDeployment(bench, ...longer)));
const environment = {
  version: settingsVersion,
  deployment: 'Bench',
  service: 'acme',
  table: 'page-log',
  bucket: 'bucket',
  prefix: '',
};

let child: ChildProcess | undefined;
let killAt = Date.now() + killEveryMs;
const peak = { rssMb: 0, payload: 0 };
let kills: Record<string, number> = {};
let started = 0;

function startProcess(): ChildProcess {
  const file = fileURLToPath(new URL('step-process.ts', import.meta.url));
  const env = { ...process.env, [environmentVariable]: JSON.stringify(environment), POWERTOOLS_LOG_LEVEL: 'SILENT' };
  const stdio = ['ignore', 'ignore', 'inherit', 'ipc'] as const;
  return fork(file, [settings], { env, stdio: [...stdio], serialization: 'advanced' });
}

/** Invokes the step in the process of the functions, once more for each time that the process is killed. */
async function invoke(step: InvokeMessage['step'], event: { input: unknown; execution: string }): Promise<unknown> {
  peak.payload = Math.max(peak.payload, JSON.stringify(event).length);
  for (let retries = 0; ; retries += 1) {
    counts = {};
    child ??= startProcess();
    const invoked = child;
    const isFinish = step === 'FinishRun' && (kills[step] ?? 0) === 0 && killEveryMs < 1e9;
    // This process holds the stores, so FinishRun takes longer here than on AWS. It is killed three times.
    const isEnough = (kills.FinishRun ?? 0) >= 3 && step === 'FinishRun';
    const nextMs = isEnough ? Number.POSITIVE_INFINITY : Math.max(0, killAt - Date.now());
    const dueMs = isFinish ? 500 + Math.random() * 1_500 : nextMs;
    const timer = new AbortController();
    const due = sleep(Math.min(dueMs, 2 ** 31 - 1), undefined, { signal: timer.signal }).catch(() => undefined);
    const result = await Promise.race([
      resultOf(invoked, { kind: 'invoke', step, event: { ...event, retries }, timeoutMs }),
      due,
    ]);
    timer.abort();
    const wasResumed = isResumed;
    isResumed = result === undefined;
    if (result === undefined) {
      kills[step] = (kills[step] ?? 0) + 1;
      invoked.removeAllListeners('message');
      invoked.kill('SIGKILL');
      child = undefined;
      killAt = Date.now() + killEveryMs * (0.5 + Math.random());
      continue;
    }
    peak.rssMb = Math.max(peak.rssMb, result.rssMb);
    const output = result.output as { next?: string; page?: number } | undefined;
    const end = output?.next ?? result.error?.name ?? 'end';
    report(`${step}${wasResumed ? ', resumed,' : ''} ends with ${end}`, counts);
    if (result.error !== undefined) throw new Error(`${result.error.name}: ${result.error.message}`);
    return output;
  }
}

async function resultOf(invoked: ChildProcess, message: InvokeMessage): Promise<ResultMessage> {
  const { promise, resolve } = Promise.withResolvers<ResultMessage>();
  invoked.removeAllListeners('message');
  invoked.on('message', (received: FromProcess) => {
    if (received.kind === 'result') resolve(received);
    else invoked.send(responseTo(received), () => {});
  });
  invoked.send(message);
  return await promise;
}

function responseTo(received: CommandMessage): ResponseMessage {
  const { id } = received;
  try {
    return { kind: 'response', id, output: perform(received) };
  } catch (error) {
    const { name, message, $metadata, Item } = error as Error & {
      $metadata?: { httpStatusCode?: number };
      Item?: object;
    };
    const thrown = { name, message, status: $metadata?.httpStatusCode ?? 400, ...(Item && { Item }) };
    return { kind: 'response', id, error: thrown };
  }
}

interface Output {
  readonly next: string;
  readonly waitSeconds?: number;
  readonly waits?: number;
  readonly manifest?: string;
}

/** Runs the state machine of an export to its end. */
async function runExport(name: string): Promise<string> {
  let execution = arn();
  let output = (await invoke('BeginRun', { input: { export: name }, execution })) as Output;
  for (;;) {
    if (output.next === 'export' || output.next === 'page' || output.next === 'wait') {
      if (output.next === 'wait') await sleep((output.waitSeconds ?? 0) * 1_000);
      output = (await invoke('ExportPage', { input: output, execution })) as Output;
    } else if (output.next === 'continue') {
      const continues = execution;
      executions.set(execution, 'SUCCEEDED');
      execution = arn();
      const input = { export: name, continues, waits: output.waits };
      output = (await invoke('BeginRun', { input, execution })) as Output;
    } else if (output.next === 'finish') {
      const { manifest = '' } = (await invoke('FinishRun', { input: output, execution })) as Output;
      executions.set(execution, 'SUCCEEDED');
      return manifest;
    } else throw new Error(`Unknown action ${output.next}`);
  }
}

function arn(): string {
  started += 1;
  const execution = `arn:aws:states:us-east-1:123456789012:execution:bench:${started}`;
  executions.set(execution, 'RUNNING');
  return execution;
}

function report(name: string, value: unknown): void {
  process.stdout.write(`${name}: ${JSON.stringify(value)}\n`);
}

const post = async (path: string) => await fetch(`${server.baseUrl}${path}`, { method: 'POST' });

const bodyOf = (key: string): string => s3.objects.get(key)?.body.toString() ?? '';
const pagesOf = async (manifest: string) => await countPages(parents, bodyOf(manifest).split('\n'), bodyOf);

async function runChildren(atThird?: string): Promise<string> {
  kills = {};
  killAt = Date.now() + killEveryMs;
  const startedAt = performance.now();
  const before = dynamoDb.items();
  const timer = setInterval(() => {
    if (atThird === undefined || dynamoDb.items() - before < (parents * pages) / 3) return;
    clearInterval(timer);
    void post(atThird);
  }, 200);
  const manifest = await runExport('children');
  clearInterval(timer);
  report('export of the children, s', (performance.now() - startedAt) / 1_000);
  report('kills', kills);
  return manifest;
}

await runExport('parents');
const first = await pagesOf(await runChildren('/delete'));
await post('/restore');
await post('/update');
await runExport('parents');
const second = await pagesOf(await runChildren());
child?.kill();
report('peak', { ...peak, stateBytes: dynamoDb.largestState() });
report('manifests', [...s3.objects.keys()].filter((key) => key.endsWith('manifest.json')).length);
report('gone in the first run', assertAllThere(service, first, second));
process.stdout.write('Nothing is lost, and nothing is there twice.\n');
