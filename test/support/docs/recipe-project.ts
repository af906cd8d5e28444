/** A consumer's project with the programs for the shell and for Node.js in docs/recipes.md, as they are written there. */

import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { exampleIn } from './doc-pages.ts';

const root = join(import.meta.dirname, '../../..');

const page = 'docs/recipes.md';

/** Writes the project to `folder`, which must exist. It has the package, and an `npx` in `bin` that runs its command. */
export async function writeRecipeProject(folder: string): Promise<void> {
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
  for (const each of ['node_modules', 'bin']) await mkdir(join(folder, each));
  for (const name of ['ajv', '@aws-sdk', '@types']) {
    await symlink(join(root, 'node_modules', name), join(folder, 'node_modules', name));
  }
  await symlink(root, join(folder, 'node_modules/report-exporter'));
  const command = `"${process.execPath}" "${join(root, 'bin/report-exporter.ts')}"`;
  await writeFile(join(folder, 'bin/npx'), `#!/usr/bin/env bash\nshift\nexec ${command} "$@"\n`, { mode: 0o755 });
  for (const name of ['copy-runs.ts', 'catch-up.sh', 'process-runs.sh']) {
    await writeFile(join(folder, name), exampleIn(page, name));
  }
}
