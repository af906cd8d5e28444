/** A directory in which exports run on this machine, as a deployment that operators' commands work with. */

import { ExportError } from '../core/errors.ts';
import type { ExportDefinition } from '../core/model.ts';
import {
  type DeployedExport,
  type Deployment,
  type RunEnd,
  type StartOptions,
  type StartRequest,
  unreadableExport,
} from '../target/target.ts';
import type { Runtime } from '../core/ports.ts';
import { listNames, shellQuote } from '../core/sanitize.ts';
import { exportDefinition } from '../settings/settings.ts';
import { createDirectoryPageStore } from './files/page-store.ts';
import { startLocalBackfill } from './backfill.ts';
import { assertWritable, isFilePresent } from './durable-fs.ts';
import { acquireExportLock, isBackfillLocked, isExportLocked } from './lock.ts';
import { observeRun } from './run-observer.ts';
import { isWindowExecution, runLocally, stateFileIn } from './run.ts';
import { localService } from './service.ts';
import { type LocalExport, type LocalExportInput, localExportSchema } from './settings.ts';
import { openSqlitePageLog } from './sqlite/page-log.ts';
import { readRunNotes, type RunNotesReader } from './sqlite/run-notes.ts';

export interface LocalDeploymentOptions {
  readonly out: string;
  readonly env: NodeJS.ProcessEnv;
  readonly runtime: Runtime;
}

/** @throws ConfigurationError if no export has run in the directory, or its state cannot be read */
export function openLocalDeployment(options: LocalDeploymentOptions): Deployment {
  const { out } = options;
  const stateFile = stateFileIn(out);
  if (!isFilePresent(stateFile)) {
    throw new ExportError(
      'ConfigurationError',
      `No export has run in ${out}: ${stateFile} does not exist. Run an export into it first with the command local, or choose another directory`,
    );
  }
  const notes = readRunNotes(stateFile);
  const store = createDirectoryPageStore(out);
  // Opened once for all exports: they share the file.
  let log: ReturnType<typeof openSqlitePageLog> | undefined;
  const open = (exportName: string): DeployedExport => {
    const settings = notes.settings(exportName);
    if (settings === undefined) throw unknownExport(exportName, out, notes.exportNames());
    log ??= openSqlitePageLog(stateFile);
    return deployedExport(options, settings, { notes, log, backfills: log.backfills, store });
  };
  return {
    name: `directory ${out}`,
    option: directoryOption(out),
    exportNames: async () => notes.exportNames(),
    open: async (exportName) => open(exportName),
    alarmTopic: async () => undefined,
    concurrency: async () => undefined,
    openAll: async () =>
      notes.exportNames().map((exportName) => {
        try {
          return open(exportName);
        } catch (error) {
          return unreadableExport(exportName, null, error);
        }
      }),
    async [Symbol.asyncDispose]() {
      notes.close();
      log?.close();
      store.close();
    },
  };
}

/**
 * Starts an export with the given settings, and saves them for later commands once the run has begun.
 * @throws ZodError if the settings are invalid, ConfigurationError if the directory cannot be used
 */
export async function startLocalExport(
  options: LocalDeploymentOptions,
  settings: LocalExportInput,
  request: StartRequest,
  startOptions: StartOptions,
): Promise<RunEnd> {
  return await startRun(options, localExportSchema.parse(settings), request, startOptions, settings);
}

/** The option with which commands act on the directory. */
export const directoryOption = (out: string): string => `--out ${shellQuote(out)}`;

function unknownExport(exportName: string, out: string, names: readonly string[]): ExportError {
  const existing = names.length === 0 ? 'It has no exports yet' : `Its exports: ${listNames(names)}`;
  return new ExportError('ConfigurationError', `There is no export ${exportName} in directory ${out}. ${existing}`);
}

interface LocalStores extends Pick<DeployedExport, 'log' | 'backfills'> {
  readonly notes: RunNotesReader;
  readonly store: ReturnType<typeof createDirectoryPageStore>;
}

function deployedExport(
  options: LocalDeploymentOptions,
  settings: LocalExport,
  { notes, log, backfills, store }: LocalStores,
): DeployedExport {
  const { out, env, runtime } = options;
  const { name } = settings.export;
  const service = localService(settings, env, runtime);
  const definition = definitionOf(settings, service.address);
  return {
    name,
    definition,
    service,
    serviceName: service.address,
    store,
    log,
    backfills,
    executions: {
      isRunning: async (execution) =>
        isWindowExecution(execution) ? isBackfillLocked(out, name) : isExportLocked(out, name),
      // Each process has executions of its own.
      hasEnded: async () => false,
    },
    async checkWritable(folders) {
      assertWritable(stateFileIn(out));
      // Undefined while an export is running, which then holds the lock.
      acquireExportLock(out, name)?.release();
      for (const folder of folders) await store.checkWritable(folder);
    },
    nextStart: async () => ({ kind: 'manual' }),
    incidents: (run) => notes.incidents.read(run),
    start: (request, startOptions) => startRun(options, settings, request, startOptions),
    startBackfill: (request, backfillOptions) =>
      startLocalBackfill({ ...options, name, definition, service, log, backfills, store }, request, backfillOptions),
    // Its windows are exported by the process that has started it.
    stopBackfill: async () => undefined,
  };
}

/**
 * Within an invocation, pages are fetched concurrently; between two, nothing is in flight. If one fails after it has
 * logged pages, its retry returns at once, and the attempts are counted from 1 again.
 */
const pagesPerInvocation = 1_000;

function definitionOf({ export: settings, service, compression }: LocalExport, source: string): ExportDefinition {
  // The simulator has a root element of its own.
  const { rootElement } = service.baseUrl === undefined ? {} : service;
  return exportDefinition({ ...settings, pagesPerInvocation }, source, { rootElement, compression });
}

async function startRun(
  { out, env, runtime }: LocalDeploymentOptions,
  settings: LocalExport,
  startInput: StartRequest,
  { signal, maxAttempts, ...listeners }: StartOptions,
  settingsToSave?: LocalExportInput,
): Promise<RunEnd> {
  const service = localService(settings, env, runtime);
  await using client = await service.connect(listeners.say);
  return await runLocally({
    definition: definitionOf(settings, service.address),
    service: client,
    out,
    startInput,
    runtime,
    signal,
    maxAttempts,
    openObserver: (stateFile) => observeRun(stateFile, listeners, runtime, settingsToSave),
  });
}
