/**
 * Chooses where the page log and the manifest of a million pages are written: into memory if the machine has a file system
 * there, since a million commits to a disk take half an hour and power loss is not tested here. Otherwise into the directory
 * of temporary files.
 */

import { statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';

const mebibyte = 1024 * 1024;

/** About 1,100 bytes per page in the log and 260 in the manifest, and SQLite's journal. */
const requiredBytes = 2_048 * mebibyte;

/** @throws Error if no directory has enough space */
export async function findScratchDirectory(): Promise<string> {
  const candidates = ['/dev/shm', tmpdir()];
  for (const directory of candidates) {
    const { bavail, bsize } = await statfs(directory).catch(() => ({ bavail: 0, bsize: 0 }));
    if (bavail * bsize >= requiredBytes) return directory;
  }
  throw new Error(
    `The page log of a million pages needs ${requiredBytes / mebibyte} MiB in ${candidates.join(' or ')}. ` +
      'Free some space, or set TMPDIR to another directory',
  );
}
