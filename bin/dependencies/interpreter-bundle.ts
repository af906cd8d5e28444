/**
 * Bundles the interpreter of the state machine into the module of the package that uses it. Loading it as a package takes a
 * third of the time until the first request, most of it for what is not used here: an AWS client with its credentials, and a
 * validator. Tests validate the definition, and the tasks are functions of this process.
 */

import { isBuiltin } from 'node:module';
import { join } from 'node:path';
import * as esbuild from 'esbuild';
import type { BuildOptions, Metafile, Plugin } from 'esbuild';
import { root } from './lock-file.ts';

const bundledPackage = 'aws-local-stepfunctions';
const leftOut = ['@aws-sdk/client-lambda', '@aws-sdk/credential-providers', 'asl-validator'];

/** What the package imports from those that are left out. */
const replacement = `
function leftOut() { throw new Error('The interpreter has neither AWS clients nor a validator: see bin/dependencies/interpreter-bundle.ts'); }
export { leftOut as default, leftOut as LambdaClient, leftOut as InvokeCommand, leftOut as fromCognitoIdentityPool };
`;

/** Everything that `dist` or package.json has stays an import. */
const onlyInterpreter: Plugin = {
  name: 'only-interpreter',
  setup(build) {
    build.onResolve({ filter: /.*/ }, ({ path, importer, kind }) => {
      if (leftOut.includes(path)) return { path, namespace: 'left-out' };
      if (isBuiltin(path)) return { path: `node:${path.replace(/^node:/, '')}`, external: true };
      const isOwn = kind !== 'entry-point' && !importer.includes('node_modules') && path !== bundledPackage;
      return isOwn ? { path, external: true } : undefined;
    });
    build.onLoad({ filter: /.*/, namespace: 'left-out' }, () => ({ contents: replacement, loader: 'js' }));
  },
};

const options = {
  absWorkingDir: root,
  bundle: true,
  platform: 'node',
  format: 'esm',
  /** The oldest Node.js of the command line. */
  target: 'node22.13',
  keepNames: true,
  plugins: [onlyInterpreter],
  logLevel: 'warning',
} as const satisfies BuildOptions;

/** Replaces the compiled module in `dist`, with its source map. */
export async function bundleInterpreter(dist: string): Promise<void> {
  const file = join(dist, 'lib/local/interpreter.js');
  await esbuild.build({ ...options, entryPoints: [file], outfile: file, allowOverwrite: true, sourcemap: true });
}

/** What the bundle consists of. */
export async function interpreterMetafile(): Promise<Metafile> {
  const entryPoints = ['lib/local/interpreter.ts'];
  return (await esbuild.build({ ...options, entryPoints, outdir: 'bundles', write: false, metafile: true })).metafile;
}
