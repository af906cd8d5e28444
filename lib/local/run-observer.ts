/** Saves the settings of a run that begins in the notes of its directory, and passes its events on. */

import { readdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { ExportError } from '../core/errors.ts';
import type { RunFailure } from '../core/model.ts';
import type { StartOptions } from '../target/target.ts';
import { fileSystemError, isFilePresent } from './durable-fs.ts';
import type { RunObserver } from './run.ts';
import type { SavedSettings } from './settings.ts';
import { openRunNotes, type RunNotes } from './sqlite/run-notes.ts';

/** A start of an export. */
interface NotedStart {
  readonly exportName: string;
  /** Saved for later commands once the run has begun. Absent: they are saved already. */
  readonly settings?: SavedSettings | undefined;
}

/**
 * @throws ConfigurationError if the name of the export differs from that of another one only in case
 */
export function observeRun(
  stateFile: string,
  { emit, onRetry }: Pick<StartOptions, 'emit' | 'onRetry'>,
  start?: NotedStart,
): RunObserver {
  const notes = openRunNotes(stateFile);
  try {
    if (start?.settings !== undefined) assertDistinctName(start.exportName, dirname(stateFile), notes);
  } catch (error) {
    notes.close();
    throw error;
  }
  return {
    emit(event) {
      // A start that is rejected must not change the settings of the next.
      const hasBegun = event.event === 'run-started' || event.event === 'run-resumed';
      if (hasBegun && start !== undefined) notes.saveStart(start.exportName, start.settings, event.bounded);
      emit(event);
    },
    onRetry,
    close: notes.close,
  };
}

/** Notes why a start has begun no run. Best effort: that reason is the one to report, not why it could not be noted. */
export function noteFailedStart(stateFile: string, { exportName, settings }: NotedStart, failure: RunFailure): void {
  try {
    // A directory without any export says so. One with an empty state would seem to be in order.
    if (settings === undefined && !isFilePresent(stateFile)) return;
    const notes = openRunNotes(stateFile);
    try {
      if (settings !== undefined) assertDistinctName(exportName, dirname(stateFile), notes);
      notes.saveFailedStart(exportName, failure, settings);
    } finally {
      notes.close();
    }
  } catch {
    // Such as a directory that is not writable.
  }
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
