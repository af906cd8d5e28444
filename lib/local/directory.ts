/** A directory in which exports run on this machine, as a deployment that operators' commands work with. */

import { ExportError, isExportError } from '../core/errors.ts';
import type { ExportDefinition } from '../core/model.ts';
import {
  type ExportTarget,
  type Target,
  type RunEnd,
  type SettingsOrigin,
  type StartOptions,
  type StartRequest,
  unreadableExport,
} from '../target/target.ts';
import type { Runtime } from '../core/ports.ts';
import { listNames, shellQuote, toPrintable, truncate } from '../core/sanitize.ts';
import { instantOf } from '../core/timestamps.ts';
import { settingsVersion } from '../settings/deployed-settings.ts';
import { exportDefinition } from '../settings/settings.ts';
import { createDirectoryPageStore } from './files/page-store.ts';
import { assertWritable, isFilePresent } from './durable-fs.ts';
import { acquireExportLock, isExportLocked } from './lock.ts';
import { boundedLockName, isBoundedExecution, runLocally } from './run.ts';
import { openStateFile, stateFileIn } from './sqlite/state-file.ts';
import { isNameOfVariable, localService, withSimulatedBound } from './service.ts';
import type { LocalExport, SavedSettings, SettingsSource } from './settings.ts';
import { createLocalSlots } from './slots.ts';
import { pageLogIn } from './sqlite/page-log.ts';
import { noteFailedStart, type RunNotes, runNotesIn } from './sqlite/run-notes.ts';

export interface LocalDeploymentOptions {
  readonly out: string;
  readonly env: NodeJS.ProcessEnv;
  readonly runtime: Runtime;
  /** Reads an export from its settings file again. Absent: the settings of its last run count. @throws ConfigurationError */
  readonly readSettings?: (source: SettingsSource, exportName: string) => Promise<LocalExport>;
}

/** @throws ConfigurationError if no export has run in the directory, or its state cannot be read */
export function openLocalDeployment(options: LocalDeploymentOptions): Target {
  const { out } = options;
  const stateFile = stateFileIn(out);
  if (!isFilePresent(stateFile)) {
    throw new ExportError(
      'ConfigurationError',
      `No export has run in ${out}: ${stateFile} does not exist. Run an export into it first with the command local, or choose another directory`,
    );
  }
  // Opened once for all exports: they share the file.
  const state = openStateFile(stateFile);
  const notes = runNotesIn(state);
  const log = pageLogIn(state);
  const store = createDirectoryPageStore(out, undefined, state);
  const open = async (exportName: string): Promise<ExportTarget> => {
    const saved = notes.settings(exportName);
    if (saved === undefined) throw unknownExport(exportName, out, notes.exportNames());
    const settings = await readAgain(saved, options);
    return deployedExport(options, settings, { notes, log, store });
  };
  return {
    name: `directory ${out}`,
    option: directoryOption(out),
    exportNames: async () => notes.exportNames(),
    open,
    openAll: async () =>
      await Promise.all(
        notes
          .exportNames()
          .map(async (name) => await open(name).catch((error: unknown) => unreadableExport(name, null, error))),
      ),
    async [Symbol.asyncDispose]() {
      state.close();
    },
  };
}

/** What the next run of an export uses. */
interface CurrentSettings {
  readonly settings: LocalExport;
  readonly origin: SettingsOrigin;
  /** To be saved when a run begins: the file may have changed. */
  readonly toSave?: SavedSettings;
}

/** The settings as the file has them now, or those of the last run if it cannot be used. */
async function readAgain(
  { from, version, ...settings }: SavedSettings,
  { out, readSettings }: LocalDeploymentOptions,
): Promise<CurrentSettings> {
  if (from === undefined || readSettings === undefined) return { settings, origin: { file: null } };
  const { file } = from;
  const { name } = settings.export;
  try {
    const current = await readSettings(from, name);
    return { settings: current, origin: { file }, toSave: { version, ...current, from } };
  } catch (cause) {
    if (!isExportError(cause, 'ConfigurationError')) throw cause;
    const remedy = `The last run of ${name} read its settings there. To use another file: local --settings FILE ${name} ${directoryOption(out)}`;
    const problem = new ExportError('ConfigurationError', `${cause.message}\n  ${remedy}`, { cause });
    return { settings, origin: { file, problem } };
  }
}

/**
 * Starts an export with the given settings, and saves them for later commands once the run has begun. Later starts read them again
 * from `source`, if it is given.
 * @throws ConfigurationError if the directory cannot be used
 */
export async function startLocalExport(
  options: RunOptions,
  settings: LocalExport,
  request: StartRequest,
  startOptions: StartOptions,
  source?: SettingsSource,
): Promise<RunEnd> {
  const toSave: SavedSettings = { version: settingsVersion, ...settings, from: source };
  // An export that has never run is added only if a file names it: the name in an option may be mistyped, and stays. And only a
  // run shows that the name of the variable is not the key itself.
  const mayAdd = source !== undefined && isNameOfVariable(settings.apiKeyEnv);
  return await startRun(options, { settings, toSave, toAdd: mayAdd ? toSave : undefined }, request, startOptions);
}

interface StartedSettings extends Partial<CurrentSettings> {
  readonly settings: LocalExport;
  /** Saved with a start that has failed, if the export has never run. */
  readonly toAdd?: SavedSettings | undefined;
}

const maxMessageLength = 1_000;

/** If no regular run begins, the reason is noted for `status`. */
async function startRun(
  { out, env, runtime }: RunOptions,
  { settings, origin, toSave, toAdd }: StartedSettings,
  startInput: StartRequest,
  { notify, emit, onRetry, signal, maxAttempts }: StartOptions,
): Promise<RunEnd> {
  const note = (error: string, message: string) => {
    if (signal.aborted || startInput.until !== undefined) return;
    // Shown on one line: each line is a sentence.
    const text = truncate(toPrintable(message.replaceAll(/\n\s*/g, '. ')), maxMessageLength);
    const failure = { error, message: text, at: instantOf(runtime.now()) };
    noteFailedStart(stateFileIn(out), settings.export.name, failure, toAdd);
  };
  try {
    if (origin?.problem !== undefined) throw origin.problem;
    if (origin !== undefined) notify(`Settings: ${origin.file ?? noSettingsFile}`);
    const service = localService(settings, env, runtime);
    await using client = await service.connect(notify);
    const { maxConcurrentPages } = settings.service;
    const end = await runLocally({
      definition: definitionOf(settings, service.address),
      service: client,
      slots: maxConcurrentPages === undefined ? undefined : createLocalSlots(maxConcurrentPages, runtime),
      out,
      startInput,
      runtime,
      emit,
      onRetry,
      signal,
      maxAttempts,
      settings: toSave,
    });
    if (end.status === 'failed' && end.failed.run === null) note(end.failed.error, end.failed.message);
    return end;
  } catch (error) {
    const { name, message } = error instanceof Error ? error : new Error(String(error));
    note(name, message);
    throw error;
  }
}

/** What a run needs of its directory. */
type RunOptions = Omit<LocalDeploymentOptions, 'readSettings'>;

/** The option with which commands act on the directory. */
export const directoryOption = (out: string): string => `--out ${shellQuote(out)}`;

function unknownExport(exportName: string, out: string, names: readonly string[]): ExportError {
  const existing = names.length === 0 ? 'It has no exports yet' : `Its exports: ${listNames(names)}`;
  return new ExportError('ConfigurationError', `There is no export ${exportName} in directory ${out}. ${existing}`);
}

interface LocalStores extends Pick<ExportTarget, 'log'> {
  readonly notes: RunNotes;
  readonly store: ReturnType<typeof createDirectoryPageStore>;
}

function deployedExport(
  options: LocalDeploymentOptions,
  current: CurrentSettings,
  { notes, log, store }: LocalStores,
): ExportTarget {
  const { out } = options;
  const { settings, origin } = current;
  const described = describeLocalExport(settings, options);
  const { name } = described;
  return {
    ...described,
    settings: origin,
    store,
    log,
    executions: {
      // Each process has executions of its own.
      status: async (execution) =>
        isExportLocked(out, isBoundedExecution(execution) ? boundedLockName(name) : name) ? 'running' : 'unknown',
    },
    async checkWritable(folders) {
      assertWritable(stateFileIn(out));
      // Undefined while an export is running, which then holds the lock.
      acquireExportLock(out, name)?.release();
      for (const folder of folders) await store.checkWritable(folder);
    },
    readSchedule: async () => ({ kind: 'manual', awsSchedule: settings.export.schedule?.expression }),
    failedStart: notes.failedStart(name),
    start: async (request, startOptions) => await startRun(options, current, request, startOptions),
  };
}

/** For `SettingsOrigin.file` in messages. */
export const noSettingsFile = 'those of the last run, which had no settings file';

/** What settings say about an export on this machine, whether or not it has run. */
export function describeLocalExport(
  settings: LocalExport,
  { env, runtime }: Pick<LocalDeploymentOptions, 'env' | 'runtime'>,
): Pick<ExportTarget, 'name' | 'definition' | 'service' | 'serviceName'> {
  const service = localService(settings, env, runtime);
  const { address: serviceName } = service;
  return { name: settings.export.name, definition: definitionOf(settings, serviceName), service, serviceName };
}

/**
 * Within an invocation, pages are fetched concurrently; between two, nothing is in flight. If one fails after it has
 * logged pages, its retry returns at once, and the attempts are counted from 1 again.
 */
const pagesPerInvocation = 1_000;

function definitionOf({ export: settings, service, compression }: LocalExport, source: string): ExportDefinition {
  // The simulator of the Report Export Service has a root element of its own.
  const hasOwnRoot = service.baseUrl === undefined && service.api === undefined;
  const known = hasOwnRoot ? { ...withSimulatedBound(service), rootElement: undefined } : service;
  return exportDefinition({ ...settings, pagesPerInvocation }, source, known, compression);
}
