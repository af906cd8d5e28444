/** Prints the bundles of the functions, as a deployment from the given folder of the project makes them. */

import { join } from 'node:path';

const [root = ''] = process.argv.slice(2);
const { functionBundles } = (await import(join(root, 'lib/cdk/bundling.ts'))) as { functionBundles: () => unknown };
process.stdout.write(JSON.stringify(functionBundles()));
