/**
 * Writes what this version stores and sends to `test/compatibility/<major>.<minor>`, for the tests of all later versions.
 * docs/releases.md, "Compatibility fixtures", says when to run it.
 *
 * @example npm run fixtures
 */

import { existsSync, readFileSync, rmSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DynamoDBClient, ScanCommand } from '@aws-sdk/client-dynamodb';
import { createDynamoPageLog } from '../../lib/aws/dynamodb/page-log.ts';
import { createDynamoSlotStore } from '../../lib/aws/dynamodb/slot-store.ts';
import { createS3Client } from '../../lib/aws/s3/client.ts';
import { createS3PageStore } from '../../lib/aws/s3/page-store.ts';
import type { Runtime } from '../../lib/core/ports.ts';
import { deploymentSettings } from '../../lib/cdk/settings/deployment-settings.ts';
import { functionSettingsSchema } from '../../lib/core/settings/environment.ts';
import { settingsJsonSchema } from '../../lib/core/settings/published-settings.ts';
import { exportDefinition, parseSettings, serviceSettingsSchema } from '../../lib/core/settings/settings.ts';
import { createPageSlots } from '../../lib/core/slots/page-slots.ts';
import { byStep, type StepName } from '../../lib/core/state-machine/definition.ts';
import { instantOf } from '../../lib/core/timestamps.ts';
import { createDirectoryPageStore } from '../../lib/local/files/page-store.ts';
import { interpretExecution } from '../../lib/local/interpreter.ts';
import { createSqlitePageLog } from '../../lib/local/sqlite/page-log.ts';
import { openRunNotes } from '../../lib/local/sqlite/run-notes.ts';
import { deployWith } from '../support/aws/cdk-deployment.ts';
import { startLocalAws } from '../support/aws/local-aws.ts';
import { execute, type Functions } from '../support/export/function-machine.ts';
import { exampleSettings } from './example-settings.ts';
import type { Fixtures, Invocation } from './fixtures.ts';
import { digestOf, filesOf } from './fixtures.ts';
import {
  bucket,
  functionSettings,
  interrupt,
  prefix,
  type Situation,
  serviceName,
  situations,
  source,
  stepFunctions,
} from './scenario.ts';

const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8')) as {
  readonly version: string;
};
const [name = ''] = /^\d+\.\d+/.exec(version) ?? [];
const folder = join(import.meta.dirname, name);

/** A clock that starts with the first run, and advances by a second each time it is read. */
let now = Date.UTC(2026, 10, 20, 2);
let random = 0;
const tick = () => (now += 1_000);
const runtime: Runtime = {
  now: tick,
  monotonicNow: tick,
  sleep: async () => {},
  randomHex(length) {
    random += 1;
    return random.toString(16).padStart(length, '0').slice(-length);
  },
};

const { exports } = parseSettings(functionSettingsSchema, functionSettings, 'the settings of the fixtures');
const definitionOf = ({ export: exportName }: Situation) => {
  const settings = exports.find((each) => each.name === exportName);
  if (settings === undefined) throw new Error(`There are no settings of ${exportName}`);
  return exportDefinition(settings, source);
};

async function writeJson(file: string, value: unknown): Promise<void> {
  const path = join(folder, file);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, `${JSON.stringify(value, null, 1)}\n`);
}

/** A directory as `report-exporter local` leaves it. */
async function writeDirectory(): Promise<void> {
  const out = join(folder, 'directory');
  const stateFile = join(out, 'state.sqlite');
  for (const situation of situations.filter(({ onlyOnAws }) => onlyOnAws !== true)) {
    const definition = definitionOf(situation);
    const store = createDirectoryPageStore(out);
    const log = createSqlitePageLog(stateFile);
    const notes = openRunNotes(stateFile);
    const settings = functionSettings.exports.find((each) => each.name === situation.export);
    if (settings === undefined) throw new Error(`There are no settings of ${situation.export}`);
    notes.saveSettings({ service: functionSettings.service, export: settings, apiKeyEnv: 'REPORT_EXPORT_API_KEY' });
    for (const [index, input] of situation.starts.entries()) {
      const isLast = index === situation.starts.length - 1;
      const deps = { definition, runtime, ...interrupt({ store, log }, isLast ? situation.happens : undefined) };
      const executions = { isRunning: async () => false };
      const start = { name: `${situation.export}-${index + 1}`, input };
      await interpretExecution({ ...deps, executions, emit: () => {} }, start, { pauseSeconds: 0 });
    }
    const run = (await log.exportState(situation.export))?.active;
    if (run?.lastFailure !== undefined) {
      const { error, message, at } = run.lastFailure;
      notes.addIncident(run, { kind: 'wait', at: instantOf(runtime.now()), page: 2, seconds: 5 });
      notes.addIncident(run, { kind: 'failed-attempt', at, page: 3, error, message });
      notes.addIncident(run, { kind: 'failed-run', at, page: 3, error, message });
    }
    notes.close();
    log.close();
    store.close();
  }
  // What only a running process needs.
  for (const temporary of ['.incoming', '.locks']) rmSync(join(out, temporary), { recursive: true, force: true });
  const unexpected = filesOf(name).filter((file) => /-(wal|shm)$/.test(file));
  if (unexpected.length > 0) throw new Error(`These files are still open: ${unexpected.join(', ')}`);
}

/** Table, bucket, payloads and events as the functions and the state machine write them. */
async function writeAws(): Promise<void> {
  await using aws = await startLocalAws();
  Object.assign(process.env, aws.env);
  const client = new DynamoDBClient({});
  const table = { client, table: aws.table, service: serviceName, runtime };
  const storage = {
    log: createDynamoPageLog(table),
    store: createS3PageStore({ client: createS3Client(aws.env), bucket, prefix, runtime }),
  };
  const invocations: Invocation[] = [];
  const continuations: Fixtures['continuations'][number][] = [];
  const events: Fixtures['events'][number][] = [];
  for (const situation of situations) {
    const { export: exportName, starts, happens } = situation;
    for (const [index, start] of starts.entries()) {
      const isLast = index === starts.length - 1;
      const { isKilled, ...interrupted } = interrupt(storage, isLast ? happens : undefined);
      const executions = { isRunning: async () => false };
      const steps = stepFunctions({
        definition: definitionOf(situation),
        runtime,
        executions,
        emit: () => {},
        ...interrupted,
      });
      const record =
        (step: StepName): Functions[StepName] =>
        async (event, context) => {
          if (isKilled()) return await steps[step](event, context);
          const invocation = { export: exportName, step, event: structuredClone(event) };
          const position = invocations.push(invocation) - 1;
          const result = await steps[step](event, context);
          invocations[position] = { ...invocation, result };
          return result;
        };
      const execution = { name: `${exportName}-${index + 1}`, input: { export: exportName, ...start } };
      const { next, events: sent } = await execute(byStep(record), execution);
      if (next !== undefined) continuations.push({ export: exportName, ...next });
      events.push(...sent.map((detail) => ({ export: exportName, detail })));
    }
  }

  const slotStore = createDynamoSlotStore(table);
  const slots = createPageSlots({ store: slotStore, limit: 1, runtime });
  await slots.acquire('interrupted', { leaseMs: 900_000 });
  await slots.acquire('waiting', { leaseMs: 0 });

  const { Items: items = [] } = await client.send(new ScanCommand({ TableName: aws.table, ConsistentRead: true }));
  client.destroy();
  const objects = [...aws.objects].map(([path, { body, headers }]) => ({ path, headers, body: body.toString() }));
  const values: Fixtures = {
    items,
    objects,
    slots: await readSlots(aws.table, serviceName),
    functions: functionSettings,
    invocations,
    continuations,
    events,
    stack: describeStack(),
  };
  for (const [file, value] of Object.entries(values)) await writeJson(`aws/${file}.json`, value);
}

/** The stack of the full settings. References to resources are replaced by their logical IDs. */
function describeStack(): Fixtures['stack'] {
  const { Outputs, Resources } = deployWith(exampleSettings.full).template.toJSON() as {
    readonly Outputs: Readonly<Record<string, { readonly Value: unknown }>>;
    readonly Resources: Readonly<Record<string, { readonly Type: string; readonly Metadata?: unknown }>>;
  };
  const machines = Object.entries(Resources).filter(([, { Type }]) => Type === 'AWS::StepFunctions::StateMachine');
  return {
    outputs: Object.fromEntries(Object.entries(Outputs).map(([output, { Value }]) => [output, resolve(Value)])),
    metadata: Object.fromEntries(machines.map(([id, { Metadata }]) => [id, Metadata])),
  };
}

/** The text that a deployed template has for `value`. */
function resolve(value: unknown): string {
  if (typeof value === 'string') return value;
  const {
    Ref: id,
    'Fn::GetAtt': attribute,
    'Fn::Join': join,
  } = value as {
    readonly Ref?: string;
    readonly 'Fn::GetAtt'?: readonly string[];
    readonly 'Fn::Join'?: readonly [string, readonly unknown[]];
  };
  if (join !== undefined) return join[1].map(resolve).join(join[0]);
  const resource = id ?? attribute?.join('.');
  if (resource === undefined) throw new Error(`Cannot resolve ${JSON.stringify(value)}`);
  return resource;
}

async function readSlots(table: string, service: string): Promise<unknown> {
  const client = new DynamoDBClient({});
  const state = await createDynamoSlotStore({ client, table, service, runtime }).read();
  client.destroy();
  return state;
}

interface JsonSchema {
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly items?: JsonSchema;
  readonly additionalProperties?: JsonSchema | boolean;
}

const isSet = (value: unknown) => value !== undefined;

/** The fields of the schema that none of `values` has. */
function findUnset({ properties = {}, items, additionalProperties }: JsonSchema, values: readonly unknown[]): string[] {
  const elements = values.flatMap((value) => Object.values(value as object));
  if (items !== undefined) return findUnset(items, elements);
  if (typeof additionalProperties === 'object') return findUnset(additionalProperties, elements);
  return Object.entries(properties).flatMap(([field, schema]) => {
    const set = values.map((value) => (value as Readonly<Record<string, unknown>>)[field]).filter(isSet);
    return set.length === 0 ? [field] : findUnset(schema, set).map((path) => `${field}.${path}`);
  });
}

async function writeSettings(): Promise<void> {
  const unset = findUnset(settingsJsonSchema(), Object.values(exampleSettings));
  if (unset.length > 0) throw new Error(`Set these fields in example-settings.ts, too: ${unset.join(', ')}`);
  for (const [file, settings] of Object.entries(exampleSettings)) {
    await writeJson(`settings/${file}.json`, settings);
    const deployment = deploymentSettings(settings);
    const services = deployment.services.map(({ service }) => serviceSettingsSchema.parse(service));
    await writeJson(`settings/${file}.parsed.json`, { deployment, services });
  }
  await writeJson('settings/definitions.json', situations.map(definitionOf));
}

if (existsSync(folder)) {
  process.stderr.write(
    `Error: ${folder} exists. Fixtures of a released version are never changed. Before the release, delete the folder first\n`,
  );
  process.exitCode = 1;
} else {
  await writeSettings();
  await writeDirectory();
  await writeAws();
  process.stdout.write(`Wrote ${folder}. Its digest, for test/compatibility/digests.ts: ${digestOf(name)}\n`);
}
