/** The words with which this program can be run again, for the commands in its messages. */

import { existsSync, realpathSync } from 'node:fs';
import { delimiter, dirname, join, sep } from 'node:path';
import { shellQuote } from '../core/sanitize.ts';

const name = 'report-exporter';

export interface ProgramLocation {
  /** The folder of the package that is running. */
  readonly packageFolder: string;
  readonly workingDirectory: string;
  /** The `PATH` of the process. */
  readonly path: string | undefined;
}

/**
 * Returns `npx report-exporter` where npx runs this very package, `report-exporter` where the shell finds it, and
 * otherwise the command that runs its file. npx looks in `node_modules/.bin` of the working directory and its parents,
 * then in the project itself, and then downloads a package of the name: that must never happen because of a message.
 */
export function programName({ packageFolder, workingDirectory, path = '' }: ProgramLocation): string {
  const own = realPath(packageFolder);
  const folders = parentFolders(workingDirectory);
  const installation = folders.map((folder) => join(folder, 'node_modules')).find(hasCommand);
  if (installation === undefined ? projectOf(folders) === own : realPath(join(installation, name)) === own) {
    return `npx ${name}`;
  }
  const found = path.split(delimiter).find((folder) => isUserFolder(folder) && existsSync(join(folder, name)));
  if (found !== undefined && realPath(join(found, name))?.startsWith(`${own}${sep}`)) return name;
  return `node ${shellQuote(join(packageFolder, 'bin', `${name}.mjs`))}`;
}

/** Whether the folder `node_modules` has the command. On Windows it is a script. */
const hasCommand = (modules: string): boolean =>
  [name, `${name}.cmd`].some((file) => existsSync(join(modules, '.bin', file)));

/** The folder that npm takes for the project: the nearest one with a package.json or installed packages. */
const projectOf = (folders: readonly string[]): string | undefined =>
  realPath(folders.find((folder) => ['package.json', 'node_modules'].some((file) => existsSync(join(folder, file)))));

/** npm adds folders to the `PATH` of what it runs. They are not on the user's own. */
const isUserFolder = (folder: string): boolean => folder !== '' && !folder.endsWith(join('node_modules', '.bin'));

function parentFolders(folder: string): string[] {
  const parent = dirname(folder);
  return parent === folder ? [folder] : [folder, ...parentFolders(parent)];
}

function realPath(path: string | undefined): string | undefined {
  try {
    return path === undefined ? undefined : realpathSync(path);
  } catch {
    return undefined;
  }
}
