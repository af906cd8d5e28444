/** The one file that is ever replaced: `latest.json`, which must never go back to an older run. */

import { readFileSync, renameSync } from 'node:fs';
import { ExportError } from '../core/errors.ts';
import type { Latest } from '../core/model.ts';
import { diskError } from './durable-files.ts';
import { holdFileLock } from './file-lock.ts';

/** Others hold the lock for one read and one rename; so long means a process that hangs. */
const patienceMs = 10_000;

/**
 * Renames `replacement`, which holds `latest`, to `path`, unless a pointer with a higher sequence stands there.
 *
 * Compares and renames within a lock, since a rename refuses nobody: the slower of two writers would put the older
 * pointer over the newer. Synchronous, so that no other writer of this process comes between.
 *
 * @throws ExportError ConfigurationError where the disk refuses, or a process that hangs keeps `lockFile`
 */
export function replaceLatest(path: string, latest: Latest, replacement: string, lockFile: string): void {
  const lock = holdFileLock(lockFile, patienceMs);
  if (lock === undefined) {
    throw new ExportError('ConfigurationError', `Another process keeps ${lockFile} locked; end it and start again`);
  }
  try {
    if (sequenceAt(path) <= latest.sequence) renameSync(replacement, path);
  } catch (cause) {
    throw diskError('replace', path, cause);
  } finally {
    lock.release();
  }
}

/** A pointer that cannot be read leads nobody anywhere, so it gives way to any other. */
function sequenceAt(path: string): number {
  try {
    const { sequence } = JSON.parse(readFileSync(path, 'utf8')) as Partial<Latest>;
    return typeof sequence === 'number' ? sequence : 0;
  } catch {
    return 0;
  }
}
