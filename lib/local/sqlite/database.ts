/** SQLite files of the house's own: how they are opened, and told from any other. */

import { dirname, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { ExportError, isExportError } from '../../core/errors.ts';
import { makeDirectory } from '../files/durable-fs.ts';
import { isBusy, sqliteError } from './errors.ts';

/** What a file holds, and the marks by which it is known (sqlite.org/pragma.html#pragma_application_id). */
export interface SqliteContent {
  readonly applicationId: number;
  /** Raised with every change of the schema; a file of a higher version was written by a newer exporter. */
  readonly version: number;
  readonly schema: string;
}

/** Another process writes one line at a time, so to wait this long means that it hangs. */
const patienceMs = 10_000;

/**
 * Opens `file`, which is made, with its directory, if need be.
 * @throws ExportError ConfigurationError where it cannot be opened, holds something else, or is of a newer exporter
 */
export function openSqliteFile(file: string, content: SqliteContent): DatabaseSync {
  let database: DatabaseSync | undefined;
  try {
    const directory = resolve(dirname(file));
    makeDirectory(directory, directory);
    database = new DatabaseSync(file, { timeout: patienceMs });
    // A line logged must outlive a power cut. EXTRA is FULL, and as safe where the file system allows no WAL.
    database.exec('PRAGMA synchronous = EXTRA');
    claim(database, file, content);
    enterWal(database);
    return database;
  } catch (error) {
    database?.close();
    throw isExportError(error) ? error : sqliteError(file, error);
  }
}

/** Makes the tables in an empty file; of any other, makes sure that they are there. Of two that come first, one does it. */
function claim(
  database: DatabaseSync,
  file: string,
  { applicationId, version: schemaVersion, schema }: SqliteContent,
): void {
  database.exec('BEGIN IMMEDIATE');
  const version = pragma(database, 'user_version');
  const empty = database.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').get() === undefined;
  if (empty && version === 0) {
    database.exec(`${schema}; PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${schemaVersion};`);
  } else if (pragma(database, 'application_id') !== applicationId) {
    throw refusal(file, "is another program's SQLite file; choose another directory, or move it away");
  } else if (version > schemaVersion) {
    throw refusal(
      file,
      `was written by a newer report-exporter (schema ${version}, this one knows up to ${schemaVersion}); use that one`,
    );
  } else if (version < schemaVersion) {
    throw refusal(
      file,
      `is of schema ${version}, which no released report-exporter wrote (this one knows ${schemaVersion}); move it away to ` +
        'begin with an empty one, or restore it from a backup',
    );
  }
  database.exec('COMMIT');
}

/**
 * Readers and writers of several processes then do not wait for one another; the file remembers it. Where two processes
 * enter at once SQLite waits for neither, as each might wait for the other: so the waiting is done here.
 */
function enterWal(database: DatabaseSync): void {
  for (const waitingSince = Date.now(); ; Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5)) {
    try {
      database.exec('PRAGMA journal_mode = WAL');
      return;
    } catch (error) {
      if (!isBusy(error) || Date.now() - waitingSince > patienceMs) throw error;
    }
  }
}

function pragma(database: DatabaseSync, name: 'user_version' | 'application_id'): number {
  return Number(Object.values(database.prepare(`PRAGMA ${name}`).get() ?? {})[0]);
}

function refusal(file: string, why: string): ExportError {
  return new ExportError('ConfigurationError', `${file} ${why}`);
}
