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
  /** The bundled packages, and the built-in modules that the project's own modules import. */
  readonly packages: ReadonlySet<string>;
  /** The bundled modules of the project, by path. */
  readonly modules: ReadonlySet<string>;
  /** The bundled files of packages, by path from `node_modules/`. */
  readonly packageFiles: ReadonlySet<string>;
  /** The modules that the bundle imports at run time. */
  readonly imports: ReadonlySet<string>;
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
  const inputs = Object.entries(metafile.inputs).map(([path, { imports }]) => ({
    owner: packageOf(path),
    imports: imports.filter(({ external }) => external === true).map(({ path }) => path),
  }));
  return {
    file,
    bytes: (await stat(file)).size,
    packages: new Set(inputs.flatMap(({ owner, imports }) => (owner === undefined ? imports : [owner]))),
    modules: new Set(Object.keys(metafile.inputs).filter((path) => packageOf(path) === undefined)),
    packageFiles: new Set(Object.keys(metafile.inputs).filter((path) => packageOf(path) !== undefined)),
    imports: new Set(Object.values(metafile.outputs).flatMap(({ imports }) => imports.map(({ path }) => path))),
  };
}

/** The package of `node_modules/a/node_modules/@b/c/index.js` is `@b/c`. */
function packageOf(path: string): string | undefined {
  const inside = path.split('node_modules/').at(-1) ?? '';
  if (inside === path) return undefined;
  return inside
    .split('/')
    .slice(0, inside.startsWith('@') ? 2 : 1)
    .join('/');
}
