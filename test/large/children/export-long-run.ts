/**
 * Exports `argv[3]` pages in a simulated Step Functions, with the page log and the manifest in the directory `argv[2]`. Prints
 * how much memory that took on the way, and what Step Functions would have counted.
 */

import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { LoopState } from '../../../lib/core/model.ts';
import { asRunId, type RunResult } from '../../../lib/core/model.ts';
import type { StepDependencies } from '../../../lib/core/ports.ts';
import { exportDefinition, exportSettingsSchema } from '../../../lib/settings/settings.ts';
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
import { createRng } from '../../simulation/world/rng.ts';
import { createTimeline } from '../../simulation/world/virtual-time.ts';
import { createDiscardingStore } from '../discarding-store.ts';
import { createFailureInjector, createNumberedService, type FailureKind, withFailures } from '../injected-failures.ts';
import { maxResidentBytes, residentBytes } from '../resident-memory.ts';

export interface LongRunResult {
  readonly status: string;
  readonly result: RunResult;
  readonly manifest: { readonly file: string; readonly sha256: readonly string[] };
  /** The manifest that latest.json points to. */
  readonly latest: string | undefined;
  readonly executions: number;
  readonly maxHistoryEvents: number;
  /** The largest JSON sent to a state or a function, and where. */
  readonly largestPayload: { readonly bytes: number; readonly of: string; readonly json: string };
  readonly waits: number;
  readonly retries: number;
  readonly fetched: number;
  readonly adopted: number;
  readonly failures: Readonly<Record<FailureKind, number>>;
  readonly memory: readonly MemorySample[];
  readonly maxResidentBytes: number;
  readonly virtualDays: number;
}

export interface MemorySample {
  readonly page: number;
  readonly residentBytes: number;
  /** In use after a full garbage collection. */
  readonly heapBytes: number;
  readonly seconds: number;
}

const [, , directory = '', pages = ''] = process.argv;
const lastPage = Number(pages);
const startedAt = Date.UTC(2026, 10, 20, 2);
const serviceTime = instantOf(startedAt);
const rng = createRng('long run', 'failures');

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;
const memory: MemorySample[] = [];
const sampledPages = new Set([0.01, 0.1, 0.5, 1].map((part) => lastPage * part));
function sampleMemory(page: number): void {
  if (!sampledPages.has(page)) return;
  collectGarbage();
  const { heapUsed } = process.memoryUsage();
  memory.push({ page, residentBytes: residentBytes(), heapBytes: heapUsed, seconds: performance.now() / 1_000 });
}

const time = createTimeline(startedAt);
const failures = createFailureInjector(() => rng.next());
const service = createNumberedService(failures, lastPage, serviceTime);
const store = createDiscardingStore({ root: directory, lastPage, serviceTime });
const log = createSqlitePageLog(join(directory, 'state.sqlite'));
let adopted = 0;
let randomCount = 0;
const deps: StepDependencies = {
  definition: exportDefinition(
    exportSettingsSchema.parse({ name: 'a-name-of-the-greatest-length-40-letters' }),
    'https://reports.example.com',
  ),
  service,
  store: withFailures(store, failures),
  log,
  executions: {
    isRunning: async (execution) => stepFunctions.find(execution)?.status === 'RUNNING',
    hasEnded: async () => false,
  },
  runtime: {
    now: () => time.now(),
    monotonicNow: () => time.now(),
    sleep: (ms) => time.sleep(ms),
    randomHex(length) {
      randomCount += 1;
      return randomCount.toString(16).padStart(length, '0');
    },
  },
  emit(event) {
    if (event.event === 'page-adopted') adopted += 1;
    if (event.event === 'page-exported' || event.event === 'page-adopted') sampleMemory(event.page);
  },
};

// Simulated time advances when the event loop is idle, and it does not see work in Node's thread pool. So sync on this thread.
fs.fdatasync = Object.assign(
  (descriptor: number, done: fs.NoParamCallback) => {
    fs.fdatasyncSync(descriptor);
    done(null);
  },
  { __promisify__: fs.fdatasync.__promisify__ },
);
syncBuiltinESMExports();

interface Payload {
  readonly input: unknown;
  readonly execution: string;
}

const steps: Readonly<Record<StepName, (payload: Payload) => Promise<unknown>>> = {
  BeginRun: (payload) => beginRun(deps, payload),
  ExportPage: ({ input, execution }) =>
    exportPage(deps, { loop: input as LoopState, execution, retryAfterDeadline: Number.POSITIVE_INFINITY }),
  FinishRun: ({ input, execution }) => finishRun(deps, { run: asRunId((input as LoopState).run), execution }),
  FailRun: ({ input, execution }) => failRun(deps, { failure: input, execution }),
};

let largestPayload = { bytes: 0, of: '', json: '' };
function measurePayload(of: string, data: unknown): void {
  const json = JSON.stringify(data);
  const bytes = Buffer.byteLength(json);
  if (bytes > largestPayload.bytes) largestPayload = { bytes, of, json };
}

/** As Lambda and the integrations do it: JSON in; JSON, or the name and message of an error, out. */
async function perform({ resource, parameters }: TaskCall): Promise<unknown> {
  failures.nextAttempt();
  await time.sleep(400);
  if (resource.endsWith(':putEvents')) return {};
  if (resource.endsWith(':startExecution')) {
    const { Name, Input } = parameters as { Name: string; Input: unknown };
    const { arn } = stepFunctions.start(Name, Input);
    if (failures.inject('response-lost')) {
      throw new TaskFailure('StepFunctions.SdkClientException', 'The response was lost');
    }
    return { ExecutionArn: arn };
  }
  const { FunctionName, Payload: payload } = parameters as { FunctionName: StepName; Payload: Payload };
  measurePayload(`the payload of ${FunctionName}`, payload);
  const outcome = await steps[FunctionName](JSON.parse(JSON.stringify(payload)) as Payload).catch((error: Error) => {
    throw new TaskFailure(error.name, JSON.stringify({ errorType: error.name, errorMessage: error.message }));
  });
  if (failures.inject('response-lost')) throw new TaskFailure('Lambda.Unknown', 'The response was lost');
  return { Payload: JSON.parse(JSON.stringify(outcome)) as unknown };
}

let waits = 0;
let retries = 0;
let executions = 0;
let maxHistoryEvents = 0;
/** The last few are kept, as starts may be repeated. Thousands would grow the heap that is measured here. */
const endedExecutions: SimulatedExecution[] = [];
const stepFunctions = createStepFunctions({
  definition: stateMachine({
    functions: byStep((step) => step),
    eventBus: 'default',
    store: { bucket: 'reports', prefix: 'exports/' },
    partition: 'aws',
    stepTimeoutSeconds: byStep(() => 930),
    executionTimeoutSeconds: 7 * 86_400,
  }),
  stateMachineArn:
    'arn:aws:states:ap-southeast-2:123456789012:stateMachine:ReportExporterStateMachineOfTheGreatestLength-0123456789AB',
  time,
  random: () => rng.next(),
  perform,
  transitionMs: 25,
  onEvent(event) {
    if (event.type === 'entered' || event.type === 'exited') measurePayload(event.state, event.data);
    if (event.type === 'ended') {
      executions += 1;
      maxHistoryEvents = Math.max(maxHistoryEvents, event.execution.eventCount);
      endedExecutions.push(event.execution);
      const oldest = endedExecutions.length > 3 ? endedExecutions.shift() : undefined;
      if (oldest !== undefined) stepFunctions.forget(oldest);
    }
    if (event.type === 'entered' && event.state === 'WaitForService') waits += 1;
    if (event.type === 'task-failed') {
      if (event.retryInMs === undefined) throw new Error(`${event.state} failed: ${event.error}: ${event.cause}`);
      retries += 1;
    }
  },
});

stepFunctions.start('0123456789abcdef', { scheduledTime: '2026-11-20T02:00:00Z' });
await time.run({
  until: Number.POSITIVE_INFINITY,
  stop: () => stepFunctions.executions.every(({ status }) => status !== 'RUNNING'),
});

const last = stepFunctions.executions.at(-1);
const runResult = last?.output as RunResult;
const output: LongRunResult = {
  status: `${last?.status} in ${last?.state}`,
  result: runResult,
  manifest: { file: join(directory, runResult.manifest ?? ''), sha256: store.manifests },
  latest: store.latest?.manifest,
  executions,
  maxHistoryEvents,
  largestPayload,
  waits,
  retries,
  fetched: service.fetched,
  adopted,
  failures: failures.counts,
  memory,
  maxResidentBytes: maxResidentBytes(),
  virtualDays: ((last?.endedAt ?? 0) - startedAt) / 86_400_000,
};
process.stdout.write(`${JSON.stringify(output)}\n`);
log.close();
