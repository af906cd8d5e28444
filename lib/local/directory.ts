/** A directory in which exports run on this machine, as a deployment that operators' commands work with. */

import { createSlots } from '../core/concurrency.ts';
import { ExportError, isExportError } from '../core/errors.ts';
import type { ExportDefinition, RunEnd } from '../core/model.ts';
import {
  type SettingsOrigin,
  defaultDirectory,
  type LocalDirectory,
  type LocalExport,
  type SavedSettings,
  type SettingsSource,
  simulatedDirectory,
} from './settings.ts';
import type { StartRequest } from '../core/steps/start-input.ts';
import type { PageSlots, Runtime } from '../core/ports.ts';
import { listNames, shellQuote, shorten, toPrintable } from '../core/sanitize.ts';
import { instantOf } from '../core/timestamps.ts';
import { settingsVersion } from '../settings/deployed-settings.ts';
import { freshnessSeconds } from '../settings/schedule-settings.ts';
import { exportDefinition } from '../settings/settings.ts';
import { createDirectoryPageStore } from './files/page-store.ts';
import { assertWritable, isFilePresent } from './durable-fs.ts';
import { acquireExportLock, isExportLocked } from './lock.ts';
import { finishedChanges } from './renewed-secret.ts';
import { boundedLockName, isBoundedExecution, type LocalStartOptions, runLocally } from './run.ts';
import { openStateFile, stateFileIn } from './sqlite/state-file.ts';
import { isNameOfVariable, localService } from './service.ts';
import { pageLogIn } from './sqlite/page-log.ts';
import { noteFailedStart, runNotesIn } from './sqlite/run-notes.ts';

export interface LocalDeploymentOptions extends LocalDirectory {
  /** The exports to start, and the file that later starts read them from again. Absent: those that have run in the directory. */
  readonly given?: { readonly exports: readonly LocalExport[]; readonly from?: SettingsSource | undefined };
  /** Reads an export from its settings file again. Absent: the settings of its last run count. @throws ConfigurationError */
  readonly readSettings?: (source: SettingsSource, exportName: string) => Promise<LocalExport>;
}

/** @throws ConfigurationError if no exports are given and none has run in the directory, or its state cannot be read */
export function openLocalDeployment(options: LocalDeploymentOptions) {
  const { out, given } = options;
  const stateFile = stateFileIn(out);
  // First: its errors say what is wrong with the path.
  const isNew = !isFilePresent(stateFile);
  if (given === undefined && isNew) {
    const hasSimulated = out === defaultDirectory && isFilePresent(stateFileIn(simulatedDirectory));
    const remedy = hasSimulated
      ? `The simulated exports are in ${simulatedDirectory}: add ${directoryOption(simulatedDirectory)}`
      : 'Run an export into it first with the command local, or choose another directory';
    throw new ExportError('ConfigurationError', `No export has run in ${out}: ${stateFile} does not exist. ${remedy}`);
  }
  // Opened once for all exports: they share the file.
  const state = openStateFile(stateFile);
  const notes = runNotesIn(state);
  try {
    assertUnmixed(given?.exports ?? [], out, notes);
  } catch (error) {
    state.close();
    throw error;
  }
  const log = pageLogIn(state);
  const store = createDirectoryPageStore(out, state);
  const settingsOf = async (name: string): Promise<CurrentSettings> => {
    const settings = given?.exports.find((each) => each.export.name === name);
    if (settings !== undefined)
      return { settings, toSave: { version: settingsVersion, ...settings, from: given?.from } };
    const saved = notes.settings(name);
    if (saved === undefined) throw unknownExport(name, out, notes.exportNames());
    return await readAgain(saved, options);
  };
  const open = async (name: string) => {
    const current = await settingsOf(name);
    return {
      ...describeLocalExport(current.settings, options),
      settings: current.origin,
      store,
      log,
      executions: {
        // Each process has executions of its own.
        status: async (execution: string) =>
          isExportLocked(out, isBoundedExecution(execution) ? boundedLockName(name) : name) ? 'running' : 'unknown',
      },
      async checkWritable(folders: readonly string[]) {
        assertWritable(stateFile);
        // Undefined while an export is running, which then holds the lock.
        acquireExportLock(out, name)?.release();
        for (const folder of folders) await store.checkWritable(folder);
      },
      readSchedule: async () => ({
        kind: 'manual' as const,
        awsSchedule: current.settings.export.schedule?.expression,
      }),
      freshnessSeconds: freshnessSeconds(current.settings.export.schedule),
      failedStart: notes.failedStart(name),
      start: async (request: StartRequest, startOptions: LocalStartOptions) =>
        await startRun(options, current, request, startOptions),
    };
  };
  const openOrDescribe = async (name: string) =>
    await open(name).catch((cause: unknown) => {
      const error = cause instanceof Error ? cause : new Error(String(cause));
      return { export: name, service: null, error: { name: error.name, message: error.message } };
    });
  return {
    name: `directory ${out}`,
    option: directoryOption(out),
    isNew,
    exportNames: async () => notes.exportNames(),
    open,
    openAll: async () => await Promise.all(notes.exportNames().map(openOrDescribe)),
    async [Symbol.asyncDispose]() {
      await finishedChanges();
      state.close();
    },
  };
}

const isSimulated = ({ service }: LocalExport): boolean => service.baseUrl === undefined;

/** @throws ConfigurationError if `given` and the exports of the directory are not all of services, or all simulated */
function assertUnmixed(given: readonly LocalExport[], out: string, notes: ReturnType<typeof runNotesIn>): void {
  const [first] = given;
  if (first === undefined) return;
  const other = notes.exportNames().find((name) => {
    const saved = notes.settings(name);
    return saved !== undefined && isSimulated(saved) !== isSimulated(first);
  });
  if (other === undefined) return;
  const message = isSimulated(first)
    ? `${out} has reports of a service (${other}), so no simulated ones are stored there. Set another directory, such as ` +
      `${directoryOption(simulatedDirectory)}; or set the service, with --base-url or --settings`
    : `${out} has simulated reports (${other}), so none of a service are stored there. Set another directory with --out, or delete ${out}`;
  throw new ExportError('ConfigurationError', message);
}

/** What the next run of an export uses. */
interface CurrentSettings {
  readonly settings: LocalExport;
  /** Absent: the command line has the settings. */
  readonly origin?: SettingsOrigin;
  /** To be saved when a run begins: the file may have changed. Absent: they are saved already. */
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

const maxMessageLength = 1_000;

/** If no regular run begins, the reason is noted for `status`. */
async function startRun(
  options: LocalDirectory,
  { settings, origin, toSave }: CurrentSettings,
  startInput: StartRequest,
  { notify, emit, onRetry, signal, maxAttempts }: LocalStartOptions,
): Promise<RunEnd> {
  const { out, runtime } = options;
  const { name, definition: described, service } = describeLocalExport(settings, options);
  const definition = maxAttempts === undefined ? described : withMaxAttempts(described, maxAttempts);
  const note = (error: string, message: string) => {
    if (signal.aborted || startInput.until !== undefined) return;
    // Shown on one line: each line is a sentence.
    const text = shorten(toPrintable(message.replaceAll(/\n\s*/g, '. ')), maxMessageLength);
    // An export that has never run is added only if a file names it: the name in an option may be mistyped, and stays. And only a
    // run shows that the name of the variable is not the key itself.
    const toAdd = toSave?.from !== undefined && isNameOfVariable(settings.apiKeyEnv) ? toSave : undefined;
    noteFailedStart(stateFileIn(out), name, { error, message: text, at: instantOf(runtime.now()) }, toAdd);
  };
  try {
    if (origin?.problem !== undefined) throw origin.problem;
    if (origin !== undefined) notify(`Settings: ${origin.file ?? noSettingsFile}`);
    await using client = await service.connect(notify, signal);
    const slots = slotsFor(service.maxConcurrentPages, runtime);
    const run = { definition, service: client, slots, out, startInput, runtime, emit, onRetry, signal, maxAttempts };
    const end = await runLocally({ ...run, settings: toSave });
    if (end.status === 'failed' && end.failed.run === null) note(end.failed.error, end.failed.message);
    return end;
  } catch (error) {
    const thrown = error instanceof Error ? error : new Error(String(error));
    note(thrown.name, thrown.message);
    throw error;
  }
}

/** A request after a Retry-After is an attempt, too. No wait is within an invocation, so that all are counted. */
function withMaxAttempts({ limits, ...definition }: ExportDefinition, maxAttempts: number): ExportDefinition {
  const maxConsecutiveWaits = Math.min(limits.maxConsecutiveWaits, maxAttempts - 1);
  return { ...definition, limits: { ...limits, maxConsecutiveWaits, maxInlineWaitSeconds: -1 } };
}

/** The slots of a service in this process: the slices of a run share them, in the order of their requests. */
function slotsFor(limit: number | undefined, { now }: Runtime): PageSlots | undefined {
  if (limit === undefined) return undefined;
  const slots = createSlots(limit);
  return {
    async acquire({ signal }) {
      const release = await slots.acquire(signal);
      return { grantedAt: now(), release: async () => release() };
    },
  };
}

/** The option with which commands act on the directory. */
const directoryOption = (out: string): string => `--out ${shellQuote(out)}`;

function unknownExport(exportName: string, out: string, names: readonly string[]): ExportError {
  const existing = names.length === 0 ? 'It has no exports yet' : `Its exports: ${listNames(names)}`;
  return new ExportError('ConfigurationError', `There is no export ${exportName} in directory ${out}. ${existing}`);
}

/** For `SettingsOrigin.file` in messages. */
export const noSettingsFile = 'those of the last run, which had no settings file';

/**
 * Within an invocation, pages are fetched concurrently; between two, nothing is in flight. If one fails after it has
 * logged pages, its retry returns at once, and the attempts are counted from 1 again.
 */
const pagesPerInvocation = 1_000;

/** What settings say about an export on this machine, whether or not it has run. */
function describeLocalExport(settings: LocalExport, directory: LocalDirectory) {
  const service = localService(settings, directory);
  const { address: serviceName } = service;
  const parsed = { ...settings.export, pagesPerInvocation };
  const described = { ...parsed, api: service.api };
  const definition = exportDefinition(described, serviceName, service.settings, settings.compression);
  return { name: settings.export.name, definition, service, serviceName };
}
