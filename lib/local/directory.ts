/** A directory in which exports run on this machine, as a deployment that operators' commands work with. */

import { createSlots } from '../core/concurrency.ts';
import { ExportError } from '../core/errors.ts';
import type { ExportDefinition, ExportState, RunEnd } from '../core/model.ts';
import {
  type SettingsOrigin,
  defaultDirectory,
  type LocalDirectory,
  type LocalExport,
  simulatedDirectory,
} from './settings.ts';
import type { StartRequest } from '../core/start/start-input.ts';
import type { ExportEvent, PageSlots, Runtime, StoreReader } from '../core/ports.ts';
import { listNames, shellQuote, shorten, toPrintable } from '../core/sanitize.ts';
import { updateState } from '../core/steps/export-state.ts';
import { instantOf } from '../core/timestamps.ts';
import { freshnessSeconds } from '../settings/schedule-settings.ts';
import { exportDefinition, rateLimitOf } from '../settings/settings.ts';
import { createDirectoryPageStore } from './page-store.ts';
import { assertWritable, isFilePresent } from './durable-fs.ts';
import { acquireExportLock, isExportLocked } from './lock.ts';
import { finishedChanges } from './renewed-secret.ts';
import { boundedLockName, isBoundedExecution, type LocalStartOptions, runLocally } from './run.ts';
import { openStateFile, stateFileIn } from './sqlite/state-file.ts';
import { localService, simulatorAddress } from './service.ts';
import { pageLogIn, sourcesIn } from './sqlite/page-log.ts';

/** An export with the settings of its next run. */
export interface ConfiguredExport {
  readonly settings: LocalExport;
  /** Why no run can start with them. What the directory has of the export can be read. */
  readonly problem?: string | undefined;
}

export interface LocalDeploymentOptions extends LocalDirectory {
  /** Empty if the settings cannot be read: then the exports are those that have a state in the directory. */
  readonly exports: readonly ConfiguredExport[];
  /** The settings file that has the exports. Absent: options of the command line describe the only one. */
  readonly file?: string | undefined;
  /** Why the settings file cannot be used. Then it is not known which exports it has. */
  readonly problemsOfFile?: readonly string[];
  /** The settings with which an export that only has a state is shown. Absent: it cannot be opened. */
  readonly settingsOfOther?: (name: string, source: string | null) => ConfiguredExport;
  /** Called once in each start that has stored a page, or resumes a run that has. */
  readonly onPageStored?: (notify: (text: string) => void) => void;
}

/** @throws ConfigurationError if its state cannot be read, or it has simulated reports and the exports have not */
export function openLocalDeployment(options: LocalDeploymentOptions) {
  const { out, exports, problemsOfFile = [], settingsOfOther } = options;
  const stateFile = stateFileIn(out);
  // First: its errors say what is wrong with the path.
  const isNew = !isFilePresent(stateFile);
  const mixture = findMixture(exports, out);
  if (mixture !== undefined) throw new ExportError('ConfigurationError', mixture);
  // Opened once for all exports: they share the file.
  const state = openStateFile(stateFile);
  const log = pageLogIn(state);
  const store = createDirectoryPageStore(out, state);
  const reader: StoreReader = store;
  const configured = exports.map(({ settings }) => settings.export.name);
  const stored = () => [...sourcesIn(state).keys()];
  const names = () => (configured.length > 0 ? configured.toSorted() : stored());
  const settingsOf = (name: string): ConfiguredExport => {
    const found = exports.find(({ settings }) => settings.export.name === name);
    if (found !== undefined) return found;
    const source = sourcesIn(state).get(name);
    if (settingsOfOther !== undefined && source !== undefined) return settingsOfOther(name, source);
    throw problemsOfFile.length === 0
      ? unknownExport(name, out, names())
      : new ExportError('ConfigurationError', problemsOfFile.join('\n'));
  };
  const open = async (name: string) => {
    const found = settingsOf(name);
    const { schedule } = found.settings.export;
    const described = describeLocalExport(found.settings, options);
    // Each start of an export without settings may have failed before it had a service.
    const isUnknown = !configured.includes(name) && sourcesIn(state).get(name) === null;
    return {
      ...described,
      serviceName: isUnknown ? 'unknown' : described.serviceName,
      settings: originOf(found, options),
      store: reader,
      log,
      loadReportReader: async () => (await loadReaders(found)).reportReader,
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
      readSchedule: async () => ({ kind: 'manual' as const, awsSchedule: schedule?.expression }),
      freshnessSeconds: freshnessSeconds(schedule),
      start: async (request: StartRequest, startOptions: LocalStartOptions) =>
        await startRun(options, found, request, startOptions),
    };
  };
  const openOrDescribe = async (name: string) => await open(name).catch((cause: unknown) => unreadable(name, cause));
  return {
    name: `directory ${out}`,
    option: directoryOption(out),
    isNew,
    exportNames: async () => names(),
    open,
    // An export that the settings have no more is still read and verified.
    openAll: async () => await Promise.all([...new Set([...configured, ...stored()])].sort().map(openOrDescribe)),
    async [Symbol.asyncDispose]() {
      await finishedChanges();
      state.close();
    },
  };
}

function unreadable(name: string, cause: unknown) {
  const { name: error, message } = cause instanceof Error ? cause : new Error(String(cause));
  return { export: name, service: null, error: { name: error, message } };
}

/** The error of a directory without exports and without settings. */
export function noExportIn(out: string): ExportError {
  const hasSimulated = out === defaultDirectory && isFilePresent(stateFileIn(simulatedDirectory));
  const remedy = hasSimulated
    ? `The simulated exports are in ${simulatedDirectory}: add ${directoryOption(simulatedDirectory)}`
    : 'Run an export into it first with the command local, or choose another directory';
  const message = `No export has run in ${out}: ${stateFileIn(out)} does not exist. ${remedy}`;
  return new ExportError('ConfigurationError', message);
}

/** Whether the directory has simulated reports: further runs of its exports are simulated, too. */
export function hasSimulatedReports(out: string): boolean {
  if (!isFilePresent(stateFileIn(out))) return false;
  using state = openStateFile(stateFileIn(out));
  return [...sourcesIn(state).values()].includes(simulatorAddress);
}

/** Why the exports cannot run in the directory: they are simulated, and its reports are not, or the other way round. */
export function findMixture(exports: readonly ConfiguredExport[], out: string): string | undefined {
  const [first] = exports;
  if (first === undefined || !isFilePresent(stateFileIn(out))) return undefined;
  using state = openStateFile(stateFileIn(out));
  const simulates = first.settings.service.baseUrl === undefined;
  const isOther = ([, source]: readonly [string, string | null]) =>
    source !== null && (source === simulatorAddress) !== simulates;
  const [other] = [...sourcesIn(state)].find(isOther) ?? [];
  if (other === undefined) return undefined;
  return simulates
    ? `${out} has reports of a service (${other}), so no simulated ones are stored there. Set another directory, such as ` +
        `${directoryOption(simulatedDirectory)}; or set the service, with --base-url or --settings`
    : `${out} has simulated reports (${other}), so none of a service are stored there. Set another directory with --out, or delete ${out}`;
}

/** Where the settings come from; undefined for options of the command line. */
function originOf({ problem }: ConfiguredExport, { file }: LocalDeploymentOptions): SettingsOrigin | undefined {
  if (file === undefined) return undefined;
  return { file, problem: problem === undefined ? undefined : new ExportError('ConfigurationError', problem) };
}

/** If no regular run begins, the reason is recorded in the state of the export. */
async function startRun(
  options: LocalDeploymentOptions,
  configured: ConfiguredExport,
  startInput: StartRequest,
  { notify, emit, onRetry, signal, maxAttempts }: LocalStartOptions,
): Promise<RunEnd> {
  const { out, runtime, onPageStored } = options;
  const origin = originOf(configured, options);
  const { name, definition: described, service } = describeLocalExport(configured.settings, options);
  const definition = maxAttempts === undefined ? described : withMaxAttempts(described, maxAttempts);
  const connect = async () => {
    if (origin?.problem !== undefined) throw origin.problem;
    if (origin !== undefined) notify(`Settings: ${origin.file}`);
    return await service.connect(notify, signal);
  };
  await using client = await connect().catch(async (error: Error) => {
    const isRegular = startInput.until === undefined && startInput.parents === undefined;
    if (!signal.aborted && isRegular) await recordFailedStart(options, name, error);
    throw error;
  });
  let hasPage = false;
  const observe: LocalStartOptions['emit'] = (event) => {
    if (!hasPage && showsPage(event)) {
      hasPage = true;
      onPageStored?.(notify);
    }
    emit(event);
  };
  return await runLocally({
    definition,
    ...(await loadReaders(configured)),
    service: client,
    slots: slotsFor(service.maxConcurrentPages, runtime),
    rateLimit: rateLimitOf(service.settings),
    out,
    startInput,
    runtime,
    emit: observe,
    onRetry,
    signal,
    maxAttempts,
  });
}

async function loadReaders({ settings: { export: own } }: ConfiguredExport) {
  const { pageReaderOf, reportReaderOf } = await import('../service/formats/values/report-reader.ts');
  return { reportReader: reportReaderOf(own.parents), pageReader: pageReaderOf(own.api) };
}

/** Whether the event says that its run has a page. */
const showsPage = (event: ExportEvent): boolean =>
  event.event === 'page-exported' ||
  event.event === 'page-adopted' ||
  (event.event === 'run-resumed' && event.pages > 0);

const maxMessageLength = 1_000;

/** Records a failure before the execution, as FailRun records one of an execution. */
async function recordFailedStart(
  { out, runtime, file }: LocalDeploymentOptions,
  name: string,
  { name: error, message }: Error,
): Promise<void> {
  // Shown on one line: each line is a sentence.
  const text = shorten(toPrintable(message.replaceAll(/\n\s*/g, '. ')), maxMessageLength);
  const failedStart = { error, message: text, at: instantOf(runtime.now()) };
  using state = openStateFile(stateFileIn(out));
  const change = (before: ExportState) => {
    // The name in an option may be mistyped, so it adds no export.
    const isKnown = file !== undefined || before.version > 0;
    return { change: isKnown ? { ...before, failedStart } : undefined, result: undefined };
  };
  // Best effort: the reason of the failure is the error to report, not why it could not be recorded.
  await updateState(pageLogIn(state), name, change).catch(() => {});
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
