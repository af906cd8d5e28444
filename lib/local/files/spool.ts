/**
 * Temporary files: content is complete and synced here before it gets a name that readers can see. The spool is a
 * hidden folder of the store, so it is on the same file system and its files can be linked and renamed into place.
 */

import { createHash, randomUUID } from 'node:crypto';
import { closeSync, openSync, rmSync, writev } from 'node:fs';
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type FileDigest, fileSystemError, fsyncDescriptor } from '../durable-fs.ts';

export interface SpooledFile extends FileDigest {
  readonly path: string;
  /** Resolves once the file survives a power loss. Do not make the file visible before. */
  readonly synced: Promise<void>;
}

const suffix = '.spool';

/** Bytes per write. The next block is collected while one is being written. */
const blockBytes = 512 * 1024;

/**
 * Writes `chunks` to a new file in the folder that `prepareFolder` returns, passes it to `use` while it is being
 * synced, and removes it afterwards: `use` links or renames what it wants to keep. An error that `chunks` throws passes
 * through unchanged. On any failure `chunks` is closed and the file removed, unless the process is killed.
 *
 * @throws ConfigurationError if the file system fails
 */
export async function withSpooledFile<T>(
  prepareFolder: () => Promise<string>,
  chunks: AsyncIterable<string | Uint8Array> | Iterable<string>,
  use: (file: SpooledFile) => Promise<T>,
): Promise<T> {
  const hash = createHash('sha256');
  let bytes = 0;
  let file: SpoolWriter | undefined;
  try {
    // The file is created inside the loop, so that an error also closes `chunks`, which may hold a connection.
    for await (const chunk of chunks) {
      file ??= createSpoolFile(await prepareFolder());
      const data = typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
      hash.update(data);
      bytes += data.byteLength;
      const blockWritten = file.write(data);
      if (blockWritten !== undefined) await blockWritten;
    }
    file ??= createSpoolFile(await prepareFolder());
    const synced = file.sync();
    // `use` awaits it. If `use` fails first, the rejection must not count as unhandled.
    synced.catch(() => {});
    return await use({ path: file.path, bytes, sha256: hash.digest('hex'), synced });
  } finally {
    await file?.remove();
  }
}

interface SpoolWriter {
  readonly path: string;
  /** Keeps `data`, which must not change afterwards. Returns a promise if the next write must wait for it. */
  write(data: Uint8Array): Promise<void> | undefined;
  sync(): Promise<void>;
  /** Never throws: a leftover is harmless. */
  remove(): Promise<void>;
}

function createSpoolFile(folder: string): SpoolWriter {
  const path = join(folder, `${randomUUID()}${suffix}`);
  const descriptor = openNew(path);
  let block: Uint8Array[] = [];
  let pendingBytes = 0;
  let writing = Promise.resolve();
  let syncing = Promise.resolve();

  const writeBlock = async (): Promise<void> => {
    await writing;
    writing = writeAll(descriptor, path, block);
    writing.catch(() => {});
    block = [];
    pendingBytes = 0;
  };
  const writeAndSync = async (): Promise<void> => {
    await writeBlock();
    await writing;
    await fsyncDescriptor(descriptor).catch((cause: unknown) => {
      throw fileSystemError('sync', path, cause);
    });
  };
  return {
    path,
    write(data) {
      block.push(data);
      pendingBytes += data.byteLength;
      return pendingBytes < blockBytes ? undefined : writeBlock();
    },
    sync() {
      syncing = writeAndSync();
      return syncing;
    },
    async remove() {
      // The next file opened gets the same descriptor number, so a pending write would go into that file.
      await syncing.catch(() => {});
      await writing.catch(() => {});
      try {
        closeSync(descriptor);
        rmSync(path, { force: true });
      } catch {}
    },
  };
}

function openNew(path: string): number {
  try {
    return openSync(path, 'wx');
  } catch (cause) {
    throw fileSystemError('create', path, cause);
  }
}

/** Repeats the write until all of `block` is written: one call may write less. */
async function writeAll(descriptor: number, path: string, block: readonly Uint8Array[]): Promise<void> {
  for (let remaining = block.filter(({ byteLength }) => byteLength > 0); remaining.length > 0;) {
    let written = await writeOnce(descriptor, remaining).catch((cause: unknown) => {
      throw fileSystemError('write', path, cause);
    });
    while (written > 0 && remaining[0] !== undefined) {
      const [first, ...others] = remaining;
      remaining = written < first.byteLength ? [first.subarray(written), ...others] : others;
      written -= Math.min(written, first.byteLength);
    }
  }
}

/** Resolves to the number of bytes written. */
function writeOnce(descriptor: number, block: readonly Uint8Array[]): Promise<number> {
  return new Promise((resolve, reject) => {
    writev(descriptor, block, (error, bytesWritten) => (error === null ? resolve(bytesWritten) : reject(error)));
  });
}

const joinedLength = 65_536;

/** Joins small strings into larger ones: a manifest of a million lines must not cost a million writes. */
export async function* joinChunks(chunks: AsyncIterable<string>): AsyncGenerator<string> {
  let joined = '';
  for await (const chunk of chunks) {
    joined += chunk;
    if (joined.length < joinedLength) continue;
    yield joined;
    joined = '';
  }
  yield joined;
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
