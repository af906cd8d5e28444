/**
 * Makes SQLite's commits durable without blocking the thread. A commit that waits for the disk also stops every page
 * that is just arriving.
 *
 * In WAL mode a commit appends checksummed frames to the file `…-wal`, and survives a power loss once that file is
 * synced. With `synchronous=NORMAL`, SQLite syncs it only at a checkpoint, and stays consistent (sqlite.org/wal.html).
 * So it is synced here, in Node's thread pool.
 */

import { closeSync, fdatasync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { settled } from '../../core/concurrency.ts';
import { isExportError } from '../../core/errors.ts';
import { fileSystemError, fsyncDirectorySync } from '../durable-fs.ts';

export interface WalSync {
  /** Resolves once all commits before the call survive a power loss. @throws ConfigurationError if the disk fails */
  readonly flush: () => Promise<void>;
  readonly close: () => void;
}

/**
 * Lets the commits of an open database in `file` return before they survive a power loss. Any later `flush` of the same
 * file or a checkpoint makes them durable. Where the file system has no WAL, commits keep waiting for the disk.
 */
export function openWalSync(database: DatabaseSync, file: string): WalSync {
  const { journal_mode: mode } = database.prepare('PRAGMA journal_mode').get() ?? {};
  if (mode !== 'wal') return { flush: async () => {}, close: () => {} };
  database.exec('PRAGMA synchronous = NORMAL');
  let descriptor: number | undefined;
  return {
    async flush() {
      try {
        // SQLite creates the file with the first write, and keeps it while a connection is open.
        descriptor ??= openWal(`${file}-wal`);
        // Content and length, not file times: SQLite overwrites the file in place, and seldom changes its length.
        const wal = descriptor;
        await settled((done) => fdatasync(wal, done));
      } catch (cause) {
        throw isExportError(cause) ? cause : fileSystemError('sync', `${file}-wal`, cause);
      }
    },
    close() {
      if (descriptor !== undefined) closeSync(descriptor);
      descriptor = undefined;
    },
  };
}

/** Syncs the directory first: another process may have been killed before SQLite synced the name of the new file. */
function openWal(wal: string): number {
  fsyncDirectorySync(dirname(wal));
  return openSync(wal, 'r+');
}
