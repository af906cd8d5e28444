/**
 * Brings what SQLite has written to the disk while this thread goes on: `commit` by itself waits for the disk, and with it
 * every page that is just coming in.
 *
 * In WAL mode a commit is an addition to the file `…-wal`, checksummed, and outlives a power cut once that file is synced
 * (sqlite.org/wal.html; with `synchronous=NORMAL` SQLite leaves the syncing to a checkpoint, and loses no consistency by
 * it). So it is synced here, by Node's own threads.
 */

import { closeSync, fdatasync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { isExportError } from '../../core/errors.ts';
import { diskError, syncDirectory } from '../files/durable-fs.ts';

export interface WritesOnDisk {
  /** Resolves when all that was committed before would outlive a power cut. */
  readonly ensure: () => Promise<void>;
  readonly close: () => void;
}

/** For a database that is open, in `file`. Where the file system allows no WAL, commits go on to wait for the disk. */
export function writesOnDisk(database: DatabaseSync, file: string): WritesOnDisk {
  const { journal_mode: mode } = database.prepare('PRAGMA journal_mode').get() ?? {};
  if (mode !== 'wal') return { ensure: async () => {}, close: () => {} };
  database.exec('PRAGMA synchronous = NORMAL');
  let descriptor: number | undefined;
  return {
    async ensure() {
      try {
        // SQLite makes it with the first write, and keeps it as long as a connection is open.
        descriptor ??= openNamed(`${file}-wal`);
        await syncData(descriptor);
      } catch (cause) {
        throw isExportError(cause) ? cause : diskError('sync', `${file}-wal`, cause);
      }
    },
    close() {
      if (descriptor !== undefined) closeSync(descriptor);
      descriptor = undefined;
    },
  };
}

/** SQLite syncs the name of a file that it makes, but not of one that is there; and who made that may have been killed before. */
function openNamed(wal: string): number {
  syncDirectory(dirname(wal));
  return openSync(wal, 'r+');
}

/** Not its times: the file is written over and over, and as long as it does not grow this is all there is to do. */
function syncData(descriptor: number): Promise<void> {
  return new Promise((resolve, reject) => {
    fdatasync(descriptor, (error) => (error === null ? resolve() : reject(error)));
  });
}
