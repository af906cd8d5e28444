/**
 * Where contenders write to: a new folder each, on the disk of the working directory, and none is removed before the
 * benchmark is over. ext4 does not use a removed file's number again for some seconds and, where thousands were removed,
 * looks through them all for every new file; and what one contender leaves unwritten would be waited for by the next.
 */

import { execFile } from 'node:child_process';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { temporaryFolder } from './temporary-folder.ts';

export interface KeptOutputs extends AsyncDisposable {
  /** A new folder, on a disk that has nothing to do. */
  next(): Promise<string>;
}

export async function keptOutputs(): Promise<KeptOutputs> {
  const root = await temporaryFolder(join(process.cwd(), '.bench-'));
  let folders = 0;
  return {
    async next() {
      // Not on Windows; there the disk may have something to do.
      await promisify(execFile)('sync').catch(() => undefined);
      folders += 1;
      const folder = join(root, String(folders));
      await mkdir(folder);
      return folder;
    },
    [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }),
  };
}
