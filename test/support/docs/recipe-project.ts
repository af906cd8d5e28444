/** Projects of a consumer with the programs in docs/recipes.md, as they are written there. */

import { mkdir, readdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { blocksOf, exampleIn } from './doc-pages.ts';

const root = join(import.meta.dirname, '../../..');

const page = 'docs/recipes.md';

/** The programs that a person runs. */
const programs = ['catch-up.ts', 'catch-up.sh', 'process-runs.sh'];

/**
 * Writes a project with the programs for the shell and for Node.js to `folder`, which must exist. It has the package, and an
 * `npx` in `bin` that runs its command.
 */
export async function writeRecipeProject(folder: string): Promise<void> {
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
  for (const each of ['node_modules', 'bin']) await mkdir(join(folder, each));
  for (const name of ['ajv', '@aws-sdk', '@types']) {
    await symlink(join(root, 'node_modules', name), join(folder, 'node_modules', name));
  }
  await symlink(root, join(folder, 'node_modules/report-exporter'));
  const command = `"${process.execPath}" "${join(root, 'bin/report-exporter.ts')}"`;
  await writeFile(join(folder, 'bin/npx'), `#!/usr/bin/env bash\nshift\nexec ${command} "$@"\n`, { mode: 0o755 });
  for (const name of programs) await writeFile(join(folder, name), exampleIn(page, name));
}

/** Writes what is deployed, in TypeScript and as state machines, to `folder` of the project. Resolves to the names of the files. */
export async function writeDeployedRecipes(project: string, folder: string): Promise<string[]> {
  const files = blocksOf(page).filter(({ name }) => /\.(ts|asl\.json)$/.test(name) && !programs.includes(name));
  await mkdir(join(project, folder), { recursive: true });
  await Promise.all(files.map(({ name, text }) => writeFile(join(project, folder, name), text)));
  // CDK looks for the lock file to find the project, and runs its esbuild.
  await writeFile(join(project, 'package-lock.json'), '{}');
  await writeFile(join(project, folder, 'package.json'), '{ "type": "module" }');
  const modules = join(project, 'node_modules');
  await mkdir(modules);
  await symlink(root, join(modules, 'report-exporter'));
  for (const name of await readdir(join(root, 'node_modules'))) {
    await symlink(join(root, 'node_modules', name), join(modules, name));
  }
  return files.map(({ name }) => name);
}
