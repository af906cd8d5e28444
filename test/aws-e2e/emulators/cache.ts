/** Where downloads and logs are kept from one run to the next: `.cache/aws-e2e` in the project, to be thrown away at will. */

import { createHash } from 'node:crypto';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../../../.cache/aws-e2e');

/** An empty log of that name is not promised: the last run's may be there. */
export async function logFile(name: string): Promise<string> {
  await mkdir(join(root, 'logs'), { recursive: true });
  return join(root, 'logs', `${name.toLowerCase().replaceAll(/[^a-z0-9.]+/g, '-')}.log`);
}

/**
 * The folder `name`, filled by `fill` unless it was filled from the very same `recipe` before. A folder that was left half
 * full is emptied first.
 */
export async function cached(name: string, recipe: string, fill: (folder: string) => Promise<void>): Promise<string> {
  await mkdir(root, { recursive: true });
  const folder = join(root, name);
  const stamp = `${folder}.recipe`;
  const wanted = createHash('sha256').update(recipe).digest('hex');
  if ((await readFile(stamp, 'utf8').catch(() => '')) === wanted) return folder;
  await rm(stamp, { force: true });
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder);
  await fill(folder);
  // Last: with it the folder counts as full.
  await writeFile(stamp, wanted);
  return folder;
}
