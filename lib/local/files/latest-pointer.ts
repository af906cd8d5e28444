/** Replaces `latest.json`, the only file that is ever overwritten. It never points back to an older run. */

import { readFileSync, renameSync, statSync } from 'node:fs';
import { ExportError } from '../../core/errors.ts';
import type { LatestPointer } from '../../core/model.ts';
import { maxPointerBytes, sequenceOfPointer } from '../../core/storage/stored-records.ts';
import { fileSystemError } from '../durable-fs.ts';
import { acquireFileLock } from '../lock.ts';

/** A holder needs the lock for one read and one rename. After this long, the holder hangs. */
const lockTimeoutMs = 10_000;

interface PointerFiles {
  /** `latest.json`, whether or not it exists. */
  readonly path: string;
  /** A file with the new content, on the same file system. */
  readonly replacement: string;
  readonly lock: string;
}

/**
 * Renames the replacement, which holds `latest`, to `path`. Does nothing if `path` holds a pointer with a higher
 * sequence that belongs to a run that has begun.
 *
 * @throws ConfigurationError if the file system fails, or another process does not release the lock
 */
export async function replaceLatestFile(
  files: PointerFiles,
  latest: LatestPointer,
  hasBegun: (sequence: number) => Promise<boolean>,
): Promise<void> {
  for (let invalidSequence: number | undefined; ;) {
    const newerSequence = replaceUnlessNewer(files, latest, invalidSequence);
    // Checked after the read: a run has begun before it publishes its pointer.
    if (newerSequence === undefined || (await hasBegun(newerSequence))) return;
    invalidSequence = newerSequence;
  }
}

/**
 * Compares and renames while holding a lock: rename is unconditional, so the slower of two writers could overwrite the
 * newer pointer. Synchronous, so that no other writer in this process interleaves. Returns the higher sequence that
 * prevented the rename; `invalidSequence` does not prevent it.
 */
function replaceUnlessNewer(
  files: PointerFiles,
  latest: LatestPointer,
  invalidSequence: number | undefined,
): number | undefined {
  const { path, replacement } = files;
  const lock = acquireFileLock(files.lock, lockTimeoutMs);
  if (lock === undefined) {
    throw new ExportError(
      'ConfigurationError',
      `Another process has held the lock ${files.lock} for ${lockTimeoutMs / 1_000} s. Stop that process, then start again`,
    );
  }
  try {
    const existing = readSequence(path);
    if (existing > latest.sequence && existing !== invalidSequence) return existing;
    renameSync(replacement, path);
    return undefined;
  } catch (cause) {
    throw fileSystemError('replace', path, cause);
  } finally {
    lock.release();
  }
}

/** The sequence of the pointer at `path`; 0 if there is no readable pointer. */
function readSequence(path: string): number {
  try {
    const stats = statSync(path);
    // Reading a pipe might never end.
    return stats.isFile() && stats.size <= maxPointerBytes ? sequenceOfPointer(readFileSync(path, 'utf8')) : 0;
  } catch {
    return 0;
  }
}
