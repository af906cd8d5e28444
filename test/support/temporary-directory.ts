/** A new directory that is removed at the end of a test or suite. */

import { mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface TemporaryDirectory extends AsyncDisposable {
  readonly path: string;
  readonly remove: () => Promise<void>;
}

/** @example await using directory = await temporaryDirectory(); */
export async function temporaryDirectory(within = tmpdir()): Promise<TemporaryDirectory> {
  const path = await realpath(await mkdtemp(join(within, 'report-exporter-')));
  const remove = () => rm(path, { recursive: true, force: true });
  return { path, remove, [Symbol.asyncDispose]: remove };
}
