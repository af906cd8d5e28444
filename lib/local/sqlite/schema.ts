/** What lies in the page log's file. */

import type { DatabaseSync } from 'node:sqlite';
import { openSqliteFile } from './database.ts';

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
`;

/** @throws ExportError ConfigurationError where the file cannot be opened, is not a page log, or is a newer one */
export function openPageLogFile(file: string): DatabaseSync {
  // "REXP"
  return openSqliteFile(file, { applicationId: 0x52455850, version: 3, schema });
}
