/**
 * Folders that a benchmark writes to for as long as it takes. Who makes one removes it; where the benchmark is interrupted,
 * all of them are removed here, as they hold up to 10 GB under hidden names.
 */

import { rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';

const made: string[] = [];

/** A new folder whose path begins with `prefix`. */
export async function temporaryFolder(prefix: string): Promise<string> {
  if (made.length === 0) for (const [signal, code] of interruptions) process.once(signal, () => giveUp(code));
  const folder = await mkdtemp(prefix);
  made.push(folder);
  return folder;
}

const interruptions = [
  ['SIGINT', 130],
  ['SIGTERM', 143],
  ['SIGHUP', 129],
] as const;

function giveUp(code: number): void {
  for (const folder of made) {
    try {
      // A contender may write for a moment longer.
      rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
    } catch (error) {
      process.stderr.write(`${folder} is left: ${String(error)}\n`);
    }
  }
  process.exit(code);
}
