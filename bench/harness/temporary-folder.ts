/**
 * Temporary folders of a benchmark. The caller removes its folder. If the benchmark is interrupted, all folders are removed
 * here, as they hold up to 10 GB under hidden names.
 */

import { rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';

const folders: string[] = [];

/** A new folder whose path begins with `prefix`. */
export async function createTemporaryFolder(prefix: string): Promise<string> {
  if (folders.length === 0) {
    for (const [signal, exitCode] of interruptions) process.once(signal, () => removeAllAndExit(exitCode));
  }
  const folder = await mkdtemp(prefix);
  folders.push(folder);
  return folder;
}

const interruptions = [
  ['SIGINT', 130],
  ['SIGTERM', 143],
  ['SIGHUP', 129],
] as const;

function removeAllAndExit(exitCode: number): void {
  for (const folder of folders) {
    try {
      // A contender may still be writing for a moment.
      rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
    } catch (error) {
      process.stderr.write(`Could not remove ${folder}: ${String(error)}\n`);
    }
  }
  process.exit(exitCode);
}
