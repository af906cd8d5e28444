/** Lists the licenses of all packages, and fails if one is not allowed or if a bundled package has no license text. */

import { bundledPackages } from './dependencies/bundled-packages.ts';
import { countLicenses, licenseProblems, licenseTexts } from './dependencies/licenses.ts';
import { packagesIn, readLockFile } from './dependencies/lock-file.ts';

const packages = packagesIn(readLockFile(), bundledPackages());
for (const [title, group] of [
  ['Installed by users', packages.filter(({ isInstalled }) => isInstalled)],
  ['Contained in the package', packages.filter(({ isBundled }) => isBundled)],
  ['For development only', packages.filter(({ isShipped }) => !isShipped)],
] as const) {
  const counts = countLicenses(group).map(([license, count]) => `${license} (${count})`);
  process.stdout.write(`${title}: ${group.length} packages. ${counts.join(', ')}\n`);
}
licenseTexts(packages);
const problems = licenseProblems(packages);
for (const problem of problems) process.stderr.write(`Error: ${problem}\n`);
if (problems.length > 0) {
  process.stderr.write('Replace the package, or add its license in bin/dependencies/licenses.ts after reading it.\n');
  process.exitCode = 1;
}
