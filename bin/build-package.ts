/**
 * Builds what the package contains besides the files of the repository, into `dist`: the command line and the entry
 * points of the package as JavaScript, the files that they read, and the bundles of the functions.
 */

import { execFileSync } from 'node:child_process';
import { copyFileSync, cpSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { bundleWithSourceMaps } from '../lib/cdk/code/bundling.ts';
import { licenseTexts } from './license-texts.ts';

const root = join(import.meta.dirname, '..');
const dist = join(root, 'dist');

rmSync(dist, { recursive: true, force: true });
compile();
copyAssets();
writeBundles();
writeFileSync(join(dist, 'functions/THIRD-PARTY-LICENSES.txt'), licenseTexts());

/** Compiles the entry points in tsconfig.build.json and every module that they import. */
function compile(): void {
  const require = createRequire(import.meta.url);
  const packageFile = require.resolve('typescript/package.json');
  const { bin } = JSON.parse(readFileSync(packageFile, 'utf8')) as { readonly bin: { readonly tsc: string } };
  const compiler = join(dirname(packageFile), bin.tsc);
  execFileSync(process.execPath, [compiler, '-p', 'tsconfig.build.json'], { cwd: root, stdio: 'inherit' });
}

/** The page of the run report with its styles and its script, and the files of a new project. */
function copyAssets(): void {
  for (const file of globSync('lib/operator/run-report/*.{css,html,js}', { cwd: root })) {
    copyFileSync(join(root, file), join(dist, file));
  }
  const templates = 'lib/operator/templates';
  cpSync(join(root, templates), join(dist, templates), { recursive: true });
}

/** Bundles have source maps without the sources in them: they translate a stack trace into files and lines. */
function writeBundles(): void {
  for (const [step, { code, sourceMap }] of Object.entries(bundleWithSourceMaps())) {
    const folder = join(dist, 'functions', step);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'index.js'), code);
    writeFileSync(join(folder, 'index.js.map'), sourceMap);
  }
}
