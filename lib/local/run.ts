/** Runs an export on this machine: the state machine over a directory and SQLite, execution after execution. */

import { join } from 'node:path';
import type { ExportDefinition } from '../core/model.ts';
import type { RunEnd, StartRequest } from '../core/operations/deployment.ts';
import type { EventSink, ReportService, Runtime } from '../core/ports.ts';
import { createDirectoryPageStore } from './files/page-store.ts';
import { type ExecutionStart, type InterpretOptions, interpretExecution } from './interpreter.ts';
import { acquireExportLock } from './lock.ts';
import { createSqlitePageLog } from './sqlite/page-log.ts';

export interface LocalRun extends Omit<InterpretOptions, 'onRetry'> {
  readonly definition: ExportDefinition;
  readonly service: ReportService;
  /** The directory where pages and state live; made if it is not there. */
  readonly out: string;
  readonly startInput: StartRequest;
  readonly runtime: Runtime;
  /** Opened on the state's file once this process alone works on the export, and closed at the end. */
  readonly watching: (stateFile: string) => LocalWatching;
}

interface LocalWatching extends Required<Pick<InterpretOptions, 'onRetry'>> {
  readonly emit: EventSink;
  close(): void;
}

/**
 * Makes one run, or the rest of an unfinished one, through as many executions as it takes. Resolves to how it ended; a
 * failed run is an outcome, not an exception. While one process works on an export, every other is skipped.
 *
 * @throws ExportError where the directory or the SQLite file cannot be worked with.
 */
export async function runLocally({ out, startInput, watching: watch, ...run }: LocalRun): Promise<RunEnd> {
  const { definition, runtime } = run;
  const lock = acquireExportLock(out, definition.name);
  if (lock === undefined) {
    return { status: 'skipped', reason: `another process is exporting ${definition.name} to ${out}` };
  }
  try {
    const store = createDirectoryPageStore(out);
    const file = join(out, 'state.sqlite');
    const log = createSqlitePageLog(file);
    let watching: LocalWatching | undefined;
    try {
      watching = watch(file);
      const { emit, onRetry } = watching;
      // The lock says that no other process is at work on the export, and this one makes its executions one by one.
      const executions = { isRunning: () => Promise.resolve(false) };
      let start: ExecutionStart = { name: runtime.randomHex(12), input: startInput };
      for (;;) {
        const end = await interpretExecution({ ...run, emit, store, log, executions }, start, { ...run, onRetry });
        if (end.status === 'completed') return { ...end, manifest: store.locate(end.result.manifest) };
        if (end.status !== 'continued') return end;
        start = end.next;
      }
    } finally {
      watching?.close();
      log.close();
      store.close();
    }
  } finally {
    lock.release();
  }
}
