/** Prints the software bill of materials of the package. `npm run --silent sbom > sbom.cdx.json` */

import { readFileSync } from 'node:fs';
import { bundledPackages } from './dependencies/bundled-packages.ts';
import { packagesIn, readLockFile } from './dependencies/lock-file.ts';
import { billOfMaterials } from './dependencies/sbom.ts';
import { packageFile } from './package-file.ts';

const project = JSON.parse(readFileSync(packageFile, 'utf8')) as Parameters<typeof billOfMaterials>[0];
process.stdout.write(billOfMaterials(project, packagesIn(readLockFile(), bundledPackages())));
