/**
 * What operators' commands show of the exports in a directory, besides their state: the settings of the last start, and the
 * incidents of each run. No run depends on it.
 */

import type { Incident } from '../../target/target.ts';
import type { RunRef } from '../../core/ports.ts';
import { parseSettings } from '../../settings/settings.ts';
import { type LocalExport, type LocalExportInput, localExportSchema } from '../settings.ts';
import { sqliteError } from './errors.ts';
import { openPageLogFile } from './page-log.ts';
import { deferSync } from './wal-sync.ts';

export interface RunNotes {
  /** In alphabetical order. */
  exportNames(): readonly string[];
  /** The settings last saved; undefined if there are none. @throws ConfigurationError if they are no longer valid */
  settings(exportName: string): LocalExport | undefined;
  saveSettings(settings: LocalExportInput): void;
  addIncident(run: RunRef, incident: Incident): void;
  /** In the order in which they were added. */
  incidents(run: RunRef): Iterable<Incident>;
  lastIncident(run: RunRef): Incident | undefined;
  readonly close: () => void;
}

/** The notes in the page log's file. @throws ConfigurationError, here or on use, as the page log does */
export function openRunNotes(file: string): RunNotes {
  const database = openPageLogFile(file);
  // Notes are written while pages arrive, on the thread that receives them. The page log's next write makes them durable.
  deferSync(database);
  const execute = <T>(operation: () => T): T => {
    try {
      return operation();
    } catch (cause) {
      throw sqliteError(file, cause);
    }
  };
  const select = (sql: string, ...values: readonly string[]): readonly Record<string, unknown>[] =>
    execute(() => database.prepare(sql).all(...values));
  const write = (sql: string, ...values: readonly string[]): void => {
    execute(() => database.prepare(sql).run(...values));
  };
  const parseIncident = ({ incident }: Record<string, unknown>) => JSON.parse(String(incident)) as Incident;

  return {
    exportNames: () => select('SELECT export FROM exports ORDER BY export').map(({ export: name }) => String(name)),
    settings(exportName) {
      const [row] = select('SELECT settings FROM exports WHERE export = ?', exportName);
      if (row === undefined) return undefined;
      return parseSettings(localExportSchema, JSON.parse(String(row.settings)), `settings of ${exportName} in ${file}`);
    },
    saveSettings(settings) {
      write(
        'INSERT INTO exports (export, settings) VALUES (?, ?) ON CONFLICT DO UPDATE SET settings = excluded.settings',
        settings.export.name,
        JSON.stringify(settings),
      );
    },
    addIncident({ export: exportName, run }, incident) {
      write(
        'INSERT INTO incidents (export, run, incident) VALUES (?, ?, ?)',
        exportName,
        run,
        JSON.stringify(incident),
      );
    },
    *incidents({ export: exportName, run }) {
      const inOrder = 'SELECT incident FROM incidents WHERE export = ? AND run = ? ORDER BY id';
      for (const row of select(inOrder, exportName, run)) yield parseIncident(row);
    },
    lastIncident({ export: exportName, run }) {
      const newest = 'SELECT incident FROM incidents WHERE export = ? AND run = ? ORDER BY id DESC LIMIT 1';
      const [row] = select(newest, exportName, run);
      return row && parseIncident(row);
    },
    close() {
      if (database.isOpen) database.close();
    },
  };
}
