/** Keeps the bundles of a checkout on disk until a source file or an installed package changes. Not part of the package. */

import { createHash } from 'node:crypto';
import { existsSync, globSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { StepName } from '../../core/state-machine/definition.ts';
import { bundleFunctions } from './bundling.ts';

type FunctionBundles = Readonly<Record<StepName, string>>;

const root = join(import.meta.dirname, '../../..');

/** The bundles in `folder` if they were made of the same files, otherwise what `bundle` returns, which is kept there. */
export function cachedBundles(
  folder = join(root, 'node_modules/.cache/functions'),
  bundle: () => FunctionBundles = bundleFunctions,
): FunctionBundles {
  const file = join(folder, `${hashOfSources()}.json`);
  return readBundles(file) ?? keepBundles(folder, file, bundle());
}

/** The hash of everything that a bundle is made of. npm lists the installed packages in a hidden file. */
function hashOfSources(): string {
  const sources = globSync('{lib,functions}/**/*.ts', { cwd: root, exclude: ['**/node_modules'] });
  const packages = ['package-lock.json', 'node_modules/.package-lock.json'].filter((file) =>
    existsSync(join(root, file)),
  );
  const hash = createHash('sha256');
  for (const file of [...sources.sort(), ...packages]) {
    hash.update(`${file}\0`).update(readFileSync(join(root, file)));
  }
  return hash.digest('hex');
}

function readBundles(file: string): FunctionBundles | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as FunctionBundles;
  } catch {
    // Absent or damaged.
    return undefined;
  }
}

/** Replaces what is kept in `folder`. If it cannot be written to, the bundles are made again the next time. */
function keepBundles(folder: string, file: string, bundles: FunctionBundles): FunctionBundles {
  try {
    mkdirSync(folder, { recursive: true });
    for (const earlier of globSync('*.json', { cwd: folder })) rmSync(join(folder, earlier), { force: true });
    const temporary = `${file}.${process.pid}`;
    writeFileSync(temporary, JSON.stringify(bundles));
    renameSync(temporary, file);
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error)) throw error;
  }
  return bundles;
}
