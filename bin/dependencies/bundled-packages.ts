/** Finds the packages whose code the package contains: in the functions, and in the command line. */

import { globSync } from 'node:fs';
import { buildSync, type Metafile } from 'esbuild';
import { bundling } from '../../lib/cdk/code/bundling.ts';
import { interpreterMetafile } from './interpreter-bundle.ts';

/** The folders of these packages in the project, such as `node_modules/saxes`, sorted. */
export async function bundledPackages(): Promise<readonly string[]> {
  const { metafile: functions } = buildSync({
    ...bundling,
    entryPoints: globSync('functions/*.ts', { cwd: bundling.absWorkingDir }),
    outdir: 'bundles',
    write: false,
    metafile: true,
    logLevel: 'warning',
  });
  return [...new Set([functions, await interpreterMetafile()].flatMap(packageFolders))].sort();
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
