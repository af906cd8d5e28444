/** The packages in package-lock.json: what users install, what the package contains, and what only development needs. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export const root = join(import.meta.dirname, '../..');

/** An entry of package-lock.json. */
interface LockEntry {
  readonly name?: string;
  readonly version?: string;
  readonly license?: string;
  /** Hashes of the tarball, as in `sha512-<Base64>`. */
  readonly integrity?: string;
  /** Only development needs it. */
  readonly dev?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

export interface LockFile {
  /** By folder, such as `node_modules/saxes`. The project itself has an empty one. */
  readonly packages: Readonly<Record<string, LockEntry>>;
}

export interface Package {
  /** As in package-lock.json: `node_modules/saxes`. */
  readonly folder: string;
  readonly name: string;
  readonly version: string;
  /** An SPDX identifier or expression, as the package declares it. */
  readonly license: string | undefined;
  readonly integrity: string | undefined;
  /** Whether `npm install` of this project's package installs it. */
  readonly isInstalled: boolean;
  /** Whether a function or the command line contains code of it. */
  readonly isBundled: boolean;
  /** Whether users receive it in one of these ways. */
  readonly isShipped: boolean;
  /** The folders of the packages that it depends on. */
  readonly dependsOn: readonly string[];
}

export const readLockFile = (folder = root): LockFile =>
  JSON.parse(readFileSync(join(folder, 'package-lock.json'), 'utf8')) as LockFile;

/** Every package, by folder. `bundled` are the folders of those that the package contains. @throws if one of them is unknown */
export function packagesIn({ packages }: LockFile, bundled: readonly string[]): readonly Package[] {
  const unknown = bundled.filter((folder) => packages[folder] === undefined);
  if (unknown.length > 0) throw new Error(`package-lock.json lacks ${unknown.join(', ')}. Run: npm install`);
  return Object.entries(packages)
    .filter(([folder]) => folder !== '')
    .map(([folder, entry]) => {
      const isInstalled = entry.dev !== true;
      const isBundled = bundled.includes(folder);
      return {
        folder,
        name: entry.name ?? folder.replace(/^.*node_modules\//, ''),
        version: entry.version ?? '',
        license: entry.license,
        integrity: entry.integrity,
        isInstalled,
        isBundled,
        isShipped: isInstalled || isBundled,
        dependsOn: Object.keys({ ...entry.dependencies, ...entry.optionalDependencies })
          .map((name) => resolve(packages, folder, name))
          .filter((each) => each !== undefined),
      };
    });
}

/** The folder from which a module in `folder` would load the package, as Node.js searches. */
function resolve(packages: LockFile['packages'], folder: string, name: string): string | undefined {
  const candidates = [folder, ...parentsOf(folder)].map((each) => join(each, 'node_modules', name));
  return candidates.find((each) => packages[each] !== undefined);
}

function parentsOf(folder: string): string[] {
  const parent = folder.replace(/(^|\/)node_modules\/(@[^/]+\/)?[^/]+$/, '');
  return parent === '' || parent === folder ? [''] : [parent, ...parentsOf(parent)];
}
