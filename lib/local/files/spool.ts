/**
 * Temporary files: content is complete and synced here before it gets a name that readers can see. They are in a hidden
 * folder of the store, so on the same file system: `linkIfAbsent` and rename move them into place.
 */

import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { createSpool, openSpoolFile, type Spool } from '../../core/storage/spool.ts';
import { fileSystemError } from '../durable-fs.ts';

export interface SyncedSpool extends Pick<Spool, 'fill'>, AsyncDisposable {
  readonly path: string;
  /** Resolves once the file survives a power loss. Do not make the file visible before. */
  synced(): Promise<void>;
}

const suffix = '.spool';

/** A new file in `folder`, which is synced as soon as it is filled. Disposing of it removes it. */
export function createSpoolFile(folder: string): SyncedSpool {
  const path = join(folder, `${randomUUID()}${suffix}`);
  const spool = createSpool(
    () => openSpoolFile(path),
    (cause) => fileSystemError('write', path, cause),
  );
  let synced = Promise.resolve();
  return {
    path,
    async fill(chunks) {
      const digest = await spool.fill(chunks);
      synced = spool.sync();
      // Nothing may wait for it: then the rejection must not count as unhandled.
      synced.catch(() => {});
      return digest;
    },
    synced: () => synced,
    async [Symbol.asyncDispose]() {
      await synced.catch(() => {});
      await spool[Symbol.asyncDispose]();
      try {
        rmSync(path, { force: true });
      } catch {}
    },
  };
}

const staleAfterMs = 86_400_000;

/**
 * Removes files that killed processes left. A page takes minutes: a file unchanged for a day has no writer. If a paused
 * writer does continue after that, it can no longer link its file: the attempt fails and leaves nothing visible.
 */
export async function removeStaleSpoolFiles(folder: string): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  for (const name of names.filter((name) => name.endsWith(suffix))) {
    const path = join(folder, name);
    const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Number.POSITIVE_INFINITY }));
    if (Date.now() - mtimeMs > staleAfterMs) await rm(path, { force: true }).catch(() => undefined);
  }
}
