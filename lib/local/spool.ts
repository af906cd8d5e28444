/**
 * Files in the making: whole and on the disk before they get a name that a reader can see.
 * They lie in a hidden folder of the store, hence on its file system, so that they can be linked and renamed into place.
 */

import { createHash, randomUUID } from 'node:crypto';
import { type FileHandle, open, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type Digest, onDisk } from './durable-files.ts';

export interface Spooled extends Digest {
  readonly path: string;
}

const suffix = '.spool';

/**
 * Writes `chunks` to a new file in the folder that `folder` makes ready, syncs it, lends it to `use`, and removes it:
 * what `use` wants to keep, it links or renames. An error that `chunks` throws passes through unchanged. Whatever
 * fails, `chunks` are ended and nothing is left, unless the process is killed.
 */
export async function withSpooled<T>(
  folder: () => Promise<string>,
  chunks: AsyncIterable<string | Uint8Array> | Iterable<string>,
  use: (file: Spooled) => Promise<T>,
): Promise<T> {
  const hash = createHash('sha256');
  let bytes = 0;
  let spooled: { readonly path: string; readonly handle: FileHandle } | undefined;
  const opened = async () => (spooled ??= await create(await folder()));
  try {
    // Opened within the loop, so that a disk that refuses ends `chunks` too: behind them may stand a connection.
    for await (const chunk of chunks) {
      const { path, handle } = await opened();
      const data = typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
      // writeFile on a handle goes on from where it stands, and, unlike write, never stops half-way through the chunk.
      await onDisk('write', path, () => handle.writeFile(data));
      hash.update(data);
      bytes += data.byteLength;
    }
    const { path, handle } = await opened();
    await onDisk('sync', path, () => handle.sync());
    return await use({ path, bytes, sha256: hash.digest('hex') });
  } finally {
    // Never at the price of the outcome: a leftover harms nobody.
    await spooled?.handle.close().catch(() => undefined);
    if (spooled !== undefined) await rm(spooled.path, { force: true }).catch(() => undefined);
  }
}

async function create(folder: string): Promise<{ path: string; handle: FileHandle }> {
  const path = join(folder, `${randomUUID()}${suffix}`);
  return { path, handle: await onDisk('create', path, () => open(path, 'wx')) };
}

const blockLength = 65_536;

/** The same text in fewer pieces: a manifest comes line by line, and a million lines are not worth a write each. */
export async function* inBlocks(chunks: AsyncIterable<string>): AsyncGenerator<string> {
  let block = '';
  for await (const chunk of chunks) {
    block += chunk;
    if (block.length < blockLength) continue;
    yield block;
    block = '';
  }
  yield block;
}

const dayMs = 86_400_000;

/**
 * Removes what killed writers left. A page takes minutes, so a file untouched for a day has no writer; and if one should
 * wake up after all, in a laptop opened again, its link finds no file: that attempt fails, and nothing of it shows.
 */
export async function sweepSpool(folder: string): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  for (const name of names.filter((name) => name.endsWith(suffix))) {
    const path = join(folder, name);
    const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Number.POSITIVE_INFINITY }));
    if (Date.now() - mtimeMs > dayMs) await rm(path, { force: true }).catch(() => undefined);
  }
}
