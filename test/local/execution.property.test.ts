/** The loop of local runs does what the deployed state machine does: compared with it under the same faults. */

import { describe, expect } from 'vitest';
import { ExportError } from '../../lib/core/errors.ts';
import type { Runtime, StepDependencies } from '../../lib/core/ports.ts';
import { byStep } from '../../lib/core/state-machine/definition.ts';
import { executionId, type ExecutionStart, runExecution } from '../../lib/local/execution.ts';
import { type Bench, anExportBench } from '../support/export/export-bench.ts';
import { execute, executionArn, type Functions, stepFunctions } from '../support/export/function-machine.ts';
import { type Script, someReports } from '../support/export/scripted-service.ts';
import { cases, fc, test } from '../support/property.ts';

/** The visible effects of a start. */
interface Observed {
  readonly status: string;
  /** The result of a completed run; for a failed one, the record of FailRun, or the error if there is none. */
  readonly detail: unknown;
  readonly retries: readonly string[];
  readonly waits: readonly number[];
}

type Run = (bench: Bench, start: ExecutionStart) => Promise<Observed & { readonly next?: ExecutionStart | undefined }>;

const countFailures = ({ events }: Bench): number => events.filter(({ event }) => event === 'run-failed').length;

/** Only the monotonic clock advances: a Retry-After is over when it has been waited for. */
function withoutSleep(runtime: Runtime, onSleep: (ms: number) => void): Runtime {
  let elapsed = 0;
  return {
    ...runtime,
    monotonicNow: () => runtime.monotonicNow() + elapsed,
    async sleep(ms) {
      elapsed += ms;
      onSleep(ms);
    },
  };
}

const runLoop: Run = async (bench, start) => {
  const { deps } = bench;
  const failuresBefore = countFailures(bench);
  const retries: string[] = [];
  const pauses: number[] = [];
  const runtime = withoutSleep(deps.runtime, (ms) => pauses.push(ms));
  const end = await runExecution({ ...deps, runtime }, start, {
    onRetry: ({ state, error }) => void retries.push(`${state}: ${error}`),
  });
  // Without jitter, a pause before a retry is none.
  const waits = pauses.filter((ms) => ms > 0).map((ms) => ms / 1_000);
  const observed = { status: end.status, retries, waits };
  if (end.status === 'completed') return { ...observed, detail: end.result };
  if (end.status === 'failed') {
    const { error, message } = end.failed;
    return { ...observed, detail: countFailures(bench) > failuresBefore ? end.failed : { error, message } };
  }
  return { ...observed, detail: undefined, ...(end.status === 'continued' ? { next: end.next } : {}) };
};

/** The steps as the state machine's tasks, with the limits of a local invocation. */
function functionsOf(deps: StepDependencies): Functions {
  const run = async <Result>(step: () => Promise<Result>): Promise<Result> => {
    try {
      return await step();
    } catch (error) {
      // Like Lambda, pass on the name and the message only.
      const { name, message } = error as Error;
      throw Object.assign(new Error(message), { name });
    }
  };
  const limits = () => ({ maxInFlight: 8, retryAfterDeadline: deps.runtime.monotonicNow() + 60_000 });
  const steps = stepFunctions(deps, limits);
  return byStep(
    (step) =>
      (...call) =>
        run(() => steps[step](...call)),
  );
}

const runDefinition: Run = async (bench, { name, input }) => {
  const { deps } = bench;
  const failuresBefore = countFailures(bench);
  const inside: number[] = [];
  const runtime = withoutSleep(deps.runtime, (ms) => inside.push(ms / 1_000));
  const end = await execute(functionsOf({ ...deps, runtime }), { name, input });
  const retries: string[] = [];
  const waits: number[] = [];
  for (const event of end.history) {
    if (event.type === 'task-failed' && event.retryInMs !== undefined) retries.push(`${event.state}: ${event.error}`);
    if (event.type === 'entered' && event.state.startsWith('WaitFor'))
      waits.push((event.data as { readonly waitSeconds: number }).waitSeconds);
  }
  const observed = { retries, waits: [...inside, ...waits] };
  if (end.next !== undefined) return { ...observed, status: 'continued', detail: undefined, next: end.next };
  if (end.status === 'failed') {
    const [{ failed }] = end.events as readonly [{ readonly failed: object }];
    const recorded =
      countFailures(bench) > failuresBefore
        ? failed
        : { message: (JSON.parse(end.cause ?? '') as { readonly errorMessage: string }).errorMessage };
    return { ...observed, status: 'failed', detail: { ...recorded, error: end.error } };
  }
  const isSkipped = end.states.at(-1) === 'Skipped';
  return {
    ...observed,
    status: isSkipped ? 'skipped' : 'completed',
    detail: isSkipped ? undefined : end.output,
  };
};

type Fault = keyof typeof faults;

/** What the service answers, or an effect of a store throws. */
const faults = {
  none: undefined,
  outage: () => new ExportError('ServiceUnavailableError', 'responded with 503'),
  contract: () => new ExportError('ContractError', 'responded with bad XML'),
  rejected: () => new ExportError('RequestRejectedError', 'responded with 400'),
  cursor: () => new ExportError('CursorRejectedError', 'responded with 400'),
  'short wait': () => new ExportError('ServiceThrottledError', '429', { retryAfterSeconds: 7 }),
  'long wait': () => new ExportError('ServiceThrottledError', '429', { retryAfterSeconds: 120 }),
  'too long a wait': () => new ExportError('ServiceThrottledError', '429', { retryAfterSeconds: 10_000_000 }),
  throttled: () => new ExportError('ServiceThrottledError', 'responded with 429'),
  superseded: () => new ExportError('RunSupersededError', 'the run belongs to another execution'),
  unknown: () => new Error('disk full'),
} as const satisfies Record<string, (() => Error) | undefined>;

const faultNames = Object.keys(faults) as Fault[];
/** Long stretches of one fault exhaust its retries; single ones are survived. */
const faultsInTurn = fc
  .array(fc.tuple(fc.constantFrom(...faultNames), fc.constantFrom(1, 1, 1, 3, 25)), { maxLength: 8 })
  .map((stretches) => stretches.flatMap(([fault, count]) => Array.from({ length: count }, () => fault)));

const plan = fc.record({
  reports: fc.integer({ min: 0, max: 12 }),
  iterationsPerExecution: fc.integer({ min: 1, max: 6 }),
  pagesPerInvocation: fc.constantFrom(1, 3),
  requests: faultsInTurn,
  effects: faultsInTurn,
  input: fc.constantFrom({}, { since: '2026-11-01T00:02:00Z' }, { since: 'no date' }, { restart: true }),
});

async function observe(run: Run, given: typeof plan extends fc.Arbitrary<infer Plan> ? Plan : never) {
  const trace: unknown[] = [];
  const throwNext = (faultsLeft: Fault[]): void => {
    const fault = faults[faultsLeft.shift() ?? 'none'];
    if (fault !== undefined) throw fault();
  };
  const requests = [...given.requests];
  const effects = [...given.effects];
  const script: Script = ({ cursor }) => {
    trace.push(['request', cursor]);
    throwNext(requests);
    return undefined;
  };
  const bench = anExportBench({
    reports: someReports(given.reports),
    script,
    definition: { name: 'reports' },
    limits: { iterationsPerExecution: given.iterationsPerExecution, pagesPerInvocation: given.pagesPerInvocation },
    crash: (moment) => {
      trace.push(moment);
      throwNext(effects);
    },
  });
  const { runtime } = bench.deps;
  let random = 0;
  const still = {
    ...bench,
    deps: {
      ...bench.deps,
      runtime: {
        ...runtime,
        // No jitter: the pauses before retries are zero, and those of waits are not.
        randomHex: (length: number) => (length === 8 ? '0' : String((random += 1))).padStart(length, '0'),
      },
    },
  };
  const starts: Observed[] = [];
  for (const name of ['first', 'second']) {
    let next: ExecutionStart | undefined = { name, input: given.input };
    while (next !== undefined) {
      const { next: continued, ...observed } = await run(still, next);
      starts.push({ ...observed, waits: [...observed.waits].sort((a, b) => a - b) });
      next = continued && { ...continued };
    }
  }
  const state = await bench.log.exportState(bench.deps.definition.name);
  const observed = { starts, trace, events: bench.events, objects: [...bench.store.objects], state };
  return JSON.parse(JSON.stringify(observed).replaceAll(executionArn(''), executionId(''))) as unknown;
}

describe('the loop of a local run', () => {
  test.prop([plan], { numRuns: cases(400) })(
    'sends the same requests, waits, retries and ends as the deployed state machine, whatever fails',
    async (given) => {
      expect(await observe(runLoop, given)).toEqual(await observe(runDefinition, given));
    },
  );
});
