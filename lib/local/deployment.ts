/** A directory in which exports run on this machine, as a deployment that operators' commands work with. */

import { existsSync } from 'node:fs';
import { ExportError, isExportError } from '../core/errors.ts';
import type { ExportDefinition } from '../core/model.ts';
import {
  countIncidents,
  type DeployedExport,
  type Deployment,
  type Incident,
  type OverviewEntry,
  type RunEnd,
  type StartOptions,
  type StartRequest,
} from '../core/operations/deployment.ts';
import { overviewOf, unreadableExport } from '../core/operations/export-overview.ts';
import type { ExportEvent, RunRef, Runtime } from '../core/ports.ts';
import { listNames, shellQuote } from '../core/sanitize.ts';
import { exportDefinition } from '../core/settings/settings.ts';
import { instantOf } from '../core/timestamps.ts';
import { createDirectoryPageStore } from './files/page-store.ts';
import { isExportLocked } from './lock.ts';
import { runLocally, stateFileIn } from './run.ts';
import { localService } from './service.ts';
import { type LocalExport, type LocalExportInput, localExportSchema } from './settings.ts';
import { createSqlitePageLog } from './sqlite/page-log.ts';
import { openRunNotes, type RunNotes } from './sqlite/run-notes.ts';

export interface LocalDeploymentOptions {
  readonly out: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly runtime: Runtime;
}

/** @throws ConfigurationError if no export has run in the directory, or its state cannot be read */
export function openLocalDeployment(options: LocalDeploymentOptions): Deployment {
  const { out } = options;
  const stateFile = stateFileIn(out);
  if (!existsSync(stateFile)) {
    throw new ExportError(
      'ConfigurationError',
      `No export has run in ${out}: ${stateFile} does not exist. Run an export into it first with the command local, or choose another directory`,
    );
  }
  const notes = openRunNotes(stateFile);
  const store = createDirectoryPageStore(out);
  // Opened once for all exports: they share the file.
  let log: ReturnType<typeof createSqlitePageLog> | undefined;
  const open = (exportName: string): DeployedExport => {
    const settings = notes.settings(exportName);
    if (settings === undefined) throw unknownExport(exportName, out, notes.exportNames());
    log ??= createSqlitePageLog(stateFile);
    return deployedExport(options, settings, { notes, log, store });
  };
  return {
    name: `directory ${out}`,
    option: directoryOption(out),
    exportNames: async () => notes.exportNames(),
    open: async (exportName) => open(exportName),
    alarmTopic: async () => undefined,
    async overview() {
      const entries: OverviewEntry[] = [];
      for (const exportName of notes.exportNames()) {
        let service: string | null = null;
        try {
          const deployed = open(exportName);
          service = deployed.service.address;
          entries.push(await readOverviewOf(deployed, options.runtime.now()));
        } catch (error) {
          entries.push(unreadableExport(exportName, service, error));
        }
      }
      return entries;
    },
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

function deployedExport(
  options: LocalDeploymentOptions,
  settings: LocalExport,
  { notes, log, store }: Pick<DeployedExport, 'log' | 'store'> & { readonly notes: RunNotes },
): DeployedExport {
  const { out, env, runtime } = options;
  const { name } = settings.export;
  const service = localService(settings, env, runtime);
  return {
    name,
    definition: definitionOf(settings, service.address),
    service,
    store,
    log,
    executions: { isRunning: async () => isExportLocked(out, name) },
    nextStart: async () => ({ kind: 'manual' }),
    async *incidents(run) {
      yield* notes.incidents(run);
    },
    countIncidents: (run) => countIncidents(notes.incidents(run)),
    lastIncident: async (run) => notes.lastIncident(run),
    start: (request, startOptions) => startRun(options, settings, request, startOptions),
  };
}

async function readOverviewOf(deployed: DeployedExport, now: number): Promise<OverviewEntry> {
  const { name, service, log, executions } = deployed;
  const state = await log.exportState(name);
  const active = state?.active && {
    isRunning: await executions.isRunning(state.active.execution),
    last: await log.last(state.active),
  };
  const next = await deployed.nextStart();
  return overviewOf({ export: name, service: service.address, state, active, next, freshnessSeconds: null }, now);
}

/**
 * Within an invocation, pages are fetched concurrently; between two, nothing is in flight. If one fails after it has logged
 * pages, its retry returns at once, and the attempts are counted from 1 again.
 */
const pagesPerInvocation = 1_000;

function definitionOf({ export: settings }: LocalExport, source: string): ExportDefinition {
  return exportDefinition({ ...settings, pagesPerInvocation }, source);
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
    openObserver: (stateFile) => {
      const notes = openRunNotes(stateFile);
      const recorder = recordIncidents(notes, listeners, runtime);
      return {
        emit(event) {
          // Saved only once a run has begun: a start that is rejected must not change the settings of the next.
          const hasBegun = event.event === 'run-started' || event.event === 'run-resumed';
          if (hasBegun && settingsToSave !== undefined) notes.saveSettings(settingsToSave);
          recorder.emit(event);
        },
        onRetry: (retry) => recorder.onRetry(retry),
        close: notes.close,
      };
    },
  });
}

type Listeners = Pick<StartOptions, 'emit' | 'onRetry'>;

type Position = RunRef & { readonly page: number };

/** Forwards events and retries to `listeners`, and adds incidents to the notes. */
function recordIncidents(notes: RunNotes, listeners: Listeners, { now }: Pick<Runtime, 'now'>): Listeners {
  let position: Position | undefined;
  const record = (incident: (page: number) => Incident) => {
    try {
      if (position !== undefined) notes.addIncident(position, incident(position.page));
    } catch (error) {
      // If the state file is not writable, the run itself reports it.
      if (!isExportError(error)) throw error;
    }
  };
  const at = () => instantOf(now());
  return {
    emit(event) {
      position = positionAfter(event, position);
      if (event.event === 'service-asked-to-wait') {
        record(() => ({ kind: 'wait', at: at(), page: event.page, seconds: event.seconds }));
      }
      if (event.event === 'run-failed' && event.run !== null) {
        record((page) => ({ kind: 'failed-run', at: at(), page, error: event.error, message: event.message }));
      }
      listeners.emit(event);
    },
    onRetry(retry) {
      const { error, message } = retry;
      record((page) => ({ kind: 'failed-attempt', at: at(), page, error, message }));
      listeners.onRetry(retry);
    },
  };
}

/** The run, and the page to fetch next, after `event`. */
function positionAfter(event: ExportEvent, before: Position | undefined): Position | undefined {
  switch (event.event) {
    case 'run-started':
    case 'run-resumed':
      return { export: event.export, run: event.run, page: event.page };
    case 'run-restarted':
      return { export: event.export, run: event.run, page: 1 };
    case 'page-exported':
    case 'page-adopted':
      return { export: event.export, run: event.run, page: event.page + 1 };
    case 'service-asked-to-wait':
    case 'waiting-for-slot':
    case 'run-completed':
    case 'run-failed':
    case 'run-skipped':
      return before;
  }
}
