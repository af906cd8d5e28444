/** `state.sqlite` in the output directory: the page log, the metadata of pages, and notes for operators' commands. */

import { readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ExportError } from '../../core/errors.ts';
import { runsPrefix } from '../../core/storage/keys.ts';
import type { SqliteFormat } from './database.ts';

/** The file in the output directory `out`. */
export const stateFileIn = (out: string): string => join(out, 'state.sqlite');

const schema = `
  CREATE TABLE export_states (
    export   TEXT NOT NULL PRIMARY KEY,
    version  INTEGER NOT NULL,
    state    TEXT NOT NULL CHECK (json_valid(state)),
    checksum TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE pages (
    export   TEXT NOT NULL,
    run      TEXT NOT NULL,
    -- 0 for a run with one slice.
    slice    INTEGER NOT NULL,
    attempt  INTEGER NOT NULL,
    page     INTEGER NOT NULL,
    entry    TEXT NOT NULL CHECK (json_valid(entry)),
    checksum TEXT NOT NULL,
    PRIMARY KEY (export, run, slice, attempt, page)
  ) STRICT, WITHOUT ROWID;
  -- What is stored with a page in S3. The bytes of the page select their row.
  CREATE TABLE page_metadata (
    key      TEXT NOT NULL,
    sha256   TEXT NOT NULL,
    metadata TEXT NOT NULL CHECK (json_valid(metadata)),
    checksum TEXT NOT NULL,
    PRIMARY KEY (key, sha256)
  ) STRICT, WITHOUT ROWID;
  -- The notes for operators' commands.
  CREATE TABLE exports (
    export       TEXT NOT NULL PRIMARY KEY,
    settings     TEXT NOT NULL CHECK (json_valid(settings)),
    failed_start TEXT CHECK (json_valid(failed_start))
  ) STRICT, WITHOUT ROWID;
`;

export const stateFormat: SqliteFormat = {
  // "REXP"
  applicationId: 0x52455850,
  version: 8,
  schema,
  whenMovedAway: 'published pages stay, and the next run starts at the beginning',
  assertIntact: assertNotTruncated,
};

/** SQLite takes a file of no byte, or of one, for a new database. Beside runs, it is one that has lost their watermarks. */
function assertNotTruncated(file: string): void {
  const directory = dirname(file);
  if (!isTruncated(file, directory)) return;
  throw new ExportError(
    'ConfigurationError',
    `${file} is empty, although ${directory} has runs: its content was lost. Restore a copy of it; or move it away, and start with --since ` +
      'where the next run is to begin',
  );
}

function isTruncated(file: string, directory: string): boolean {
  try {
    return statSync(file).size <= 1 && hasRuns(directory);
  } catch {
    // There is no such file, or opening it fails for the same reason, and says so.
    return false;
  }
}

const hasRuns = (directory: string): boolean =>
  readdirSync(directory, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !entry.name.startsWith('.'))
    .some(({ name }) =>
      readdirSync(join(directory, name)).some((day) => `${name}/${day}`.startsWith(runsPrefix(name))),
    );
