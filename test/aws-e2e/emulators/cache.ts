/** Downloads and logs that are kept between test runs, in `.cache/aws-e2e`. The folder can be deleted at any time. */

import { createHash } from 'node:crypto';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../../../.cache/aws-e2e');

/** The path of a log file. It may contain the log of the previous run. */
export async function logFile(name: string): Promise<string> {
  await mkdir(join(root, 'logs'), { recursive: true });
  return join(root, 'logs', `${name.toLowerCase().replaceAll(/[^a-z0-9.]+/g, '-')}.log`);
}

/**
 * The folder `name`, filled by `fill` unless that was done before with the same `recipe`. A folder that is only partly
 * filled is emptied first.
 */
export async function cached(name: string, recipe: string, fill: (folder: string) => Promise<void>): Promise<string> {
  await mkdir(root, { recursive: true });
  const folder = join(root, name);
  const stamp = `${folder}.recipe`;
  const checksum = createHash('sha256').update(recipe).digest('hex');
  if ((await readFile(stamp, 'utf8').catch(() => '')) === checksum) return folder;
  await rm(stamp, { force: true });
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder);
  await fill(folder);
  // Last: it marks the folder as complete.
  await writeFile(stamp, checksum);
  return folder;
}
