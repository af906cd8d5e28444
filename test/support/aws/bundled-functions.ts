/** The functions as they are deployed: each one file, made by esbuild with the options that CDK is given. */

import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { build } from 'esbuild';
import { bundling } from '../../../lib/cdk/bundling.ts';

const root = join(import.meta.dirname, '../../..');

export const functionNames = ['begin-run', 'export-page', 'finish-run', 'fail-run'] as const;
export type FunctionName = (typeof functionNames)[number];

export interface BundledFunction {
  readonly file: string;
  readonly bytes: number;
  /** The packages that went in, and the built-ins that our own modules import. */
  readonly holds: ReadonlySet<string>;
  /** Our own modules that went in, by their paths in the project. */
  readonly modules: ReadonlySet<string>;
  /** Files of packages that went in, from `node_modules/` on. */
  readonly packageFiles: ReadonlySet<string>;
  /** What it imports when it runs, or would if it ever came to that. */
  readonly imports: ReadonlySet<string>;
}

/** Bundles `name` of a folder of the project into a folder of its own in `directory`, where no package is to be found. */
export async function bundleFunction(
  name: FunctionName,
  directory: string,
  from = 'functions',
): Promise<BundledFunction> {
  // Lambda's folder has no package.json that would say what a .js is; a temporary one may lie below one that has.
  const file = join(directory, name, 'index.cjs');
  const { metafile } = await build({
    ...bundling,
    mainFields: [...bundling.mainFields],
    absWorkingDir: root,
    bundle: true,
    platform: 'node',
    entryPoints: [`${from}/${name}.ts`],
    outfile: file,
    metafile: true,
    logLevel: 'error',
  });
  const inputs = Object.entries(metafile.inputs).map(([path, { imports }]) => ({
    owner: packageOf(path),
    imports: imports.filter(({ external }) => external === true).map((each) => each.path),
  }));
  return {
    file,
    bytes: (await stat(file)).size,
    holds: new Set(inputs.flatMap(({ owner, imports }) => (owner === undefined ? imports : [owner]))),
    modules: new Set(Object.keys(metafile.inputs).filter((path) => packageOf(path) === undefined)),
    packageFiles: new Set(Object.keys(metafile.inputs).filter((path) => packageOf(path) !== undefined)),
    imports: new Set(Object.values(metafile.outputs).flatMap(({ imports }) => imports.map(({ path }) => path))),
  };
}

/** `node_modules/a/node_modules/@b/c/index.js` is of `@b/c`. */
function packageOf(path: string): string | undefined {
  const inside = path.split('node_modules/').at(-1) ?? '';
  if (inside === path) return undefined;
  return inside
    .split('/')
    .slice(0, inside.startsWith('@') ? 2 : 1)
    .join('/');
}
