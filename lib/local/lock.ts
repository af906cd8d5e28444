/** One process at a time runs an export into a directory: a second one must not take the first for dead and resume its run. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type FileLock, holdFileLock } from './file-lock.ts';

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
