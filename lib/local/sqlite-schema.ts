/** The page log's file: how it is opened, what lies in it, and how to tell it from any other. */

import { dirname, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { ExportError, isExportError } from '../core/errors.ts';
import { makeDirectory } from './durable-files.ts';
import { isBusy, sqliteError } from './sqlite-errors.ts';

/** Raised with every change of the schema; a file of a higher version was written by a newer exporter. */
const schemaVersion = 3;

/** "REXP": tells a page log from another program's SQLite file (sqlite.org/pragma.html#pragma_application_id). */
const applicationId = 0x52455850;

const schema = `
  CREATE TABLE heads (
    export  TEXT NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL,
    head    TEXT NOT NULL CHECK (json_valid(head)),
    seal    TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE pages (
    export TEXT NOT NULL,
    run    TEXT NOT NULL,
    page   INTEGER NOT NULL,
    entry  TEXT NOT NULL CHECK (json_valid(entry)),
    seal   TEXT NOT NULL,
    PRIMARY KEY (export, run, page)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE exports (
    export   TEXT NOT NULL PRIMARY KEY,
    settings TEXT NOT NULL CHECK (json_valid(settings))
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE setbacks (
    id      INTEGER PRIMARY KEY,
    export  TEXT NOT NULL,
    run     TEXT NOT NULL,
    setback TEXT NOT NULL CHECK (json_valid(setback))
  ) STRICT;
  CREATE INDEX setbacks_of_runs ON setbacks (export, run, id);
  PRAGMA application_id = ${applicationId};
  PRAGMA user_version = ${schemaVersion};
`;

/** Another process writes one line at a time, so to wait this long means that it hangs. */
const patienceMs = 10_000;

/** @throws ExportError ConfigurationError where the file cannot be opened, is not a page log, or is a newer one */
export function openPageLogFile(file: string): DatabaseSync {
  let database: DatabaseSync | undefined;
  try {
    const directory = resolve(dirname(file));
    makeDirectory(directory, directory);
    database = new DatabaseSync(file, { timeout: patienceMs });
    // A line logged must outlive a power cut. EXTRA is FULL, and as safe where the file system allows no WAL.
    database.exec('PRAGMA synchronous = EXTRA');
    claim(database, file);
    enterWal(database);
    return database;
  } catch (error) {
    database?.close();
    throw isExportError(error) ? error : sqliteError(file, error);
  }
}

/** Makes the tables in an empty file; of any other, makes sure that they are there. Of two that come first, one does it. */
function claim(database: DatabaseSync, file: string): void {
  database.exec('BEGIN IMMEDIATE');
  const version = pragma(database, 'user_version');
  const empty = database.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').get() === undefined;
  if (empty && version === 0) {
    database.exec(schema);
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
