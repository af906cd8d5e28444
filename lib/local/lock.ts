/** One process at a time runs an export into a directory: a second one must not take the first for dead and resume its run. */

import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { isExportError } from '../core/errors.ts';
import { makePath } from './files/durable-fs.ts';
import { isBusy, sqliteError } from './sqlite/errors.ts';

export type ExportLock = FileLock;

/** Long enough for two that start together to tell who came first, short enough not to be noticed. */
const patienceMs = 250;

/**
 * Takes the lock of an export in `directory`, or undefined where another live process has it, or another holder in
 * this one. A killed process loses its lock at once, so a lock that is refused tells of a run that is really under way.
 *
 * @throws ExportError ConfigurationError where the lock file cannot be made
 */
export function acquireExportLock(directory: string, exportName: string): ExportLock | undefined {
  return holdFileLock(lockFile(directory, exportName), patienceMs);
}

/** Whether a live process holds the lock. It is not kept for longer than the question takes. */
export function isExportLocked(directory: string, exportName: string): boolean {
  const file = lockFile(directory, exportName);
  if (!existsSync(file)) return false;
  const lock = holdFileLock(file, 0);
  lock?.release();
  return lock === undefined;
}

const lockFile = (directory: string, exportName: string): string =>
  join(directory, '.locks', `${encodeURIComponent(exportName)}.sqlite`);

// MERGED file-lock.ts: A lock that dies with its holder: the operating system takes it back the moment the process ends, however it ends. Node has no file locks of its own, SQLite has; so the lock is an empty SQLite file that is held open exclusively. The file stays when the lock is released: removing it would let two processes lock two files of one name.

export interface FileLock {
  /** Gives the lock back; once is enough, twice does no harm. */
  release(): void;
}

// A connection that nobody refers to is closed by the garbage collector, and its lock with it.
const held = new Set<DatabaseSync>();

/**
 * Takes the lock on `file`, which is made, with its directory, if need be. Undefined where another holder, in this
 * process or another, keeps it for longer than `patienceMs`; until then this blocks the thread.
 *
 * Some patience is always due: two that come at the very same moment both see the other's first step, and without it
 * both would go away.
 *
 * @throws ExportError ConfigurationError where the file cannot be made, or is no lock file
 */
export function holdFileLock(file: string, patienceMs: number): FileLock | undefined {
  let database: DatabaseSync | undefined;
  try {
    makePath(dirname(file));
    database = new DatabaseSync(file, { timeout: patienceMs });
    // Nothing is ever written, so there is nothing to roll back, and no journal for a killed holder to leave behind.
    database.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
  } catch (error) {
    database?.close();
    if (isBusy(error)) return undefined;
    throw isExportError(error) ? error : sqliteError(file, error);
  }
  const connection = database;
  held.add(connection);
  return {
    release() {
      if (held.delete(connection)) connection.close();
    },
  };
}
