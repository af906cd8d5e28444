/** Finds the packages whose code the bundles contain. Not part of the package. */

import { globSync } from 'node:fs';
import { buildSync } from 'esbuild';
import { bundling } from './bundling.ts';

/** The folders of these packages in the project, such as `node_modules/saxes`, sorted. */
export function bundledPackages(): readonly string[] {
  const { metafile } = buildSync({
    ...bundling,
    entryPoints: globSync('functions/*.ts', { cwd: bundling.absWorkingDir }),
    outdir: 'bundles',
    write: false,
    metafile: true,
    logLevel: 'warning',
  });
  const files = Object.values(metafile.outputs).flatMap(({ inputs }) =>
    Object.entries(inputs)
      .filter(([, { bytesInOutput }]) => bytesInOutput > 0)
      .map(([file]) => file),
  );
  const folders = files.map((file) => /^.*\bnode_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0]);
  return [...new Set(folders.filter((folder) => folder !== undefined))].sort();
}
