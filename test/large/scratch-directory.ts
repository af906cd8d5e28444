/**
 * Where the page log and the manifest of a million pages find room: in memory, where the machine has a file system in it.
 * A million commits flushed to a disk take half an hour, and what a power cut leaves is not asked here. Otherwise where
 * temporary files lie.
 */

import { statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';

const mebibyte = 1024 * 1024;

/** Some 1,100 bytes a page in the log and 260 in the manifest; SQLite's own journal on top. */
const wantedBytes = 2_048 * mebibyte;

/** @throws Error where there is not enough of it */
export async function placeForManyPages(): Promise<string> {
  const places = ['/dev/shm', tmpdir()];
  for (const place of places) {
    const { bavail, bsize } = await statfs(place).catch(() => ({ bavail: 0, bsize: 0 }));
    if (bavail * bsize >= wantedBytes) return place;
  }
  throw new Error(
    `The page log of a million pages needs ${wantedBytes / mebibyte} MiB in ${places.join(' or ')}. ` +
      'Make room there, or name another directory with TMPDIR',
  );
}
