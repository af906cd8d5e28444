/** The words with which this program can be run again, for the commands in its messages. */

import { existsSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { shellQuote } from '../core/sanitize.ts';

const name = 'report-exporter';

/**
 * Returns `npx --no -- report-exporter` where npx runs this very package, and otherwise the command that runs its file. npx looks in
 * `node_modules` of the working directory and its parents, then in the project itself. Without `--no`, it would then download a
 * package of the name from the public registry and run it, whoever has published that.
 */
export function programName(packageFolder: string, workingDirectory: string): string {
  const folders = parentFolders(workingDirectory);
  const installed = folders.map((folder) => join(folder, 'node_modules', name)).find(existsSync);
  // npm takes the nearest folder with a package.json or installed packages for the project.
  const isProject = (folder: string) => ['package.json', 'node_modules'].some((file) => existsSync(join(folder, file)));
  const ofNpx = installed ?? folders.find(isProject);
  return ofNpx !== undefined && realpathSync(ofNpx) === realpathSync(packageFolder)
    ? `npx --no -- ${name}`
    : `node ${shellQuote(join(packageFolder, 'bin', `${name}.mjs`))}`;
}

function parentFolders(folder: string): readonly string[] {
  const parent = dirname(folder);
  return parent === folder ? [folder] : [folder, ...parentFolders(parent)];
}
