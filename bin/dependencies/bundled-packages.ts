/** Finds the packages whose code the functions in the package contain. */

import { globSync } from 'node:fs';
import { buildSync, type Metafile } from 'esbuild';
import { bundling } from '../../lib/cdk/code/bundling.ts';

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
  return [...new Set(packageFolders(metafile))].sort();
}

function packageFolders({ outputs }: Metafile): string[] {
  const files = Object.values(outputs).flatMap(({ inputs }) =>
    Object.entries(inputs)
      .filter(([, { bytesInOutput }]) => bytesInOutput > 0)
      .map(([file]) => file),
  );
  const folders = files.map((file) => /^.*\bnode_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0]);
  return folders.filter((folder) => folder !== undefined);
}
