/** One process at a time runs an export into a directory: a second one must not take the first for dead and resume its run. */

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
  return holdFileLock(join(directory, '.locks', `${encodeURIComponent(exportName)}.sqlite`), patienceMs);
}
