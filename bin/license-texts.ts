/** The license texts of the packages whose code the functions contain. Most licenses ask to pass them on. */

import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { buildSync } from 'esbuild';
import { bundling } from '../lib/cdk/code/bundling.ts';

const root = bundling.absWorkingDir;

/** The file with the licenses of the bundled packages. @throws if one has no license text */
export function licenseTexts(folders: readonly string[] = bundledPackages()): string {
  const intro = 'The functions contain code of these packages.\n';
  return [intro, ...folders.map(describeLicense)].join(`\n${'-'.repeat(80)}\n\n`);
}

/** The folders of the packages in the bundles, such as `node_modules/saxes`. */
function bundledPackages(): readonly string[] {
  const { metafile } = buildSync({
    ...bundling,
    entryPoints: globSync('functions/*.ts', { cwd: root }),
    outdir: 'bundles',
    write: false,
    metafile: true,
    logLevel: 'warning',
  });
  const files = Object.values(metafile.outputs).flatMap(({ inputs }) =>
    Object.entries(inputs).flatMap(([file, { bytesInOutput }]) => (bytesInOutput > 0 ? [file] : [])),
  );
  const folders = files.map((file) => /^.*\bnode_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0]);
  return [...new Set(folders.filter((folder) => folder !== undefined))].sort();
}

function describeLicense(folder: string): string {
  const packageText = readFileSync(join(root, folder, 'package.json'), 'utf8');
  const { name, version, license } = JSON.parse(packageText) as Readonly<
    Record<'name' | 'version' | 'license', string>
  >;
  return `${name} ${version} (${license})\n\n${textsOf(folder, name, license).join('\n\n')}\n`;
}

/** Licenses that do not ask to pass on their text. */
const withoutConditions: ReadonlySet<string> = new Set(['0BSD', 'MIT-0']);

/** The texts in the package. Apache-2.0 asks to pass on the notices, too. */
function textsOf(folder: string, name: string, license: string): readonly string[] {
  const read = (file: string) => readFileSync(file, 'utf8').trim().replaceAll('\r\n', '\n');
  const files = globSync('*', { cwd: join(root, folder) }).filter((file) => /^(licen[cs]e|notice)(\.|-|$)/i.test(file));
  const texts = files.sort().map((file) => read(join(root, folder, file)));
  if (files.some((file) => /^licen/i.test(file))) return texts;
  if (withoutConditions.has(license)) return [`License: ${license}`, ...texts];
  // The license that the repository of the package has, but not the package.
  const added = join(import.meta.dirname, 'license-texts', `${name.replace('/', '-')}.txt`);
  if (!existsSync(added)) throw new Error(`${folder} has no license text. Add that of its repository as ${added}`);
  return [read(added), ...texts];
}
