/** Runs an export on this machine, with a directory and SQLite, one execution after another. */

import { readdirSync } from 'node:fs';
import { ExportError } from '../core/errors.ts';
import { definitionOfStart } from '../core/bounded-runs.ts';
import type { RunEnd } from '../core/model.ts';
import { createRequestRate, type RateLimit, rateRecord } from '../core/slots/request-rate.ts';
import type { StartRequest } from '../core/start/start-input.ts';
import type { EventSink, StepDependencies } from '../core/ports.ts';
import { explained } from './durable-fs.ts';
import { createDirectoryPageStore } from './page-store.ts';
import { executionId, type ExecutionOptions, type ExecutionStart, type Retry, runExecution } from './execution.ts';
import { acquireExportLock } from './lock.ts';
import { pageLogIn, sourcesIn } from './sqlite/page-log.ts';
import { sharedRecordIn } from './sqlite/shared-record.ts';
import { openStateFile, type StateFile, stateFileIn } from './sqlite/state-file.ts';
import { manifestAddress } from '../core/storage/keys.ts';

export interface LocalRunOptions
  extends ExecutionOptions, Omit<StepDependencies, 'store' | 'log' | 'executions' | 'rate'> {
  /** The directory for pages and state. Created if needed. */
  readonly out: string;
  readonly startInput: StartRequest;
  /** The rate of the service. Processes of the same directory share it. */
  readonly rateLimit?: RateLimit | undefined;
}

export interface LocalStartOptions {
  readonly emit: EventSink;
  /** Receives other messages for the operator. */
  readonly notify: (text: string) => void;
  readonly onRetry: (retry: Retry) => void;
  /** How often a step is tried at most, per kind of error. */
  readonly maxAttempts?: number | undefined;
  readonly signal: AbortSignal;
}

/** What the names of executions that export a bounded run begin with. No other name has a slash. */
const boundedPrefix = 'bounded/';

export const isBoundedExecution = (execution: string): boolean => execution.startsWith(executionId(boundedPrefix));

/**
 * The lock of the process that exports bounded runs of the export, beside the one with its other runs. No export has
 * this name.
 */
export const boundedLockName = (exportName: string): string => `${exportName}/bounded`;

/**
 * Begins a run, or resumes an unfinished one, and takes as many executions as it needs. Resolves to the outcome of the
 * run, including a failed one. While another process runs the export, the outcome is `skipped`.
 *
 * @throws ConfigurationError if the directory or the SQLite file cannot be used, if the name of a new export differs
 *   from that of another one only in case, or while another process exports other bounds
 */
export async function runLocally({ out, startInput, rateLimit: limit, ...run }: LocalRunOptions): Promise<RunEnd> {
  const { definition, runtime } = run;
  const { name } = definition;
  const { stateName } = definitionOfStart(definition, startInput);
  const isBounded = stateName !== name;
  using lock = acquireExportLock(out, isBounded ? boundedLockName(name) : name);
  if (lock === undefined) {
    if (isBounded) await assertUnfinished(out, name, stateName);
    const what = isBounded ? `this bounded run of ${name}` : name;
    return { status: 'skipped', reason: `another process is exporting ${what} to ${out}` };
  }
  using state = openStateFile(stateFileIn(out), { create: true });
  assertDistinctName(name, out, state);
  const record = sharedRecordIn(state, `rate of ${definition.request.source}`, rateRecord, runtime);
  const deps: StepDependencies = {
    ...run,
    rate: limit && createRequestRate({ record, limit, runtime }),
    store: createDirectoryPageStore(out, state),
    log: pageLogIn(state),
    // The lock excludes other processes, and this process runs its executions one after another.
    executions: { status: async () => 'unknown' },
  };
  const prefix = isBounded ? boundedPrefix : '';
  let start: ExecutionStart = { name: `${prefix}${runtime.randomHex(12)}`, input: startInput };
  for (;;) {
    const outcome = await runExecution(deps, start, run);
    if (outcome.status === 'continued') start = { ...outcome.next, name: `${prefix}${outcome.next.name}` };
    else if (outcome.status !== 'completed') return outcome;
    else return { ...outcome, manifest: manifestAddress(outcome.result, deps.store) };
  }
}

/**
 * @throws ConfigurationError unless the bounded run is the unfinished one: the process that runs exports others then
 */
async function assertUnfinished(out: string, exportName: string, stateName: string): Promise<void> {
  using state = openStateFile(stateFileIn(out));
  if ((await pageLogIn(state).exportState(stateName))?.active !== undefined) return;
  const message = `Another process is exporting another bounded run of ${exportName} to ${out}. Start again once it has ended`;
  throw new ExportError('ConfigurationError', message);
}

/** @throws ConfigurationError if another export of the directory has a name that differs only in its case */
function assertDistinctName(exportName: string, out: string, state: StateFile): void {
  // The folders, too: a directory whose state was moved away keeps them.
  const other = [...sourcesIn(state).keys(), ...explained('list', out, () => readdirSync(out))].find(
    (existing) => existing !== exportName && existing.toLowerCase() === exportName.toLowerCase(),
  );
  if (other === undefined) return;
  throw new ExportError(
    'ConfigurationError',
    `${exportName}: ${out} has the export ${other} already, and where file names ignore case, both would share a folder. ` +
      'Choose a name that differs in more than case, or another directory',
  );
}
