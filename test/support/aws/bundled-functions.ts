/** Bundles the functions as a deployment does: one file each, with the esbuild options of the CDK construct. */

import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { build } from 'esbuild';
import { bundling } from '../../../lib/cdk/code/bundling.ts';

export const functionNames = ['begin-run', 'export-page', 'finish-run', 'fail-run'] as const;
export type FunctionName = (typeof functionNames)[number];

export interface BundledFunction {
  readonly file: string;
  readonly bytes: number;
  /** The bundled files, by path from the root of the project. */
  readonly inputs: readonly string[];
  /** The modules that the bundle imports at run time. */
  readonly imports: readonly string[];
}

/** Bundles the function `name` into its own folder in `directory`, from which no package resolves. */
export async function bundleFunction(name: FunctionName, directory: string): Promise<BundledFunction> {
  // .cjs, because a package.json in a parent folder could declare .js files to be ES modules.
  const file = join(directory, name, 'index.cjs');
  const { metafile } = await build({
    ...bundling,
    entryPoints: [`functions/${name}.ts`],
    outfile: file,
    metafile: true,
    logLevel: 'error',
  });
  return {
    file,
    bytes: (await stat(file)).size,
    inputs: Object.keys(metafile.inputs),
    imports: Object.values(metafile.outputs).flatMap(({ imports }) => imports.map(({ path }) => path)),
  };
}
