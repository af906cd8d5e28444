/**
 * What operators' commands show of the exports in a directory, besides their state: the settings of the last start, and the
 * incidents of each run. No run depends on it.
 */

import { type IncidentLog, parseIncidentRecord } from '../../target/incidents.ts';
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
  readonly incidents: IncidentLog;
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
  const incidents: IncidentLog = {
    async read({ export: exportName, run }) {
      const [row] = select('SELECT record FROM incidents WHERE export = ? AND run = ?', exportName, run);
      return parseIncidentRecord(row && String(row.record));
    },
    // The process that holds the lock of the export is the only one that writes.
    async update(run, change) {
      const record = await incidents.read(run);
      const changed = change(record);
      if (changed === record) return;
      write(
        'INSERT INTO incidents (export, run, record) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET record = excluded.record',
        run.export,
        run.run,
        JSON.stringify(changed),
      );
    },
  };

  return {
    incidents,
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
    close() {
      if (database.isOpen) database.close();
    },
  };
}
