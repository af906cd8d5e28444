/**
 * `state.sqlite` in the output directory: the page log, and the metadata of pages. Opens the file, creates
 * its tables, and rejects files of other programs or other versions.
 *
 * A commit that waited for the disk would also stop every page that is just arriving. In WAL mode it need not: it
 * appends checksummed frames to the file `…-wal`, and survives a power loss once that file is synced. With
 * `synchronous=NORMAL`, SQLite syncs it only at a checkpoint, and stays consistent (sqlite.org/wal.html). So it is
 * synced here, in Node's thread pool.
 */

import { closeSync, existsSync, fdatasync, globSync, openSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { settled, sharedRuns } from '../../core/concurrency.ts';
import { ExportError, isExportError } from '../../core/errors.ts';
import { runsPrefix } from '../../core/storage/keys.ts';
import { createDirectoryDurably, fileSystemError, fsyncDirectorySync, isFilePresent } from '../durable-fs.ts';
import { isBusyError, isRollbackNeeded, sqliteError, withSqliteErrors } from './errors.ts';

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
    -- Counts down from -1, so that the newest attempt comes first. 0 for a run with one slice.
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
  -- What the exports of a service share.
  CREATE TABLE shared_records (
    name     TEXT NOT NULL PRIMARY KEY,
    revision TEXT NOT NULL,
    content  TEXT NOT NULL CHECK (json_valid(content))
  ) STRICT, WITHOUT ROWID;
`;

/** Identifies the file (sqlite.org/pragma.html#pragma_application_id): "REXP". */
const applicationId = 0x52455850;
/** Increased with every change of the schema. */
const schemaVersion = 11;

/** In milliseconds. Another process holds the lock while it writes one row. After this long, that process hangs. */
const timeout = 10_000;

export interface StateFile extends Disposable {
  readonly file: string;
  /** The rows; none if there is no file. */
  readonly all: (sql: string, ...values: readonly SQLInputValue[]) => readonly Record<string, unknown>[];
  /** Returns whether the statement has changed a row, which may not survive a power loss before the next `write`. */
  readonly run: (sql: string, ...values: readonly SQLInputValue[]) => boolean;
  /**
   * Resolves to whether the statement has changed a row. Either way, what the file then holds survives a power loss.
   */
  readonly write: (sql: string, ...values: readonly SQLInputValue[]) => Promise<boolean>;
  /** A later call opens the file again. */
  readonly close: () => void;
}

/**
 * The state in `file`. The first write creates it, and its directory, if needed; with `create`, this function does.
 * Until then nothing is created, and the file need not be writable. Any number of processes may use it concurrently.
 * @throws ConfigurationError, on use, if it cannot be opened, has another format, or is damaged
 */
export function openStateFile(file: string, { create = false } = {}): StateFile {
  let writer = create ? openForWriting(file) : undefined;
  const run: StateFile['run'] = (sql, ...values) => {
    writer ??= openForWriting(file);
    const { prepare } = writer;
    return withSqliteErrors(file, () => prepare(sql).run(...values)).changes === 1;
  };
  const close = () => {
    if (writer === undefined) return;
    writer.closeWal();
    leaveWal(writer.database);
    writer.database.close();
    writer = undefined;
  };
  return {
    file,
    all(sql, ...values) {
      if (writer === undefined) return readFrom(file, sql, values);
      const { prepare } = writer;
      return withSqliteErrors(file, () => prepare(sql).all(...values));
    },
    run,
    async write(sql, ...values) {
      const hasChanged = run(sql, ...values);
      await writer?.syncWal();
      return hasChanged;
    },
    close,
    [Symbol.dispose]: close,
  };
}

interface Writer {
  readonly database: DatabaseSync;
  readonly prepare: (sql: string) => StatementSync;
  /** Resolves once all commits before the call survive a power loss. @throws ConfigurationError if the disk fails */
  readonly syncWal: () => Promise<void>;
  readonly closeWal: () => void;
}

/** Prepares each statement once: the same few are executed for every page. */
function preparedIn(database: DatabaseSync): Writer['prepare'] {
  const prepared = new Map<string, StatementSync>();
  return (sql) => {
    const statement = prepared.get(sql) ?? database.prepare(sql);
    prepared.set(sql, statement);
    return statement;
  };
}

/** Opens `file` for writing, and creates it, its directory and its tables if needed. */
function openForWriting(file: string): Writer {
  const directory = resolve(dirname(file));
  createDirectoryDurably(directory, directory);
  return withSqliteErrors(file, () => {
    assertNotTruncated(file);
    const database = new DatabaseSync(file, { timeout });
    try {
      // Commits must survive a power loss. EXTRA is FULL in WAL mode, and as safe where the file system has no WAL.
      database.exec('PRAGMA synchronous = EXTRA');
      // One of two processes creates the tables.
      database.exec('BEGIN IMMEDIATE');
      if (isNew(database)) {
        const identity = `PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${schemaVersion};`;
        database.exec(`${schema}; ${identity}`);
      } else assertFormat(database, file);
      database.exec('COMMIT');
      enableWal(database);
      return { database, prepare: preparedIn(database), ...walOf(database, file) };
    } catch (error) {
      database.close();
      throw error;
    }
  });
}

/**
 * The rows of one query, without creating or changing anything: this user may not be allowed to write to the directory,
 * and files that SQLite creates for one user can be in the way of another. The file is closed after the query, so that
 * the last writer can leave WAL mode.
 */
function readFrom(file: string, sql: string, values: readonly SQLInputValue[]): ReturnType<StateFile['all']> {
  if (!isFilePresent(file)) return [];
  assertNotTruncated(file);
  const query = (readOnly: boolean) => {
    using database = new DatabaseSync(file, { readOnly, timeout });
    // A file that its writer has only just created has no tables, and so no rows.
    if (isNew(database)) return [];
    assertFormat(database, file);
    return database.prepare(sql).all(...values);
  };
  try {
    return query(true);
  } catch (error) {
    // A writer that was killed outside WAL mode, as while it created the file, leaves a transaction that must be undone
    // first.
    if (isRollbackNeeded(error)) return withSqliteErrors(file, () => query(false));
    throw isExportError(error) ? error : readError(file, error);
  }
}

/** After a writer was killed, a reader must be able to create one of SQLite's files. */
function readError(file: string, cause: unknown): ExportError {
  if (!existsSync(`${file}-wal`) || existsSync(`${file}-shm`)) return sqliteError(file, cause);
  const reason = `was not closed by its last writer, and cannot be read without ${file}-shm, which this user may not create`;
  const remedy = 'Run the command as a user who may write to its directory, or on a copy of the directory';
  return new ExportError('ConfigurationError', `${file} ${reason}. ${remedy}`, { cause });
}

const isNew = (database: DatabaseSync): boolean =>
  database.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').get() === undefined && pragma(database, 'user_version') === 0;

function assertFormat(database: DatabaseSync, file: string): void {
  const version = pragma(database, 'user_version');
  const isOurs = pragma(database, 'application_id') === applicationId;
  if (isOurs && version === schemaVersion) return;
  const problem = isOurs
    ? `was written by another version of report-exporter (schema ${version}; this one supports ${schemaVersion}). Use that version`
    : 'is the SQLite file of another program. Choose another directory, or move the file away';
  throw new ExportError('ConfigurationError', `${file} ${problem}`);
}

/**
 * Switches to WAL mode, in which readers and writers of several processes do not block one another.
 * SQLite's busy timeout does not apply if two processes switch at the same time, so this retries.
 */
function enableWal(database: DatabaseSync): void {
  for (const startedAt = Date.now(); ; Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5)) {
    try {
      database.exec('PRAGMA journal_mode = WAL');
      return;
    } catch (error) {
      if (!isBusyError(error) || Date.now() - startedAt > timeout) throw error;
    }
  }
}

/**
 * Lets commits return before they survive a power loss. Any later `syncWal` of the same file or a checkpoint makes them
 * durable. Where the file system has no WAL, commits keep waiting for the disk.
 */
function walOf(database: DatabaseSync, file: string): Pick<Writer, 'syncWal' | 'closeWal'> {
  const { journal_mode: mode } = database.prepare('PRAGMA journal_mode').get() ?? {};
  if (mode !== 'wal') return { syncWal: async () => {}, closeWal: () => {} };
  database.exec('PRAGMA synchronous = NORMAL');
  const wal = `${file}-wal`;
  let descriptor: number | undefined;
  /** SQLite creates the file with the first write, and keeps it while a connection is open. */
  const openOnce = (): number => {
    // Another process may have been killed before SQLite synced the name of the new file.
    if (descriptor === undefined) fsyncDirectorySync(dirname(wal));
    descriptor ??= openSync(wal, 'r+');
    return descriptor;
  };
  const syncWal = async () => {
    try {
      const opened = openOnce();
      // Content and length, not file times: SQLite overwrites the file in place, and seldom changes its length.
      await settled((done) => fdatasync(opened, done));
    } catch (cause) {
      throw isExportError(cause) ? cause : fileSystemError('sync', wal, cause);
    }
  };
  return {
    // One sync covers the commits of all chains that wait for it.
    syncWal: sharedRuns(syncWal),
    closeWal() {
      if (descriptor !== undefined) closeSync(descriptor);
      descriptor = undefined;
    },
  };
}

/**
 * Leaves WAL mode, in which even a reader needs the files `-wal` and `-shm`, and so write access to the directory if
 * they do not exist. While another connection is open, this fails at once, and the last one to be closed does it. A
 * killed process leaves the files.
 */
function leaveWal(database: DatabaseSync): void {
  try {
    database.exec('PRAGMA busy_timeout = 0; PRAGMA synchronous = EXTRA; PRAGMA journal_mode = DELETE');
  } catch (error) {
    if (!isBusyError(error)) throw error;
  }
}

function pragma(database: DatabaseSync, name: 'user_version' | 'application_id'): number {
  return Number(Object.values(database.prepare(`PRAGMA ${name}`).get() ?? {})[0]);
}

/**
 * SQLite takes a file of no byte, or of one, for a new database. Beside runs, it is one that has lost their watermarks.
 */
function assertNotTruncated(file: string): void {
  const directory = dirname(file);
  if (!isFilePresent(file) || statSync(file).size > 1) return;
  if (globSync(`${runsPrefix('*')}*`, { cwd: directory }).length === 0) return;
  throw new ExportError(
    'ConfigurationError',
    `${file} is empty, although ${directory} has runs: its content was lost. Restore a copy of it; or move it away, and start with --since ` +
      'where the next run is to begin',
  );
}
