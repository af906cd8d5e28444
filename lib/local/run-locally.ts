/** Runs an export on this machine: the state machine over a directory and SQLite, execution after execution. */

import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ExportDefinition, FailedRun, RunResult } from '../core/model.ts';
import type { EventSink, ReportService, Surroundings } from '../core/ports.ts';
import { createDirectoryPageStore } from './directory-page-store.ts';
import { acquireExportLock } from './export-lock.ts';
import { type ExecutionStart, type InterpretOptions, interpretExecution } from './interpret-execution.ts';
import { createSqlitePageLog } from './sqlite-page-log.ts';

export interface LocalRun extends InterpretOptions {
  readonly definition: ExportDefinition;
  readonly service: ReportService;
  /** The directory where pages and state live; made if it is not there. */
  readonly out: string;
  readonly startInput: { readonly since?: string; readonly restart?: boolean };
  readonly surroundings: Surroundings;
  readonly emit: EventSink;
}

export type LocalOutcome =
  | { readonly status: 'completed'; readonly result: RunResult; readonly manifest: string }
  | { readonly status: 'skipped'; readonly reason: string }
  | { readonly status: 'failed'; readonly failed: FailedRun }
  | { readonly status: 'interrupted' };

/**
 * Makes one run, or the rest of an unfinished one, through as many executions as it takes. Resolves to how it ended; a
 * failed run is an outcome, not an exception. While one process works on an export, every other is skipped.
 *
 * @throws ExportError where the directory or the SQLite file cannot be worked with.
 */
export async function runLocally({ out, startInput, ...run }: LocalRun): Promise<LocalOutcome> {
  const { definition, surroundings } = run;
  const lock = acquireExportLock(out, definition.name);
  if (lock === undefined) {
    return { status: 'skipped', reason: `another process is exporting ${definition.name} to ${out}` };
  }
  try {
    const store = createDirectoryPageStore(out);
    const log = createSqlitePageLog(join(out, 'state.sqlite'));
    try {
      // The lock says that no other process is at work on the export, and this one makes its executions one by one.
      const executions = { isRunning: () => Promise.resolve(false) };
      let start: ExecutionStart = { name: surroundings.randomHex(12), input: startInput };
      for (;;) {
        const end = await interpretExecution({ ...run, store, log, executions }, start, run);
        if (end.status === 'completed') return { ...end, manifest: store.locate(end.result.manifest) };
        if (end.status !== 'continued') return end;
        start = end.next;
      }
    } finally {
      log.close();
    }
  } finally {
    lock.release();
  }
}

/** The machine's own clock, timers and chance. */
export const realSurroundings: Surroundings = {
  now: Date.now,
  sleep: async (ms, signal) => {
    await sleep(ms, undefined, signal === undefined ? {} : { signal });
  },
  randomHex: (length) =>
    Array.from(crypto.getRandomValues(new Uint8Array(length)), (byte) => (byte & 15).toString(16)).join(''),
};
