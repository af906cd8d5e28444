/** Opens the exporter's SQLite files, creates their tables, and rejects files of other programs or other versions. */

import { existsSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { ExportError, isExportError } from '../../core/errors.ts';
import { createDirectoryDurably, isFilePresent } from '../durable-fs.ts';
import { isBusyError, isUnopenable, sqliteError, withSqliteErrors } from './errors.ts';
import { openWalSync } from './wal-sync.ts';

/** What a file contains, and how it is recognized (sqlite.org/pragma.html#pragma_application_id). */
export interface SqliteFormat {
  readonly applicationId: number;
  /** Increased with every change of the schema. A file with a higher version was written by a newer exporter. */
  readonly version: number;
  readonly schema: string;
  /** What it costs to move the file away, for an error message: `published pages stay, …` */
  readonly whenMovedAway?: string;
  /** Called before the file is opened. @throws ConfigurationError if its content was lost */
  readonly assertIntact?: (file: string) => void;
}

/** Another process holds the lock while it writes one row. After this long, that process hangs. */
const busyTimeoutMs = 10_000;

/**
 * Opens `file`, creating it and its directory if needed.
 * @throws ConfigurationError if it cannot be opened, has another format, or was written by a newer exporter
 */
function openSqliteFile(file: string, format: SqliteFormat): DatabaseSync {
  let database: DatabaseSync | undefined;
  try {
    const directory = resolve(dirname(file));
    createDirectoryDurably(directory, directory);
    isFilePresent(file);
    format.assertIntact?.(file);
    database = new DatabaseSync(file);
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

export interface SqliteReader {
  /** @throws ConfigurationError as `openSqliteFile` does */
  readonly all: (sql: string, ...values: readonly SQLInputValue[]) => readonly Record<string, unknown>[];
  /** A later read opens the file again. */
  readonly close: () => void;
}

/**
 * Reads `file`, without creating or changing anything: this user may not be allowed to write to its directory, and files that SQLite
 * creates for one user can be in the way of another.
 *
 * In WAL mode even a reader needs the files `-wal` and `-shm`. While they exist, it uses them. After the last writer has closed
 * the file, they do not, and `file` alone has everything. It is then read as one that nobody changes (`immutable`), without locks; if it
 * was changed meanwhile, it is read again.
 */
export function openSqliteReader(file: string, format: SqliteFormat): SqliteReader {
  let opened: { readonly revision: Revision; readonly database: DatabaseSync } | undefined;
  const close = () => {
    opened?.database.close();
    opened = undefined;
  };
  return {
    all(sql, ...values) {
      for (;;) {
        const revision = revisionOf(file);
        try {
          if (opened === undefined || opened.revision !== revision) {
            close();
            opened = { revision, database: openForReading(file, format, revision) };
          }
          const { database } = opened;
          // A file that its writer has only just created has no tables, and so no rows.
          const rows = isNew(database) ? [] : database.prepare(sql).all(...values);
          if (revision === undefined || revisionOf(file) === revision) return rows;
        } catch (error) {
          close();
          if (revisionOf(file) === revision) throw isExportError(error) ? error : readError(file, error, format);
        }
      }
    },
    close,
  };
}

export interface SqliteConnection extends SqliteReader {
  /** Returns whether the statement has changed a row, which may not survive a power loss before the next `write`. */
  readonly run: (sql: string, ...values: readonly SQLInputValue[]) => boolean;
  /** Resolves to whether the statement has changed a row. Either way, what the file then holds survives a power loss. */
  readonly write: (sql: string, ...values: readonly SQLInputValue[]) => Promise<boolean>;
}

/**
 * Opens `file`, creating it and its directory if needed. `statements` are prepared at once, so that a table that was changed is found.
 * @throws ConfigurationError as `openSqliteFile` does
 */
export function openForWriting(
  file: string,
  format: SqliteFormat,
  statements: readonly string[] = [],
): SqliteConnection {
  const database = openSqliteFile(file, format);
  const walSync = openWalSync(database, file);
  const prepared = new Map<string, StatementSync>();
  const prepare = (sql: string): StatementSync => {
    const statement = prepared.get(sql) ?? database.prepare(sql);
    prepared.set(sql, statement);
    return statement;
  };
  const close = () => {
    walSync.close();
    if (database.isOpen) database.close();
  };
  try {
    withSqliteErrors(file, () => statements.forEach(prepare));
  } catch (error) {
    close();
    throw error;
  }
  const run: SqliteConnection['run'] = (sql, ...values) =>
    withSqliteErrors(file, () => prepare(sql).run(...values)).changes === 1;
  return {
    all: (sql, ...values) => withSqliteErrors(file, () => prepare(sql).all(...values)),
    run,
    async write(sql, ...values) {
      const hasChanged = run(sql, ...values);
      await walSync.flush();
      return hasChanged;
    },
    close,
  };
}

/** Reads `file`, and opens it for writing with the first write: until then nothing is created, and it need not be writable. */
export function openOnDemand(file: string, format: SqliteFormat): Omit<SqliteConnection, 'run'> {
  const reader = openSqliteReader(file, format);
  let writer: SqliteConnection | undefined;
  return {
    all: (sql, ...values) => (writer ?? reader).all(sql, ...values),
    async write(sql, ...values) {
      reader.close();
      writer ??= openForWriting(file, format);
      return await writer.write(sql, ...values);
    },
    close() {
      reader.close();
      writer?.close();
      writer = undefined;
    },
  };
}

/** Differs whenever the file has other content. Undefined while a writer may have it open, or if one was killed. */
type Revision = string | undefined;

function revisionOf(file: string): Revision {
  if (existsSync(`${file}-wal`) || existsSync(`${file}-journal`)) return undefined;
  const { ino, size, mtimeNs } = statSync(file, { bigint: true, throwIfNoEntry: false }) ?? {};
  return `${ino} ${size} ${mtimeNs}`;
}

function openForReading(file: string, format: SqliteFormat, revision: Revision): DatabaseSync {
  isFilePresent(file);
  format.assertIntact?.(file);
  const database = revision === undefined ? new DatabaseSync(file, { readOnly: true }) : openImmutable(file);
  try {
    database.exec(`PRAGMA busy_timeout = ${busyTimeoutMs}`);
    if (!isNew(database)) assertFormat(database, file, format);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

const openImmutable = (file: string): DatabaseSync =>
  new DatabaseSync(`${pathToFileURL(file).href}?immutable=1`, { readOnly: true });

function readError(file: string, cause: unknown, { whenMovedAway }: SqliteFormat): ExportError {
  if (!isUnopenable(cause) || !existsSync(`${file}-wal`) || existsSync(`${file}-shm`)) {
    return sqliteError(file, cause, whenMovedAway);
  }
  const reason = `was not closed by its last writer, and cannot be read without ${file}-shm, which this user may not create`;
  return new ExportError(
    'ConfigurationError',
    `${file} ${reason}. Run the command as a user who may write to its directory, or on a copy of the directory`,
    { cause },
  );
}

/** Creates the tables in an empty file, and checks the format of any other. Of two processes, one creates them. */
function initializeOrVerify(database: DatabaseSync, file: string, format: SqliteFormat): void {
  const { applicationId, version, schema } = format;
  database.exec('BEGIN IMMEDIATE');
  if (isNew(database)) {
    database.exec(`${schema}; PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${version};`);
  } else {
    assertFormat(database, file, format);
  }
  database.exec('COMMIT');
}

const isNew = (database: DatabaseSync): boolean =>
  database.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').get() === undefined && pragma(database, 'user_version') === 0;

function assertFormat(
  database: DatabaseSync,
  file: string,
  { applicationId, version: supported }: Pick<SqliteFormat, 'applicationId' | 'version'>,
): void {
  const version = pragma(database, 'user_version');
  if (pragma(database, 'application_id') !== applicationId) {
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
