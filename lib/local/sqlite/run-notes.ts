/**
 * What operators' commands show of the exports in a directory, besides their state: the settings of the last run, and a start
 * that failed since. No run depends on it.
 */

import { existsSync, readdirSync } from 'node:fs';
import { dirname } from 'node:path';
import type { RunFailure } from '../../core/model.ts';
import { ExportError } from '../../core/errors.ts';
import { readVersioned } from '../../settings/deployed-settings.ts';
import type { SavedSettings } from '../settings.ts';
import { fileSystemError } from '../durable-fs.ts';
import { openStateFile, type StateFile } from './state-file.ts';

export function runNotesIn({ file, all, run }: StateFile) {
  // Notes are written while pages arrive, on the thread that receives them. The page log's next write makes them durable.
  const exportNames = () => all('SELECT export FROM exports ORDER BY export').map(({ export: name }) => String(name));
  return {
    /** In alphabetical order. */
    exportNames,

    /** The settings last saved; undefined if there are none. @throws ConfigurationError if another version saved them */
    settings(exportName: string): SavedSettings | undefined {
      const [row] = all('SELECT settings FROM exports WHERE export = ?', exportName);
      if (row === undefined) return undefined;
      const saved = readVersioned<SavedSettings>(row.settings);
      if (saved !== undefined) return saved;
      throw new ExportError(
        'ConfigurationError',
        `Another version of report-exporter saved the settings of ${exportName} in ${file}. Use that version, or another directory`,
      );
    },

    /** Why the newest regular start has begun no run; undefined if it has. */
    failedStart(exportName: string): RunFailure | undefined {
      const [row] = all('SELECT failed_start FROM exports WHERE export = ?', exportName);
      const text = row?.failed_start;
      return typeof text === 'string' ? (JSON.parse(text) as RunFailure) : undefined;
    },

    /** @throws ConfigurationError if another export of the directory has a name that differs only in its case */
    assertDistinctName(exportName: string): void {
      const out = dirname(file);
      // The folders, too: a directory whose state was moved away keeps them.
      const other = [...exportNames(), ...namesIn(out)].find(
        (existing) => existing !== exportName && existing.toLowerCase() === exportName.toLowerCase(),
      );
      if (other === undefined) return;
      throw new ExportError(
        'ConfigurationError',
        `${exportName}: ${out} has the export ${other} already, and where file names ignore case, both would share a folder. ` +
          'Choose a name that differs in more than case, or another directory',
      );
    },

    /** Notes that a run has begun, and saves its settings if they are given. A bounded run leaves a failed start of a regular one. */
    saveStart(exportName: string, settings?: SavedSettings, isBounded = false): void {
      if (settings !== undefined) {
        const save =
          'INSERT INTO exports (export, settings) VALUES (?, ?) ON CONFLICT DO UPDATE SET settings = excluded.settings';
        run(save, exportName, JSON.stringify(settings));
      }
      if (!isBounded) run('UPDATE exports SET failed_start = NULL WHERE export = ?', exportName);
    },

    /** An export that has never run is added if its settings are given. */
    saveFailedStart(exportName: string, failure: RunFailure, settings?: SavedSettings): void {
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
  // A directory without any export says so. One with an empty state would seem to be in order.
  if (settings === undefined && !existsSync(file)) return;
  using state = openStateFile(file);
  const notes = runNotesIn(state);
  try {
    if (settings !== undefined) notes.assertDistinctName(exportName);
    notes.saveFailedStart(exportName, failure, settings);
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
