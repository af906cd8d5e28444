/**
 * What an operator will want to know of the exports in a directory, beside their state: with which settings each was last
 * started, and what held its runs up. No run depends on any of it.
 */

import type { Incident } from '../../core/operations/deployment.ts';
import type { RunRef } from '../../core/ports.ts';
import { parseSettings } from '../../core/settings/settings.ts';
import { type LocalExport, type LocalExportInput, localExportSchema } from '../settings.ts';
import { sqliteError } from './errors.ts';
import { openPageLogFile } from './page-log.ts';

export interface RunNotes {
  /** In alphabetical order. */
  exportNames(): readonly string[];
  /** As last remembered. @throws ConfigurationError where they can no longer be used */
  settings(exportName: string): LocalExport | undefined;
  remember(settings: LocalExportInput): void;
  note(run: RunRef, incident: Incident): void;
  /** In the order in which they were noted. */
  incidents(run: RunRef): Iterable<Incident>;
  lastIncident(run: RunRef): Incident | undefined;
  readonly close: () => void;
}

/** The notes in `file`, the page log's own. @throws ConfigurationError, here or on use, as the page log does */
export function openRunNotes(file: string): RunNotes {
  const database = openPageLogFile(file);
  const attempt = <T>(act: () => T): T => {
    try {
      return act();
    } catch (cause) {
      throw sqliteError(file, cause);
    }
  };
  const all = (sql: string, ...values: readonly string[]): readonly Record<string, unknown>[] =>
    attempt(() => database.prepare(sql).all(...values));
  const run = (sql: string, ...values: readonly string[]): void => {
    attempt(() => database.prepare(sql).run(...values));
  };
  const incidentIn = ({ incident }: Record<string, unknown>) => JSON.parse(String(incident)) as Incident;

  return {
    exportNames: () => all('SELECT export FROM exports ORDER BY export').map(({ export: name }) => String(name)),
    settings(exportName) {
      const [row] = all('SELECT settings FROM exports WHERE export = ?', exportName);
      if (row === undefined) return undefined;
      return parseSettings(localExportSchema, JSON.parse(String(row.settings)), `settings of ${exportName} in ${file}`);
    },
    remember(settings) {
      const text = JSON.stringify(settings);
      run('INSERT INTO exports VALUES (?1, ?2) ON CONFLICT DO UPDATE SET settings = ?2', settings.export.name, text);
    },
    note({ export: name, run: id }, incident) {
      run('INSERT INTO incidents (export, run, incident) VALUES (?, ?, ?)', name, id, JSON.stringify(incident));
    },
    *incidents({ export: name, run: id }) {
      for (const row of all('SELECT incident FROM incidents WHERE export = ? AND run = ? ORDER BY id', name, id)) {
        yield incidentIn(row);
      }
    },
    lastIncident({ export: name, run: id }) {
      const newest = 'SELECT incident FROM incidents WHERE export = ? AND run = ? ORDER BY id DESC LIMIT 1';
      const [row] = all(newest, name, id);
      return row && incidentIn(row);
    },
    close() {
      if (database.isOpen) database.close();
    },
  };
}
