/**
 * What operators' commands show of the exports in a directory, besides their state: the settings of the last run, and a start
 * that failed since. No run depends on it.
 */

import type { RunFailure } from '../../core/model.ts';
import { ExportError } from '../../core/errors.ts';
import { settingsVersion } from '../../settings/environment.ts';
import type { SavedSettings } from '../settings.ts';
import type { SqliteReader } from './database.ts';
import { withSqliteErrors } from './errors.ts';
import { openPageLogFile, readPageLogFile } from './page-log.ts';
import { deferSync } from './wal-sync.ts';

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
  /** Notes that a run has begun, and saves its settings if they are given. A bounded run leaves a failed start of a regular one. */
  saveStart(exportName: string, settings?: SavedSettings, isBounded?: boolean): void;
  /** An export that has never run is added if its settings are given. */
  saveFailedStart(exportName: string, failure: RunFailure, settings?: SavedSettings): void;
}

/** The notes in the page log's file, which is not changed. @throws ConfigurationError, here or on use, as the page log does */
export const readRunNotes = (file: string): RunNotesReader => notesIn(file, readPageLogFile(file));

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
  const database = openPageLogFile(file);
  // Notes are written while pages arrive, on the thread that receives them. The page log's next write makes them durable.
  deferSync(database);
  const write = (sql: string, ...values: readonly string[]): void => {
    withSqliteErrors(file, () => database.prepare(sql).run(...values));
  };
  const notes = notesIn(file, {
    all: (sql, ...values) => withSqliteErrors(file, () => database.prepare(sql).all(...values)),
    close() {
      if (database.isOpen) database.close();
    },
  });
  return {
    ...notes,
    saveStart(exportName, settings, isBounded = false) {
      const forgetFailure = 'failed_start = NULL';
      if (settings === undefined) {
        if (!isBounded) write(`UPDATE exports SET ${forgetFailure} WHERE export = ?`, exportName);
        return;
      }
      write(
        `INSERT INTO exports (export, settings) VALUES (?, ?) ON CONFLICT DO UPDATE SET settings = excluded.settings${isBounded ? '' : `, ${forgetFailure}`}`,
        exportName,
        JSON.stringify(settings),
      );
    },
    saveFailedStart(exportName, failure, settings) {
      const text = JSON.stringify(failure);
      if (settings !== undefined) {
        write(
          'INSERT INTO exports (export, settings) VALUES (?, ?) ON CONFLICT DO NOTHING',
          exportName,
          JSON.stringify(settings),
        );
      }
      write('UPDATE exports SET failed_start = ? WHERE export = ?', text, exportName);
    },
  };
}
