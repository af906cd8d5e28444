/** Prints the bundles of the functions, as a deployment from the given folder of the project makes them. */

import { join } from 'node:path';

const [root = ''] = process.argv.slice(2);
const { bundleFunctions } = (await import(join(root, 'lib/cdk/code/bundling.ts'))) as {
  bundleFunctions: () => unknown;
};
process.stdout.write(JSON.stringify(bundleFunctions()));
