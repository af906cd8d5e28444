/** A test bench: an export with all its dependencies in memory, run by the real state machine. */

import { gunzipSync } from 'node:zlib';
import type { ExportDefinition, ExportState, RunLimits, RunResult } from '../../../lib/core/model.ts';
import type { ExportTarget } from '../../../lib/operator/target.ts';
import type { Incident } from '../../../lib/aws/step-functions/history.ts';
import type {
  ExportEvent,
  PageLog,
  ReportReader,
  ReportService,
  Runtime,
  StepDependencies,
} from '../../../lib/core/ports.ts';
import { type ExecutionStart, executionId, runExecution, type ExecutionOutcome } from '../../../lib/local/execution.ts';
import { beginRun } from '../../../lib/core/steps/begin-run.ts';
import { anExportDefinition, anExportRequest, collect, someLimits } from '../builders.ts';
import { type CrashPoint, createMemoryLog, createMemoryStore, type MemoryStore } from './memory-adapters.ts';
import {
  type Script,
  type ScriptedReport,
  type ScriptedService,
  scriptedService,
  someReports,
} from './scripted-service.ts';
import { aDeployment } from '../settings.ts';
import type { ExportSettings } from '../../../lib/settings/settings.ts';

export interface BenchOptions {
  readonly reports?: readonly ScriptedReport[];
  readonly script?: Script;
  readonly size?: number;
  /** The end of the pages has this status, and is no page. */
  readonly endStatus?: number | undefined;
  readonly limits?: Partial<RunLimits>;
  readonly definition?: Partial<ExportDefinition>;
  readonly crash?: CrashPoint;
  readonly log?: PageLog;
  readonly service?: ReportService;
  readonly pageReader?: ReportReader;
}

export interface Bench {
  readonly deps: StepDependencies;
  readonly store: MemoryStore;
  readonly log: PageLog;
  readonly service: ScriptedService;
  readonly events: readonly ExportEvent[];
  /** Milliseconds slept: inside invocations, between them, and before retries. */
  readonly slept: readonly number[];
  /** The executions that `isRunning` reports as running. */
  readonly running: Set<string>;
  /** Advances the clock. */
  advance(ms: number): void;
  /** Runs one execution of the state machine, and those in which it continues. */
  start(input?: unknown): Promise<ExecutionOutcome>;
  /** Runs one execution of the state machine. */
  execute(start: ExecutionStart): Promise<ExecutionOutcome>;
  /** A bench with the same store, log and clock, and another service or definition. */
  with(options: BenchOptions): Bench;
  /** The state of the export, which must have one. */
  state(): Promise<ExportState>;
  /** @throws Error if there is none */
  manifest(key: string | null): Manifest;
}

export interface Manifest {
  readonly run: string;
  readonly since: string;
  readonly totals: { readonly pages: number; readonly reports: number | null; readonly bytes: number };
  readonly pages: readonly {
    readonly page: number;
    readonly parent?: string;
    readonly key: string;
    readonly bytes: number;
    readonly sha256: string;
    readonly compression?: string;
    readonly storedBytes?: number;
    readonly storedSha256?: string;
    readonly reports: number | null;
    readonly cursor: string | null;
  }[];
  readonly [field: string]: unknown;
}

/** Shared by a bench with those created by `with`. */
interface Shared {
  readonly store: MemoryStore;
  readonly log: PageLog;
  readonly clock: { now: number; executions: number; random: number };
  readonly name: string | undefined;
}

/** More than any test needs, and few enough to be reached soon although each takes longer than the one before. */
const maxCalls = 1_000;

export function anExportBench(options: BenchOptions = {}, shared?: Shared): Bench {
  const { store, log, clock, name } = shared ?? {
    store: createMemoryStore(options.crash),
    log: createMemoryLog(options.crash),
    clock: { now: Date.UTC(2026, 10, 20, 2), executions: 0, random: 0 },
    name: undefined,
  };
  const service = scriptedService(
    options.reports ?? someReports(5),
    options.script,
    () => clock.now,
    options.endStatus,
  );
  const events: ExportEvent[] = [];
  const slept: number[] = [];
  const running = new Set<string>();
  const runtime: Runtime = {
    now: () => clock.now,
    monotonicNow: () => clock.now,
    sleep: async (ms) => {
      slept.push(ms);
      clock.now += ms;
    },
    randomHex: (length) => {
      clock.random += 1;
      return clock.random.toString(16).padStart(length, '0');
    },
  };
  const definition = anExportDefinition({
    ...(name === undefined ? {} : { name }),
    request: anExportRequest({ size: options.size ?? 2 }),
    limits: someLimits(options.limits),
    ...options.definition,
  });
  // In memory, nothing but promises is awaited, so no timeout of a test could end an export that never ends.
  let calls = 0;
  const countCall = () => {
    calls += 1;
    if (calls > maxCalls) throw new Error(`the export has not ended after ${maxCalls} reads of its state and requests`);
  };
  const deps: StepDependencies = {
    definition,
    service: {
      async fetch(...request) {
        countCall();
        return await (options.service ?? service).fetch(...request);
      },
    },
    pageReader: options.pageReader,
    store,
    // A test may replace methods of the log.
    log: Object.assign(Object.create(log) as PageLog, {
      async exportState(name: string) {
        countCall();
        return await log.exportState(name);
      },
    }),
    executions: { status: async (execution) => (running.has(execution) ? 'running' : 'unknown') },
    runtime,
    emit: (event) => events.push(event),
  };
  const execute = (start: ExecutionStart) => runExecution(deps, start);
  return {
    deps,
    store,
    log,
    service,
    events,
    slept,
    running,
    advance(ms) {
      clock.now += ms;
    },
    async start(input = {}) {
      clock.executions += 1;
      let end = await execute({ name: `execution-${clock.executions}`, input });
      while (end.status === 'continued') end = await execute(end.next);
      return end;
    },
    execute,
    with: (changed) =>
      anExportBench({ ...options, ...changed }, { store, log: changed.log ?? log, clock, name: definition.name }),
    async state() {
      const state = await log.exportState(definition.name);
      if (state === undefined) throw new Error('the export has no state');
      return state;
    },
    manifest(key) {
      const text = store.objects.get(key ?? '');
      if (text === undefined) throw new Error(`no manifest at ${key}`);
      return JSON.parse(text);
    },
  };
}

export { executionId };

export function completed(end: ExecutionOutcome): RunResult {
  if (end.status !== 'completed') throw new Error(`expected a completed run, got ${JSON.stringify(end)}`);
  return end.result;
}

export function failed(end: ExecutionOutcome) {
  if (end.status !== 'failed') throw new Error(`expected a failed run, got ${JSON.stringify(end)}`);
  return end.failed;
}

/** Begins or resumes the run that `execution` is to export. */
export async function begin(deps: StepDependencies, execution: string, input: unknown = {}) {
  const begun = await beginRun(deps, { input, execution });
  if (begun.next === 'skip') throw new Error(begun.reason);
  return begun;
}

/** The numbers of the pages of the active run that are logged. */
export async function loggedPages(bench: Bench): Promise<number[]> {
  const { active } = await bench.state();
  return active === undefined ? [] : (await collect(bench.log.entries(active))).map(({ page }) => page);
}

/** The start of the execution in which the run continues. */
export function continued(end: ExecutionOutcome): ExecutionStart {
  if (end.status !== 'continued') throw new Error(`expected the run to continue, got ${JSON.stringify(end)}`);
  return end.next;
}

/** A bench that is cut off at `moment`, until `resume` ends the outage. */
export function cutOffAt(moment: string, options: BenchOptions = {}) {
  let isDown = true;
  const crash = (at: string) => {
    if (isDown && at === moment) throw new Error('cut off');
  };
  return {
    bench: anExportBench({ ...options, crash }),
    resume: () => {
      isDown = false;
    },
  };
}

/** The export as the operator's commands see it, without a schedule. The history has its `lastIncident`. */
export function asExportTarget(bench: Bench, lastIncident?: Incident): ExportTarget {
  const { definition, executions, service } = bench.deps;
  const described = aDeployment({ vendor: 'ACME' }, { name: definition.name });
  return {
    name: definition.name,
    definition,
    serviceName: 'acme',
    service: {
      address: definition.request.source,
      settings: described.service,
      api: (described.exports[0] as ExportSettings).api,
      keySource: 'a test',
      describeNetwork: async () => '',
      connect: async () => ({
        fetch: (...request) => service.fetch(...request),
        [Symbol.asyncDispose]: async () => {},
      }),
    },
    store: bench.store,
    log: bench.log,
    executions,
    readSchedule: async () => ({ kind: 'manual' }),
    lastIncident: async () => lastIncident,
    start: async () => {
      throw new Error('use bench.start()');
    },
  };
}

/** The IDs of the reports in the manifest's pages, in order. */
export function reportIdsOf(bench: Bench, manifestKey: string | null): string[] {
  return bench
    .manifest(manifestKey)
    .pages.flatMap(({ key }) => [...pageAt(bench, key).matchAll(/id="([^"]+)"/g)].map(([, id]) => id ?? ''));
}

/** The page at `key`, one character per byte; empty if there is none. */
export function pageAt({ store }: Bench, key: string): string {
  const object = Buffer.from(store.objects.get(key) ?? '', 'latin1');
  return (key.endsWith('.gz') ? gunzipSync(object) : object).toString('latin1');
}

/** The keys of stored pages and manifests. */
export const pagesIn = ({ store }: Pick<Bench, 'store'>) =>
  [...store.objects.keys()].filter((key) => key.includes('/page-'));
export const manifestsIn = ({ store }: Pick<Bench, 'store'>) =>
  [...store.objects.keys()].filter((key) => key.endsWith('/manifest.json'));

/** The manifests of all published runs. */
export const manifestsOf = (bench: Pick<Bench, 'store'>): Manifest[] =>
  manifestsIn(bench).map((key) => JSON.parse(bench.store.objects.get(key) ?? ''));
