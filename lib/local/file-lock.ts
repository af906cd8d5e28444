/**
 * A lock that dies with its holder: the operating system takes it back the moment the process ends, however it ends.
 * Node has no file locks of its own, SQLite has; so the lock is an empty SQLite file that is held open exclusively.
 * The file stays when the lock is released: removing it would let two processes lock two files of one name.
 */

import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { isExportError } from '../core/errors.ts';
import { makePath } from './files/durable-fs.ts';
import { isBusy, sqliteError } from './sqlite/errors.ts';

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
