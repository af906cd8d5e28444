/** Opens the exporter's SQLite files, creates their tables, and rejects files of other programs or other versions. */

import { dirname, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { ExportError, isExportError } from '../../core/errors.ts';
import { createDirectoryDurably, isFilePresent } from '../durable-fs.ts';
import { isBusyError, sqliteError } from './errors.ts';

/** What a file contains, and how it is recognized (sqlite.org/pragma.html#pragma_application_id). */
export interface SqliteFormat {
  readonly applicationId: number;
  /** Increased with every change of the schema. A file with a higher version was written by a newer exporter. */
  readonly version: number;
  readonly schema: string;
  /** What it costs to move the file away, for an error message: `published pages stay, …` */
  readonly whenMovedAway?: string;
}

/** Another process holds the lock while it writes one row. After this long, that process hangs. */
const busyTimeoutMs = 10_000;

/**
 * Opens `file`, creating it and its directory if needed.
 * @throws ConfigurationError if it cannot be opened, has another format, or was written by a newer exporter
 */
export function openSqliteFile(file: string, format: SqliteFormat): DatabaseSync {
  let database: DatabaseSync | undefined;
  try {
    const directory = resolve(dirname(file));
    createDirectoryDurably(directory, directory);
    isFilePresent(file);
    database = new DatabaseSync(file);
    // Not the option `timeout`, which Node.js 22.13 ignores.
    database.exec(`PRAGMA busy_timeout = ${busyTimeoutMs}`);
    // Commits must survive a power loss. EXTRA is FULL in WAL mode, and as safe where the file system has no WAL.
    database.exec('PRAGMA synchronous = EXTRA');
    initializeOrVerify(database, file, format);
    enableWal(database);
    return database;
  } catch (error) {
    database?.close();
    throw isExportError(error) ? error : sqliteError(file, error, format.whenMovedAway);
  }
}

/** Creates the tables in an empty file, and checks the format of any other. Of two processes, one creates them. */
function initializeOrVerify(
  database: DatabaseSync,
  file: string,
  { applicationId, version: supported, schema }: SqliteFormat,
): void {
  database.exec('BEGIN IMMEDIATE');
  const version = pragma(database, 'user_version');
  const isEmpty = database.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').get() === undefined;
  if (isEmpty && version === 0) {
    database.exec(`${schema}; PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${supported};`);
  } else if (pragma(database, 'application_id') !== applicationId) {
    throw formatError(file, 'is the SQLite file of another program. Choose another directory, or move the file away');
  } else if (version > supported) {
    throw formatError(
      file,
      `was written by a newer report-exporter (schema ${version}; this one supports ${supported}). Use that version`,
    );
  } else if (version < supported) {
    throw formatError(
      file,
      `has schema ${version}, which no released report-exporter wrote (this one supports ${supported}). Move it away to ` +
        'begin with an empty one, or restore it from a backup',
    );
  }
  database.exec('COMMIT');
}

/**
 * Switches to WAL mode, in which readers and writers of several processes do not block one another; the file keeps it.
 * SQLite's busy timeout does not apply if two processes switch at the same time, so this retries.
 */
function enableWal(database: DatabaseSync): void {
  for (const startedAt = Date.now(); ; Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5)) {
    try {
      database.exec('PRAGMA journal_mode = WAL');
      return;
    } catch (error) {
      if (!isBusyError(error) || Date.now() - startedAt > busyTimeoutMs) throw error;
    }
  }
}

function pragma(database: DatabaseSync, name: 'user_version' | 'application_id'): number {
  return Number(Object.values(database.prepare(`PRAGMA ${name}`).get() ?? {})[0]);
}

function formatError(file: string, reason: string): ExportError {
  return new ExportError('ConfigurationError', `${file} ${reason}`);
}
