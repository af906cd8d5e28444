/**
 * The folders that contenders write to, one each, on the disk of the working directory. They are removed only when the
 * benchmark is over: ext4 does not reuse the inodes of removed files for some seconds and, after thousands of removals, searches
 * all of them for every new file. The disk is synced before each, so that no contender waits for what another one wrote.
 */

import { execFile } from 'node:child_process';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createTemporaryFolder } from './temporary-folder.ts';

export interface OutputFolders extends AsyncDisposable {
  /** A new folder on an idle disk. */
  next(): Promise<string>;
}

export async function createOutputFolders(): Promise<OutputFolders> {
  const root = await createTemporaryFolder(join(process.cwd(), '.bench-'));
  let count = 0;
  return {
    async next() {
      // There is no sync command on Windows; there the disk may still be busy.
      await promisify(execFile)('sync').catch(() => undefined);
      count += 1;
      const folder = join(root, String(count));
      await mkdir(folder);
      return folder;
    },
    [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }),
  };
}
