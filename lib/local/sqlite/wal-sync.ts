/**
 * Makes SQLite's commits durable without blocking the thread. A commit that waits for the disk also stops every page that is
 * just arriving.
 *
 * In WAL mode a commit appends checksummed frames to the file `…-wal`, and survives a power loss once that file is synced. With
 * `synchronous=NORMAL`, SQLite syncs it only at a checkpoint, and stays consistent (sqlite.org/wal.html). So it is synced here,
 * in Node's thread pool.
 */

import { closeSync, fdatasync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { isExportError } from '../../core/errors.ts';
import { fileSystemError, fsyncDirectorySync } from '../durable-fs.ts';

export interface WalSync {
  /** Resolves once every commit made before the call survives a power loss. @throws ConfigurationError if the disk fails */
  readonly flush: () => Promise<void>;
  readonly close: () => void;
}

/**
 * Lets the commits of this connection return before they survive a power loss. Any later `flush` of the same file makes them
 * durable, and so does a checkpoint. Returns false where the file system does not allow WAL: commits keep waiting for the disk.
 */
export function deferSync(database: DatabaseSync): boolean {
  const { journal_mode: mode } = database.prepare('PRAGMA journal_mode').get() ?? {};
  if (mode !== 'wal') return false;
  database.exec('PRAGMA synchronous = NORMAL');
  return true;
}

/** For an open database in `file`. */
export function openWalSync(database: DatabaseSync, file: string): WalSync {
  if (!deferSync(database)) return { flush: async () => {}, close: () => {} };
  let descriptor: number | undefined;
  return {
    async flush() {
      try {
        // SQLite creates the file with the first write, and keeps it while a connection is open.
        descriptor ??= openWal(`${file}-wal`);
        await fdatasyncDescriptor(descriptor);
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

/** Syncs the directory first: SQLite syncs the name of a file that it creates, but another process may have been killed before. */
function openWal(wal: string): number {
  fsyncDirectorySync(dirname(wal));
  return openSync(wal, 'r+');
}

/** Syncs content and length, not file times: SQLite overwrites the file in place, so usually the length does not change. */
function fdatasyncDescriptor(descriptor: number): Promise<void> {
  return new Promise((resolve, reject) => {
    fdatasync(descriptor, (error) => (error === null ? resolve() : reject(error)));
  });
}
