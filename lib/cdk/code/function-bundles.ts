/** The code of the functions: prebuilt in the package, made from the sources in a checkout. */

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { byStep, type StepName } from '../../core/state-machine/definition.ts';

type FunctionBundles = Readonly<Record<StepName, string>>;

let bundles: FunctionBundles | undefined;

/** The code of each function. Made once per process, because all services run the same code. */
export function functionBundles(): FunctionBundles {
  bundles ??= import.meta.filename.endsWith('.ts') ? newBundles() : packagedBundles();
  return bundles;
}

function packagedBundles(): FunctionBundles {
  const folder = join(import.meta.dirname, '../../../functions');
  return byStep((step) => readFileSync(join(folder, step, 'index.js'), 'utf8'));
}

/** Loaded only here: the package has neither this module nor esbuild. */
function newBundles(): FunctionBundles {
  const require = createRequire(import.meta.url);
  return (require('./bundling.ts') as { readonly bundleFunctions: () => FunctionBundles }).bundleFunctions();
}
