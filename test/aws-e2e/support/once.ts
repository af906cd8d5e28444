/** Created by the first of the test files that need it. They run one after the other, each in its own process. */

import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { inject } from 'vitest';

/** Resolves to the result of `create`, which is JSON, or to that of an earlier call with this name. */
export async function once<Result>(name: string, create: () => Promise<Result>): Promise<Result> {
  const file = join(inject('workDirectory'), `${name}.once.json`);
  const stored = await readFile(file, 'utf8').catch(() => undefined);
  if (stored !== undefined) return JSON.parse(stored) as Result;
  const result = await create();
  await writeFile(file, JSON.stringify(result));
  return result;
}
