/** Which licenses packages may have, and the texts of those whose code the package contains. */

import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Package, root } from './lock-file.ts';

/** Licenses that allow passing the code on, in a bundle as well, if its license text comes with it. */
const forUsers: ReadonlySet<string> = new Set([
  '0BSD',
  'Apache-2.0',
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'ISC',
  'MIT',
  'MIT-0',
]);

/** Licenses of tools, of which nothing is passed on. */
const forDevelopment: ReadonlySet<string> = new Set([...forUsers, 'MPL-2.0']);

/** What is wrong with the licenses of the packages, one line each. */
export function licenseProblems(packages: readonly Package[]): string[] {
  return packages.flatMap(({ name, version, license, isShipped }) => {
    const label = `${name}@${version}`;
    if (license === undefined) return [`${label} declares no license`];
    if (isAllowed(license, isShipped ? forUsers : forDevelopment)) return [];
    return [`${label} has the license ${license}, which is not allowed for ${isShipped ? 'users' : 'development'}`];
  });
}

/** Whether the SPDX expression can be met with these licenses alone. An expression in any other form cannot. */
export function isAllowed(expression: string, licenses: ReadonlySet<string>): boolean {
  const inner = /^\(([^()]*)\)$/.exec(expression)?.[1] ?? expression;
  return inner.split(' OR ').some((each) => each.split(' AND ').every((license) => licenses.has(license)));
}

/** How many packages have each license, most frequent first. */
export function countLicenses(packages: readonly Package[]): readonly (readonly [license: string, count: number])[] {
  const groups = Object.entries(Object.groupBy(packages, ({ license = 'none' }) => license));
  return groups.map(([license, group = []]) => [license, group.length] as const).sort(([, a], [, b]) => b - a);
}

/** The file with the licenses of the bundled packages. @throws if one has no license text */
export function licenseTexts(packages: readonly Package[]): string {
  const sections = packages
    .filter(({ isBundled }) => isBundled)
    .map((each) => `${each.name} ${each.version} (${each.license})\n\n${textsOf(each)}\n`);
  const intro = 'The functions and the command line contain code of these packages.\n';
  return [intro, ...sections].join(`\n${'-'.repeat(80)}\n\n`);
}

/** Licenses that do not ask to pass on their text. */
const withoutConditions: ReadonlySet<string> = new Set(['0BSD', 'MIT-0']);

/** The texts in the package. Apache-2.0 asks to pass on the notices, too. */
function textsOf({ folder, name, license = '' }: Package): string {
  const read = (file: string) => readFileSync(file, 'utf8').trim().replaceAll('\r\n', '\n');
  const names = globSync('*', { cwd: join(root, folder) }).filter((file) => /^(licen[cs]e|notice)(\.|-|$)/i.test(file));
  const texts = names.sort().map((file) => read(join(root, folder, file)));
  if (names.some((file) => /^licen/i.test(file))) return texts.join('\n\n');
  if (withoutConditions.has(license)) return [`License: ${license}`, ...texts].join('\n\n');
  // The license that the repository of the package has, but not the package.
  const added = join(import.meta.dirname, 'license-texts', `${name.replace('/', '-')}.txt`);
  if (!existsSync(added)) throw new Error(`${folder} has no license text. Add that of its repository as ${added}`);
  return [read(added), ...texts].join('\n\n');
}
