/**
 * The folders that contenders write to, one each, on the disk of the working directory. They are removed only when the
 * benchmark is over: ext4 does not reuse the inodes of removed files for some seconds and, after thousands of removals,
 * searches all of them for every new file. The disk is synced before each, so that no contender waits for what another
 * one wrote.
 */

import { execFile } from 'node:child_process';
import { rmSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

export interface OutputFolders extends AsyncDisposable {
  /** A new folder on an idle disk. */
  next(): Promise<string>;
}

const interruptions = [
  ['SIGINT', 130],
  ['SIGTERM', 143],
  ['SIGHUP', 129],
] as const;

export async function createOutputFolders(): Promise<OutputFolders> {
  const root = await mkdtemp(join(process.cwd(), '.bench-'));
  // Up to 10 GB under a hidden name. A contender may still be writing for a moment.
  const listeners = interruptions.map(([signal, exitCode]) => {
    const listener = () => {
      rmSync(root, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
      process.exit(exitCode);
    };
    process.once(signal, listener);
    return [signal, listener] as const;
  });
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
    async [Symbol.asyncDispose]() {
      await rm(root, { recursive: true, force: true });
      for (const [signal, listener] of listeners) process.off(signal, listener);
    },
  };
}
