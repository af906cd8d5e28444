/**
 * What operators' commands show of the exports in a directory, besides their state: the settings of the last run, and a start
 * that failed since. No run depends on it.
 */

import { readdirSync } from 'node:fs';
import { dirname } from 'node:path';
import type { RunFailure } from '../../core/model.ts';
import { ExportError } from '../../core/errors.ts';
import { settingsVersion } from '../../settings/deployed-settings.ts';
import type { SavedSettings } from '../settings.ts';
import { fileSystemError, isFilePresent } from '../durable-fs.ts';
import { openForWriting, openSqliteReader, type SqliteReader } from './database.ts';
import { stateFormat } from './state-file.ts';

/** What reading them needs. */
export interface RunNotesReader {
  /** In alphabetical order. */
  exportNames(): readonly string[];
  /** The settings last saved; undefined if there are none. @throws ConfigurationError if another version saved them */
  settings(exportName: string): SavedSettings | undefined;
  /** Why the newest regular start has begun no run; undefined if it has. */
  failedStart(exportName: string): RunFailure | undefined;
  readonly close: () => void;
}

export interface RunNotes extends RunNotesReader {
  /** @throws ConfigurationError if another export of the directory has a name that differs only in its case */
  assertDistinctName(exportName: string): void;
  /** Notes that a run has begun, and saves its settings if they are given. A bounded run leaves a failed start of a regular one. */
  saveStart(exportName: string, settings?: SavedSettings, isBounded?: boolean): void;
  /** An export that has never run is added if its settings are given. */
  saveFailedStart(exportName: string, failure: RunFailure, settings?: SavedSettings): void;
}

/** The notes in the page log's file, which is not changed. @throws ConfigurationError, here or on use, as the page log does */
export const readRunNotes = (file: string): RunNotesReader => notesIn(file, openSqliteReader(file, stateFormat));

function notesIn(file: string, { all, close }: SqliteReader): RunNotesReader {
  return {
    exportNames: () => all('SELECT export FROM exports ORDER BY export').map(({ export: name }) => String(name)),
    settings(exportName) {
      const [row] = all('SELECT settings FROM exports WHERE export = ?', exportName);
      if (row === undefined) return undefined;
      const saved = JSON.parse(String(row.settings)) as SavedSettings;
      if (saved.version === settingsVersion) return saved;
      throw new ExportError(
        'ConfigurationError',
        `Another version of report-exporter saved the settings of ${exportName} in ${file}. Use that version, or another directory`,
      );
    },
    failedStart(exportName) {
      const [row] = all('SELECT failed_start FROM exports WHERE export = ?', exportName);
      const text = row?.failed_start;
      return typeof text === 'string' ? (JSON.parse(text) as RunFailure) : undefined;
    },
    close,
  };
}

/** The notes in the page log's file. @throws ConfigurationError, here or on use, as the page log does */
export function openRunNotes(file: string): RunNotes {
  const connection = openForWriting(file, stateFormat);
  // Notes are written while pages arrive, on the thread that receives them. The page log's next write makes them durable.
  const { run } = connection;
  const notes = notesIn(file, connection);
  return {
    ...notes,
    assertDistinctName(exportName) {
      const out = dirname(file);
      // The folders, too: a directory whose state was moved away keeps them.
      const other = [...notes.exportNames(), ...namesIn(out)].find(
        (existing) => existing !== exportName && existing.toLowerCase() === exportName.toLowerCase(),
      );
      if (other === undefined) return;
      throw new ExportError(
        'ConfigurationError',
        `${exportName}: ${out} has the export ${other} already, and where file names ignore case, both would share a folder. ` +
          'Choose a name that differs in more than case, or another directory',
      );
    },
    saveStart(exportName, settings, isBounded = false) {
      if (settings !== undefined) {
        const save =
          'INSERT INTO exports (export, settings) VALUES (?, ?) ON CONFLICT DO UPDATE SET settings = excluded.settings';
        run(save, exportName, JSON.stringify(settings));
      }
      if (!isBounded) run('UPDATE exports SET failed_start = NULL WHERE export = ?', exportName);
    },
    saveFailedStart(exportName, failure, settings) {
      if (settings !== undefined) {
        const add = 'INSERT INTO exports (export, settings) VALUES (?, ?) ON CONFLICT DO NOTHING';
        run(add, exportName, JSON.stringify(settings));
      }
      run('UPDATE exports SET failed_start = ? WHERE export = ?', JSON.stringify(failure), exportName);
    },
  };
}

/**
 * Notes why a start has begun no run. An export that has never run is added if its settings are given. Best effort: that reason is the
 * one to report, not why it could not be noted.
 */
export function noteFailedStart(file: string, exportName: string, failure: RunFailure, settings?: SavedSettings): void {
  try {
    // A directory without any export says so. One with an empty state would seem to be in order.
    if (settings === undefined && !isFilePresent(file)) return;
    const notes = openRunNotes(file);
    try {
      if (settings !== undefined) notes.assertDistinctName(exportName);
      notes.saveFailedStart(exportName, failure, settings);
    } finally {
      notes.close();
    }
  } catch {
    // Such as a directory that is not writable.
  }
}

function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch (cause) {
    throw fileSystemError('list', directory, cause);
  }
}
