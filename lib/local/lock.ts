/**
 * Locks that end with their holder: the operating system releases them when the process ends, for whatever reason.
 *
 * Node has no file locks, but SQLite has: a lock is an empty SQLite file that its holder keeps open exclusively.
 * Releasing it does not remove the file: otherwise two processes could lock two different files with the same name.
 */

import { dirname, join, parse, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { isExportError } from '../core/errors.ts';
import { createDirectoryDurably, isFilePresent } from './durable-fs.ts';
import { isBusyError, sqliteError } from './sqlite/errors.ts';

export interface FileLock extends Disposable {
  /** Releases the lock. A second call has no effect. */
  release(): void;
}

/** In milliseconds. Long enough to decide between two processes that start at the same time, too short to notice. */
const timeoutMs = 250;

/** Connections that hold a lock. An unreferenced connection would be garbage-collected, and its lock released. */
const heldConnections = new Set<DatabaseSync>();

/**
 * Locks an export in `directory`, so that one process at a time runs it. Returns undefined if it is locked, by another
 * live process or in this one. A killed process loses its lock, so a locked export is one that is really running.
 *
 * Creates the directory and its parents if needed, and makes them all durable: a run locks its export before it writes
 * anything, and a process that was killed may have created parents without syncing them.
 *
 * @throws ConfigurationError if the lock file cannot be created
 */
export function acquireExportLock(directory: string, exportName: string): FileLock | undefined {
  const file = resolve(exportLockFile(directory, exportName));
  createDirectoryDurably(parse(file).root, dirname(file));
  // Nothing is ever written. With the journal in memory, a killed holder leaves no journal file.
  const connection = openUnlessBusy(file, false, 'PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
  if (connection === undefined) return undefined;
  heldConnections.add(connection);
  const release = () => {
    if (heldConnections.delete(connection)) connection.close();
  };
  return { release, [Symbol.dispose]: release };
}

/** Whether a live process holds the export's lock. */
export function isExportLocked(directory: string, exportName: string): boolean {
  const file = exportLockFile(directory, exportName);
  if (!isFilePresent(file)) return false;
  // A read fails while the lock is held. Unlike the lock itself, it does not need a file that is writable.
  const connection = openUnlessBusy(file, true, 'SELECT 1 FROM sqlite_schema');
  connection?.close();
  return connection === undefined;
}

/** A connection to `file` on which `sql` has succeeded; undefined if another connection holds the lock. */
function openUnlessBusy(file: string, readOnly: boolean, sql: string): DatabaseSync | undefined {
  let connection: DatabaseSync | undefined;
  try {
    isFilePresent(file);
    connection = new DatabaseSync(file, { readOnly, timeout: readOnly ? 0 : timeoutMs });
    connection.exec(sql);
    return connection;
  } catch (error) {
    connection?.close();
    if (isBusyError(error)) return undefined;
    throw isExportError(error) ? error : sqliteError(file, error);
  }
}

/** In lower case: names that differ only in case share a lock everywhere, as where file names ignore case. */
const exportLockFile = (directory: string, exportName: string): string =>
  join(directory, '.locks', `${encodeURIComponent(exportName).toLowerCase()}.sqlite`);
