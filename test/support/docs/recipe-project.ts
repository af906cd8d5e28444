/** A project of a consumer, with the TypeScript and the state machines in docs/recipes.md as they are written there. */

import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { blocksOf } from './doc-pages.ts';

const root = join(import.meta.dirname, '../../..');

/** Writes the files into `folder` of the project. Resolves to their names. */
export async function writeRecipes(project: string, folder: string): Promise<string[]> {
  const files = blocksOf('docs/recipes.md').filter(({ name }) => /\.(ts|asl\.json)$/.test(name));
  await mkdir(join(project, folder), { recursive: true });
  await Promise.all(files.map(({ name, text }) => writeFile(join(project, folder, name), text)));
  // CDK looks for the lock file to find the project, and runs its esbuild.
  await writeFile(join(project, 'package-lock.json'), '{}');
  await writeFile(join(project, folder, 'package.json'), '{ "type": "module" }');
  await symlink(join(root, 'node_modules'), join(project, 'node_modules'));
  return files.map(({ name }) => name);
}
