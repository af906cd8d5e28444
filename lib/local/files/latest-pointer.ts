/** The one file that is ever replaced: `latest.json`, which must never go back to an older run. */

import { readFileSync, renameSync, statSync } from 'node:fs';
import { ExportError } from '../../core/errors.ts';
import type { LatestPointer } from '../../core/model.ts';
import { maxPointerBytes, sequenceOfPointer } from '../../core/storage/stored-records.ts';
import { holdFileLock } from '../lock.ts';
import { diskError } from './durable-fs.ts';

/** Others hold the lock for one read and one rename; so long means a process that hangs. */
const patienceMs = 10_000;

interface PointerFiles {
  /** The pointer, or where it is to stand. */
  readonly path: string;
  /** The file that holds the new one, on the same file system. */
  readonly replacement: string;
  readonly lock: string;
}

/**
 * Renames the replacement, which holds `latest`, to its path, unless a pointer with a higher sequence stands there, of a
 * run that has begun.
 *
 * @throws ExportError ConfigurationError where the disk refuses, or a process that hangs keeps the lock
 */
export async function replaceLatest(
  files: PointerFiles,
  latest: LatestPointer,
  hasBegun: (sequence: number) => Promise<boolean>,
): Promise<void> {
  for (let denied: number | undefined; ; ) {
    const newer = replaceUnlessNewer(files, latest, denied);
    // Asked only now: a run that published this pointer had begun before it did.
    if (newer === undefined || (await hasBegun(newer))) return;
    denied = newer;
  }
}

/**
 * Compares and renames within a lock, since a rename refuses nobody: the slower of two writers would put the older
 * pointer over the newer. Synchronous, so that no other writer of this process comes between. Returns the higher sequence
 * that stands in the way; the one that is `denied` does not.
 */
function replaceUnlessNewer(
  files: PointerFiles,
  latest: LatestPointer,
  denied: number | undefined,
): number | undefined {
  const { path, replacement } = files;
  const lock = holdFileLock(files.lock, patienceMs);
  if (lock === undefined) {
    throw new ExportError('ConfigurationError', `Another process keeps ${files.lock} locked; end it and start again`);
  }
  try {
    const existing = sequenceAt(path);
    if (existing > latest.sequence && existing !== denied) return existing;
    renameSync(replacement, path);
    return undefined;
  } catch (cause) {
    throw diskError('replace', path, cause);
  } finally {
    lock.release();
  }
}

/** 0 where there is none that can be read. Only of a file, as what else may stand there might never come to an end. */
function sequenceAt(path: string): number {
  try {
    const stats = statSync(path);
    return stats.isFile() && stats.size <= maxPointerBytes ? sequenceOfPointer(readFileSync(path, 'utf8')) : 0;
  } catch {
    return 0;
  }
}
