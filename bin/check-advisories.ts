/**
 * Asks the advisory service of the npm registry for known vulnerabilities in the packages of package-lock.json. Fails for those of
 * packages that users receive, if they are high or critical. Everything else is a warning.
 *
 * Not every registry has an advisory service, and some proxies answer every question with "none". Then nothing was audited, and it
 * says so: a package that is known to be vulnerable must be reported, too.
 *
 * In a GitHub workflow, problems are annotations, and the output `outcome` is `passed`, `vulnerable` or `not-audited`.
 */

import { appendFileSync } from 'node:fs';
import { bundledPackages } from './dependencies/bundled-packages.ts';
import { type Audit, auditPackages } from './dependencies/advisories.ts';
import { packagesIn, readLockFile, root } from './dependencies/lock-file.ts';

const conclusions: Readonly<Record<Audit['outcome'], string>> = {
  passed: 'No high or critical vulnerability is known in what users receive.',
  vulnerable: 'Update these packages: npm update, or npm audit fix.',
  'not-audited':
    'Nothing was audited. Run this again with a registry that has an advisory service, such as that of npm.',
};

const isWorkflow = process.env.GITHUB_ACTIONS === 'true';
const audit = await auditPackages(root, packagesIn(readLockFile(), bundledPackages()));
for (const warning of audit.warnings) print('warning', 'Warning', warning);
for (const problem of audit.problems) print('error', 'Error', problem);
process.stdout.write(`${conclusions[audit.outcome]}\n`);
if (process.env.GITHUB_OUTPUT !== undefined) appendFileSync(process.env.GITHUB_OUTPUT, `outcome=${audit.outcome}\n`);
if (audit.outcome === 'vulnerable') process.exitCode = 1;

function print(command: 'warning' | 'error', label: string, text: string): void {
  // A line break would end the workflow command.
  const line = text.replaceAll(/\s+/g, ' ');
  process.stdout.write(isWorkflow ? `::${command}::${line}\n` : `${label}: ${line}\n`);
}
