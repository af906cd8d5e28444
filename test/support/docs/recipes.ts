/** The files in docs/recipes, which the tests run where they are. */

import { globSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../../..');
const folder = join(root, 'docs/recipes');

/** Relative to docs/recipes: `shell/catch-up.sh`. */
export const recipeFiles: readonly string[] = globSync('*/*', { cwd: folder }).sort();

/** The path of a recipe. */
export const recipe = (file: string): string => join(folder, file);

/** Writes an `npx` that runs the command line of this repository to `directory`/bin. Resolves to this folder. */
export async function provideNpx(directory: string): Promise<string> {
  const bin = join(directory, 'bin');
  await mkdir(bin);
  const command = `"${process.execPath}" "${join(root, 'bin/report-exporter.ts')}"`;
  await writeFile(join(bin, 'npx'), `#!/usr/bin/env bash\nshift 3\nexec ${command} "$@"\n`, { mode: 0o755 });
  return bin;
}
