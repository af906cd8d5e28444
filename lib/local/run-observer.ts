/** Adds what operators' commands show of a run to the notes in its directory, and passes its events on. */

import { readdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { ExportError, isExportError } from '../core/errors.ts';
import type { Incident, StartOptions } from '../target/target.ts';
import type { ExportEvent, RunRef, Runtime } from '../core/ports.ts';
import { instantOf } from '../core/timestamps.ts';
import { fileSystemError } from './durable-fs.ts';
import type { RunObserver } from './run.ts';
import type { LocalExportInput } from './settings.ts';
import { openRunNotes, type RunNotes } from './sqlite/run-notes.ts';

/**
 * `settings` are saved for later commands once the run has begun.
 * @throws ConfigurationError if the name of the export differs from that of another one only in case
 */
export function observeRun(
  stateFile: string,
  listeners: Listeners,
  runtime: Pick<Runtime, 'now'>,
  settings?: LocalExportInput,
): RunObserver {
  const notes = openRunNotes(stateFile);
  try {
    if (settings !== undefined) assertDistinctName(settings.export.name, dirname(stateFile), notes);
  } catch (error) {
    notes.close();
    throw error;
  }
  const recorder = recordIncidents(notes, listeners, runtime);
  return {
    emit(event) {
      // A start that is rejected must not change the settings of the next.
      const hasBegun = event.event === 'run-started' || event.event === 'run-resumed';
      if (hasBegun && settings !== undefined) notes.saveSettings(settings);
      recorder.emit(event);
    },
    onRetry: (retry) => recorder.onRetry(retry),
    close: notes.close,
  };
}

/** Reads the folders, too: a directory whose state was moved away keeps them. */
function assertDistinctName(name: string, out: string, notes: RunNotes): void {
  const other = [...notes.exportNames(), ...namesIn(out)].find(
    (existing) => existing !== name && existing.toLowerCase() === name.toLowerCase(),
  );
  if (other === undefined) return;
  throw new ExportError(
    'ConfigurationError',
    `${name}: ${out} has the export ${other} already, and where file names ignore case, both would share a folder. ` +
      'Choose a name that differs in more than case, or another directory',
  );
}

function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch (cause) {
    throw fileSystemError('list', directory, cause);
  }
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
