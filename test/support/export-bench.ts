/**
 * An export with everything it needs in memory, and the real state machine to run it: `start()` makes one execution,
 * and those it continues in.
 */

import type { ExportDefinition, ExportState, RunLimits } from '../../lib/core/model.ts';
import type { ExportEvent, PageLog, RunHistory, Runtime, StepDependencies } from '../../lib/core/ports.ts';
import {
  type LocalExecutionOutcome,
  type ExecutionStart,
  executionId,
  interpretExecution,
} from '../../lib/local/interpreter.ts';
import { anExportDefinition, anExportRequest, someLimits } from './builders.ts';
import { type CrashPoint, createMemoryLog, createMemoryStore, type MemoryStore } from './memory-adapters.ts';
import {
  type Script,
  type ScriptedReport,
  type ScriptedService,
  scriptedService,
  someReports,
} from './scripted-service.ts';

export interface BenchOptions {
  readonly reports?: readonly ScriptedReport[];
  readonly script?: Script;
  readonly size?: number;
  readonly limits?: Partial<RunLimits>;
  readonly definition?: Partial<ExportDefinition>;
  readonly crash?: CrashPoint;
  readonly log?: PageLog & RunHistory;
}

export interface Bench {
  readonly deps: StepDependencies;
  readonly store: MemoryStore;
  readonly log: PageLog & RunHistory;
  readonly service: ScriptedService;
  readonly events: readonly ExportEvent[];
  /** Milliseconds slept inside invocations. */
  readonly slept: readonly number[];
  /** Executions that `isRunning` says are alive. */
  readonly running: Set<string>;
  /** Moves the clock on. */
  pass(ms: number): void;
  /** One execution of the machine, and those it continues in. */
  start(input?: unknown): Promise<LocalExecutionOutcome>;
  /** One execution of the machine. */
  execute(start: ExecutionStart): Promise<LocalExecutionOutcome>;
  /** The same store, log and clock with another service or definition. */
  with(options: BenchOptions): Bench;
  head(): Promise<ExportState>;
  manifest(key: string): Manifest;
}

export interface Manifest {
  readonly run: string;
  readonly since: string;
  readonly totals: { readonly pages: number; readonly reports: number | null; readonly bytes: number };
  readonly pages: readonly {
    readonly page: number;
    readonly key: string;
    readonly bytes: number;
    readonly sha256: string;
    readonly reports: number | null;
    readonly cursor: string | null;
  }[];
  readonly [field: string]: unknown;
}

interface Kept {
  readonly store: MemoryStore;
  readonly log: PageLog & RunHistory;
  readonly clock: { now: number; executions: number; random: number };
  readonly name: string | undefined;
}

export function anExportBench(options: BenchOptions = {}, kept?: Kept): Bench {
  const { store, log, clock, name } = kept ?? {
    store: createMemoryStore(options.crash),
    log: createMemoryLog(options.crash),
    clock: { now: Date.UTC(2026, 10, 20, 2), executions: 0, random: 0 },
    name: undefined,
  };
  const service = scriptedService(options.reports ?? someReports(5), options.script);
  const events: ExportEvent[] = [];
  const slept: number[] = [];
  const running = new Set<string>();
  const runtime: Runtime = {
    now: () => clock.now,
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
  const deps: StepDependencies = {
    definition,
    service,
    store,
    log,
    executions: { isRunning: async (execution) => running.has(execution) },
    runtime,
    emit: (event) => events.push(event),
  };
  const execute = (start: ExecutionStart) => interpretExecution(deps, start, { pauseSeconds: 0 });
  return {
    deps,
    store,
    log,
    service,
    events,
    slept,
    running,
    pass(ms) {
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
    async head() {
      const head = await log.exportState(definition.name);
      if (head === undefined) throw new Error('no export state was written');
      return head;
    },
    manifest(key) {
      const text = store.objects.get(key);
      if (text === undefined) throw new Error(`no manifest at ${key}`);
      return JSON.parse(text);
    },
  };
}

export { executionId };

/** The ids of every report in the manifest's pages, in order. */
export function reportIdsOf(bench: Bench, manifestKey: string): string[] {
  return bench
    .manifest(manifestKey)
    .pages.flatMap(({ key }) =>
      [...(bench.store.objects.get(key) ?? '').matchAll(/id="([^"]+)"/g)].map(([, id]) => id ?? ''),
    );
}
