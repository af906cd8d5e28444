/** A directory where exports run on this machine, as an operator's commands see it. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ExportError, isExportError } from '../core/errors.ts';
import type { ExportDefinition } from '../core/model.ts';
import type { DeployedExport, Deployment, Incident, StartOptions } from '../core/operations/deployment.ts';
import type { ExportEvent, RunRef, Runtime } from '../core/ports.ts';
import { exportDefinition } from '../core/settings/settings.ts';
import { instantOf } from '../core/timestamps.ts';
import { createDirectoryPageStore } from './files/page-store.ts';
import { isExportLocked } from './lock.ts';
import { runLocally } from './run.ts';
import { localService } from './service.ts';
import { type LocalExport, type LocalExportInput, localExportSchema } from './settings.ts';
import { createSqlitePageLog } from './sqlite/page-log.ts';
import { openRunNotes, type RunNotes } from './sqlite/run-notes.ts';

export interface DirectoryOptions {
  readonly out: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly runtime: Runtime;
}

/** @throws ConfigurationError where no export has run in the directory, or its state cannot be read */
export function openDirectory(options: DirectoryOptions): Deployment {
  const { out } = options;
  const file = stateFile(out);
  if (!existsSync(file)) {
    throw new ExportError(
      'ConfigurationError',
      `No export has run in ${out}: there is no ${file}. Make a first run with npm start -- --out ${out}, or name another directory`,
    );
  }
  const notes = openRunNotes(file);
  // One for all exports, as often as they are looked at: it is one file.
  let opened: ReturnType<typeof createSqlitePageLog> | undefined;
  const store = createDirectoryPageStore(out);
  return {
    name: `directory ${out}`,
    option: `--out ${asWord(out)}`,
    exportNames: async () => notes.exportNames(),
    async open(exportName) {
      const settings = notes.settings(exportName);
      if (settings === undefined) throw noSuchExport(exportName, `directory ${out}`, notes.exportNames());
      opened ??= createSqlitePageLog(file);
      return deployedExport(options, settings, { notes, log: opened, store });
    },
    async [Symbol.asyncDispose]() {
      notes.close();
      opened?.close();
      store.close();
    },
  };
}

/** An export of this machine with the settings given, whatever it was last started with; its start remembers them. */
export function directoryExport(options: DirectoryOptions, settings: LocalExportInput): Pick<DeployedExport, 'start'> {
  const parsed = localExportSchema.parse(settings);
  return { start: (request, watching) => startLocally(options, parsed, request, watching, settings) };
}

/** As a shell takes it for one word. */
const asWord = (text: string): string => (/^[\w./:@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

const stateFile = (out: string): string => join(out, 'state.sqlite');

function noSuchExport(exportName: string, place: string, names: readonly string[]): ExportError {
  const known = names.length === 0 ? 'It holds none yet' : `It holds ${names.join(', ')}`;
  return new ExportError('ConfigurationError', `There is no export ${exportName} in ${place}. ${known}`);
}

function deployedExport(
  options: DirectoryOptions,
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
    nextStart: async () => ({ kind: 'by-hand' }),
    async *incidents(run) {
      yield* notes.incidents(run);
    },
    lastIncident: async (run) => notes.lastIncident(run),
    start: (request, watching) => startLocally(options, settings, request, watching),
  };
}

/** Here an invocation is a function call: nothing is gained by many, and a page fetched while the last is stored is time saved. */
const pagesPerInvocation = 50;

function definitionOf({ export: settings }: LocalExport, source: string): ExportDefinition {
  return exportDefinition({ ...settings, pagesPerInvocation }, source);
}

async function startLocally(
  { out, env, runtime }: DirectoryOptions,
  settings: LocalExport,
  startInput: Parameters<DeployedExport['start']>[0],
  watching: StartOptions,
  remembered?: LocalExportInput,
) {
  const service = localService(settings, env, runtime);
  await using client = await service.connect(watching.say);
  const definition = definitionOf(settings, service.address);
  return await runLocally({
    definition,
    service: client,
    out,
    startInput,
    runtime,
    signal: watching.signal,
    watching: (file) => {
      const notes = openRunNotes(file);
      const noted = noting(notes, watching, runtime);
      return {
        emit(event) {
          // Only once they have a run: a start that was refused must not change what the next one asks for.
          const begins = event.event === 'run-started' || event.event === 'run-resumed';
          if (begins && remembered !== undefined) notes.remember(remembered);
          noted.emit(event);
        },
        onRetry: (retry) => noted.onRetry(retry),
        close: notes.close,
      };
    },
  });
}

/** Tells `watching`, and notes down what held the run up. */
function noting(notes: RunNotes, watching: StartOptions, { now }: Pick<Runtime, 'now'>) {
  let place: (RunRef & { readonly page: number }) | undefined;
  const note = (incident: (page: number) => Incident) => {
    try {
      if (place !== undefined) notes.note(place, incident(place.page));
    } catch (error) {
      // Where the state cannot be written to, the run itself will say so.
      if (!isExportError(error)) throw error;
    }
  };
  const at = () => instantOf(now());
  return {
    emit(event: ExportEvent) {
      place = placeAfter(event, place);
      if (event.event === 'service-asked-to-wait') {
        note(() => ({ kind: 'wait', at: at(), page: event.page, seconds: event.seconds }));
      }
      if (event.event === 'run-failed' && event.run !== null) {
        note((page) => ({ kind: 'failed-run', at: at(), page, error: event.error, message: event.message }));
      }
      watching.emit(event);
    },
    onRetry(retry: Parameters<StartOptions['onRetry']>[0]) {
      const { error, message } = retry;
      note((page) => ({ kind: 'failed-attempt', at: at(), page, error, message }));
      watching.onRetry(retry);
    },
  };
}

/** The run and the page that is fetched next, behind `event`. */
function placeAfter<RecordStore extends RunRef & { readonly page: number }>(
  event: ExportEvent,
  before: RecordStore | undefined,
): (RunRef & { readonly page: number }) | undefined {
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
    case 'run-completed':
    case 'run-failed':
    case 'run-skipped':
      return before;
  }
}
