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

export interface FileLock {
  /** Releases the lock. A second call has no effect. */
  release(): void;
}

/** Long enough to decide between two processes that start at the same time, too short to notice. */
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
  let database: DatabaseSync | undefined;
  try {
    isFilePresent(file);
    database = new DatabaseSync(file);
    // Nothing is ever written. With the journal in memory, a killed holder leaves no journal file.
    database.exec(`PRAGMA busy_timeout = ${timeoutMs}; PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE`);
  } catch (error) {
    database?.close();
    if (isBusyError(error)) return undefined;
    throw isExportError(error) ? error : sqliteError(file, error);
  }
  const connection = database;
  heldConnections.add(connection);
  return {
    release() {
      if (heldConnections.delete(connection)) connection.close();
    },
  };
}

/** Whether a live process holds the export's lock. */
export function isExportLocked(directory: string, exportName: string): boolean {
  const file = exportLockFile(directory, exportName);
  if (!isFilePresent(file)) return false;
  // A read fails while the lock is held. Unlike the lock itself, it does not need a file that is writable.
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(file, { readOnly: true });
    database.prepare('SELECT 1 FROM sqlite_schema').get();
    return false;
  } catch (error) {
    if (isBusyError(error)) return true;
    throw sqliteError(file, error);
  } finally {
    database?.close();
  }
}

/** In lower case: names that differ only in case share a lock everywhere, as where file names ignore case. */
const exportLockFile = (directory: string, exportName: string): string =>
  join(directory, '.locks', `${encodeURIComponent(exportName).toLowerCase()}.sqlite`);
