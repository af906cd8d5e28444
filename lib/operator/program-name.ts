/** The words with which this program can be run again, for the commands in its messages. */

import { existsSync, realpathSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { shellQuote } from '../core/sanitize.ts';

const name = 'report-exporter';

/**
 * Returns `npx --no -- report-exporter` where npx runs this very package, and otherwise the command that runs its file,
 * also of a global installation. npx looks in `node_modules` of the working directory and its parents, then in the
 * project itself. Without `--no`, it would then download a package of the name from the public registry and run it,
 * although anyone may have published it.
 */
export function programName(packageFolder: string, workingDirectory: string): string {
  const folders = parentFolders(workingDirectory);
  const installed = folders.map((folder) => join(folder, 'node_modules', name)).find(existsSync);
  // npm takes the nearest folder with a package.json or installed packages for the project.
  const isProject = (folder: string) => ['package.json', 'node_modules'].some((file) => existsSync(join(folder, file)));
  const ofNpx = installed ?? folders.find(isProject);
  if (ofNpx !== undefined && realpathSync(ofNpx) === realpathSync(packageFolder)) return `npx --no -- ${name}`;
  const file = join(packageFolder, 'bin', `${name}.mjs`);
  const fromHere = relative(workingDirectory, file);
  return `node ${shellQuote(fromHere.length < file.length ? fromHere : file)}`;
}

function parentFolders(folder: string): readonly string[] {
  const parent = dirname(folder);
  return parent === folder ? [folder] : [folder, ...parentFolders(parent)];
}
