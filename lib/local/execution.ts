/**
 * Runs one execution in this process. It does what the state machine does on AWS
 * (`../core/state-machine/definition.ts`): the same steps in the same order, with the same retry policy. A property
 * test compares the two. The differences: an event goes to `emit` only, a step has no timeout, because a second attempt
 * would run beside the first, and the execution can be interrupted.
 */

import { definitionOfState } from '../core/bounded-runs.ts';
import { isExportError } from '../core/errors.ts';
import { asRunId, type LoopState, type RunEnd, type RunResult, zeroTotals } from '../core/model.ts';
import type { StepDependencies } from '../core/ports.ts';
import type { Retrier } from '../core/state-machine/asl.ts';
import { continuationName, type StepName } from '../core/state-machine/definition.ts';
import { findRetrier, limitRetries, maxRetryDelaySeconds } from '../core/state-machine/retry-policy.ts';
import { beginRun } from '../core/steps/begin-run.ts';
import { exportPage } from '../core/steps/export-page.ts';
import { failRun } from '../core/steps/fail-run.ts';
import { finishRun } from '../core/steps/finish-run.ts';
import { nameIn } from '../core/start/start-input.ts';

export interface ExecutionStart {
  readonly name: string;
  readonly input: unknown;
}

export type ExecutionOutcome =
  | Extract<RunEnd, { readonly status: 'skipped' | 'failed' | 'interrupted' }>
  | { readonly status: 'completed'; readonly result: RunResult }
  | { readonly status: 'continued'; readonly next: ExecutionStart };

export interface Retry {
  readonly state: string;
  readonly error: string;
  readonly message: string;
  /** The number of the next retry, from 1, among those of errors that share a retrier. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** Whether the attempt has exported pages. Then the retries are counted from 1 again at the page that failed. */
  readonly hasProgressed?: boolean | undefined;
  readonly delaySeconds: number;
}

export interface ExecutionOptions {
  /** Stops the execution. What its run has stored and logged stays. */
  readonly signal?: AbortSignal;
  /** Called when a retry is due, before its delay. */
  readonly onRetry?: (retry: Retry) => void;
  /** How often a step is tried at most, per retrier. Absent, or more than the retry policy says: as it says. */
  readonly maxAttempts?: number;
  /** How many pages are in flight at most. Default: 8. */
  readonly maxInFlight?: number;
}

/** Identifies the execution in the export state, as its ARN does on AWS. */
export const executionId = (name: string): string => `local:${name}`;

/** How long one invocation may begin further pages and wait out short Retry-Afters. */
const maxInvocationMs = 60_000;

/** While the disk is awaited, or a body arrives slowly, other pages can be received. */
const defaultMaxInFlight = 8;

/** Runs the execution to its end. A failed run is an outcome. */
export async function runExecution(
  base: StepDependencies,
  start: ExecutionStart,
  options: ExecutionOptions = {},
): Promise<ExecutionOutcome> {
  // An execution that continues a bounded run names the state of that.
  const deps = withDefinition(base, nameIn(start.input));
  const { signal } = options;
  const execution = executionId(start.name);
  try {
    return await runSteps(deps, { execution, input: start.input }, options);
  } catch (error) {
    if (signal?.aborted) return { status: 'interrupted' };
    const { name, message } = asError(error);
    if (isExportError(error, 'RunSupersededError')) return { status: 'skipped', reason: message };
    try {
      const failure = { Error: name, Cause: message };
      const command = { failure, execution, startInput: start.input };
      const failed = await withRetries(deps, 'FailRun', () => failRun(deps, command), options);
      return signal?.aborted ? { status: 'interrupted' } : { status: 'failed', failed };
    } catch {
      if (signal?.aborted) return { status: 'interrupted' };
      // Report the error that led to FailRun, which is the one to act on.
      const failed = { export: deps.definition.name, run: null, since: null, ...zeroTotals, error: name, message };
      return { status: 'failed', failed: { ...failed, resumable: true } };
    }
  }
}

async function runSteps(
  allDeps: StepDependencies,
  { execution, input }: { readonly execution: string; readonly input: unknown },
  options: ExecutionOptions,
): Promise<ExecutionOutcome> {
  const { signal, maxInFlight = defaultMaxInFlight } = options;
  const step = <Result>(name: StepName, run: (onPage: () => void, retries: number) => Promise<Result>) =>
    withRetries(allDeps, name, run, options);

  const begun = await step('BeginRun', () => beginRun(allDeps, { input, execution }));
  if (begun.next === 'skip') return { status: 'skipped', reason: begun.reason, done: begun.done };
  const deps = withDefinition(allDeps, begun.export);
  let loop: LoopState = begun;
  let hasMore = begun.next === 'export';
  while (hasMore) {
    const invocation = { loop, execution, signal, maxInFlight };
    const exported = await step('ExportPage', (onPage, retries) =>
      exportPage(withPageListener(deps, onPage), { ...invocation, retries, ...invocationLimits(deps) }),
    );
    if (exported.next === 'continue') {
      const next = { export: exported.export, continues: execution, waits: exported.waits };
      return { status: 'continued', next: { name: continuationName(exported), input: next } };
    }
    if (exported.next === 'wait' || exported.next === 'queue') {
      await deps.runtime.sleep(exported.waitSeconds * 1_000, signal);
    }
    loop = exported;
    hasMore = exported.next !== 'finish';
  }
  const result = await step('FinishRun', () => finishRun(deps, { run: asRunId(loop.run), execution }));
  return { status: 'completed', result };
}

function withDefinition(deps: StepDependencies, stateName: unknown): StepDependencies {
  const found = typeof stateName === 'string' ? definitionOfState(deps.definition, stateName) : undefined;
  return found === undefined ? deps : { ...deps, definition: found };
}

function invocationLimits({ runtime: { monotonicNow } }: StepDependencies) {
  const retryAfterDeadline = monotonicNow() + maxInvocationMs;
  return { retryAfterDeadline, hasTime: () => monotonicNow() <= retryAfterDeadline };
}

function withPageListener(deps: StepDependencies, onPage: () => void): StepDependencies {
  return {
    ...deps,
    emit(event) {
      if (event.event === 'page-exported' || event.event === 'page-adopted') onPage();
      deps.emit(event);
    },
  };
}

/** Runs the step, and again after an error while the retry policy allows. Each retrier counts its own attempts. */
async function withRetries<Result>(
  { runtime }: Pick<StepDependencies, 'runtime'>,
  step: StepName,
  run: (onPage: () => void, retries: number) => Promise<Result>,
  { signal, onRetry, maxAttempts = Number.POSITIVE_INFINITY }: ExecutionOptions,
): Promise<Result> {
  const retries = new Map<Retrier, number>();
  for (let failedAttempts = 0; ; failedAttempts += 1) {
    signal?.throwIfAborted();
    let hasProgressed = false;
    try {
      return await run(() => {
        hasProgressed = true;
      }, failedAttempts);
    } catch (thrown) {
      const { name: error, message } = asError(thrown);
      const retrier = findRetrier(error, step);
      if (signal?.aborted || retrier === undefined) throw thrown;
      const attempt = (retries.get(retrier) ?? 0) + 1;
      retries.set(retrier, attempt);
      const { MaxAttempts } = limitRetries(retrier, maxAttempts);
      if (attempt > MaxAttempts) throw thrown;
      // Full jitter, as in the definition.
      const delaySeconds = maxRetryDelaySeconds(retrier, attempt) * randomFraction(runtime);
      onRetry?.({ state: step, error, message, attempt, maxAttempts: MaxAttempts, hasProgressed, delaySeconds });
      await runtime.sleep(delaySeconds * 1_000, signal);
    }
  }
}

const asError = (thrown: unknown): Pick<Error, 'name' | 'message'> =>
  thrown instanceof Error ? thrown : { name: 'Error', message: String(thrown) };

const randomFraction = (runtime: StepDependencies['runtime']): number =>
  Number.parseInt(runtime.randomHex(8), 16) / 16 ** 8;
