/**
 * Exports `argv[3]` pages in a simulated Step Functions, with its page log and its manifest in the directory `argv[2]`, and
 * says what came of it: how much memory that took on the way, and what Step Functions would have counted.
 */

import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { LoopState } from '../../../lib/core/model.ts';
import { asRunId, type RunResult } from '../../../lib/core/model.ts';
import type { StepDependencies } from '../../../lib/core/ports.ts';
import { exportDefinition, exportSettingsSchema } from '../../../lib/core/settings/settings.ts';
import { byStep, type StepName, stateMachine } from '../../../lib/core/state-machine/definition.ts';
import { beginRun } from '../../../lib/core/steps/begin-run.ts';
import { exportPage } from '../../../lib/core/steps/export-page.ts';
import { failRun } from '../../../lib/core/steps/fail-run.ts';
import { finishRun } from '../../../lib/core/steps/finish-run.ts';
import { instantOf } from '../../../lib/core/timestamps.ts';
import { createSqlitePageLog } from '../../../lib/local/sqlite/page-log.ts';
import {
  createStepFunctions,
  type SimulatedExecution,
  type TaskCall,
  TaskFailure,
} from '../../simulation/step-functions/step-functions.ts';
import { diceFor } from '../../simulation/world/rng.ts';
import { createTimeline } from '../../simulation/world/virtual-time.ts';
import { createBodilessStore } from '../discarding-store.ts';
import { createMishaps, createNumberedService, type Mishap, withMishaps } from '../injected-failures.ts';
import { mostResidentBytes, residentBytes } from '../resident-memory.ts';

export interface MillionPagesExported {
  readonly status: string;
  readonly result: RunResult;
  readonly manifest: { readonly file: string; readonly sha256: readonly string[] };
  readonly latest: string | undefined;
  readonly segments: number;
  readonly mostEvents: number;
  /** Of what travels between states, and to a function: where, and how much. */
  readonly largestPayload: { readonly bytes: number; readonly of: string; readonly json: string };
  readonly waits: number;
  readonly retries: number;
  readonly fetched: number;
  readonly adopted: number;
  readonly struck: Readonly<Record<Mishap, number>>;
  readonly memory: readonly MemorySample[];
  readonly mostResidentBytes: number;
  readonly virtualDays: number;
}

export interface MemorySample {
  readonly page: number;
  readonly residentBytes: number;
  /** What is in use behind a full collection. */
  readonly heapBytes: number;
  readonly seconds: number;
}

const [, , directory = '', pages = ''] = process.argv;
const lastPage = Number(pages);
const begunAt = Date.UTC(2026, 10, 20, 2);
const serviceTime = instantOf(begunAt);
const dice = diceFor('a million pages', 'mishaps');

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;
const memory: MemorySample[] = [];
const sampledAt = new Set([0.01, 0.1, 0.5, 1].map((part) => lastPage * part));
function sample(page: number): void {
  if (!sampledAt.has(page)) return;
  collect();
  const { heapUsed } = process.memoryUsage();
  memory.push({ page, residentBytes: residentBytes(), heapBytes: heapUsed, seconds: performance.now() / 1_000 });
}

const time = createTimeline(begunAt);
const mishaps = createMishaps(() => dice.roll());
const service = createNumberedService(mishaps, lastPage, serviceTime);
const store = createBodilessStore({ root: directory, lastPage, serviceTime });
const log = createSqlitePageLog(join(directory, 'state.sqlite'));
let adopted = 0;
let random = 0;
const deps: StepDependencies = {
  definition: exportDefinition(
    exportSettingsSchema.parse({ name: 'a-name-of-the-greatest-length-40-letters' }),
    'https://reports.example.com',
  ),
  service,
  store: withMishaps(store, mishaps),
  log,
  executions: { isRunning: async (execution) => machine.find(execution)?.status === 'RUNNING' },
  runtime: {
    now: () => time.now(),
    sleep: (ms) => time.sleep(ms),
    randomHex(length) {
      random += 1;
      return random.toString(16).padStart(length, '0');
    },
  },
  emit(event) {
    if (event.event === 'page-adopted') adopted += 1;
    if (event.event === 'page-exported' || event.event === 'page-adopted') sample(event.page);
  },
};

// Simulated time goes on where nothing is left to do, and what Node's own threads do is not seen: so nothing is left to them.
fs.fdatasync = Object.assign(
  (descriptor: number, done: fs.NoParamCallback) => {
    fs.fdatasyncSync(descriptor);
    done(null);
  },
  { __promisify__: fs.fdatasync.__promisify__ },
);
syncBuiltinESMExports();

const steps: Readonly<Record<StepName, (payload: Payload) => Promise<unknown>>> = {
  BeginRun: (payload) => beginRun(deps, payload),
  ExportPage: ({ input, execution }) =>
    exportPage(deps, { loop: input as LoopState, execution, retryAfterDeadline: Number.POSITIVE_INFINITY }),
  FinishRun: ({ input, execution }) => finishRun(deps, { run: asRunId((input as LoopState).run), execution }),
  FailRun: ({ input, execution }) => failRun(deps, { failure: input, execution }),
};
interface Payload {
  readonly input: unknown;
  readonly execution: string;
}

let largestPayload = { bytes: 0, of: '', json: '' };
function weigh(of: string, data: unknown): void {
  const json = JSON.stringify(data);
  const bytes = Buffer.byteLength(json);
  if (bytes > largestPayload.bytes) largestPayload = { bytes, of, json };
}

/** As Lambda and the integrations do it: JSON in, JSON or an error's name and message out. */
async function perform({ resource, parameters }: TaskCall): Promise<unknown> {
  mishaps.next();
  await time.sleep(400);
  if (resource.endsWith(':putEvents')) return {};
  if (resource.endsWith(':startExecution')) {
    const { Name, Input } = parameters as { Name: string; Input: unknown };
    const started = machine.start(Name, Input);
    if (mishaps.strikes('answer-lost'))
      throw new TaskFailure('StepFunctions.SdkClientException', 'the answer was lost');
    return { ExecutionArn: started.arn };
  }
  const { FunctionName, Payload: payload } = parameters as { FunctionName: StepName; Payload: Payload };
  weigh(`the payload of ${FunctionName}`, payload);
  const answer = await steps[FunctionName](JSON.parse(JSON.stringify(payload)) as Payload).catch((error: Error) => {
    throw new TaskFailure(error.name, JSON.stringify({ errorType: error.name, errorMessage: error.message }));
  });
  if (mishaps.strikes('answer-lost')) throw new TaskFailure('Lambda.Unknown', 'the answer was lost');
  return { Payload: JSON.parse(JSON.stringify(answer)) as unknown };
}

let waits = 0;
let retries = 0;
let segments = 0;
let mostEvents = 0;
/** A few are remembered, for starts that are repeated; thousands would be what grows here. */
const ended: SimulatedExecution[] = [];
const machine = createStepFunctions({
  definition: stateMachine({
    exportName: deps.definition.name,
    functions: byStep((step) => step),
    eventBus: 'default',
    partition: 'aws',
    stepTimeoutSeconds: byStep(() => 930),
    executionTimeoutSeconds: 7 * 86_400,
  }),
  machine:
    'arn:aws:states:ap-southeast-2:123456789012:stateMachine:ReportExporterStateMachineOfTheGreatestLength-0123456789AB',
  time,
  random: () => dice.roll(),
  perform,
  transitionMs: 25,
  on(fact) {
    if (fact.what === 'entered' || fact.what === 'exited') weigh(fact.state, fact.data);
    if (fact.what === 'ended') {
      segments += 1;
      mostEvents = Math.max(mostEvents, fact.execution.events);
      ended.push(fact.execution);
      const old = ended.length > 3 ? ended.shift() : undefined;
      if (old !== undefined) machine.forget(old);
    }
    if (fact.what === 'entered' && fact.state === 'WaitForService') waits += 1;
    if (fact.what === 'failed') {
      if (fact.againInMs === undefined) throw new Error(`${fact.state} failed for good: ${fact.error}: ${fact.cause}`);
      retries += 1;
    }
  },
});

machine.start('0123456789abcdef', { scheduledTime: '2026-11-20T02:00:00Z' });
await time.run({
  until: Number.POSITIVE_INFINITY,
  stop: () => machine.executions.every(({ status }) => status !== 'RUNNING'),
});

const last = machine.executions.at(-1);
const result = last?.output as RunResult;
const told: MillionPagesExported = {
  status: `${last?.status} in ${last?.state}`,
  result,
  manifest: { file: join(directory, result.manifest), sha256: store.manifests },
  latest: store.latest?.manifest,
  segments,
  mostEvents,
  largestPayload,
  waits,
  retries,
  fetched: service.fetched,
  adopted,
  struck: mishaps.struck,
  memory,
  mostResidentBytes: mostResidentBytes(),
  virtualDays: ((last?.endedAt ?? 0) - begunAt) / 86_400_000,
};
process.stdout.write(`${JSON.stringify(told)}\n`);
log.close();
