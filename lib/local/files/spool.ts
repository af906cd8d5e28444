/**
 * Files in the making: whole and on the disk before they get a name that a reader can see.
 * They lie in a hidden folder of the store, hence on its file system, so that they can be linked and renamed into place.
 */

import { createHash, randomUUID } from 'node:crypto';
import { closeSync, openSync, rmSync, writev } from 'node:fs';
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type Digest, diskError, syncDescriptor } from './durable-fs.ts';

export interface Spooled extends Digest {
  readonly path: string;
  /** Resolves when the file would outlive a power cut: no reader may see a name of it before. */
  readonly synced: Promise<void>;
}

const suffix = '.spool';

/** So much is written at a time, while as much again comes in. */
const blockBytes = 512 * 1024;

/**
 * Writes `chunks` to a new file in the folder that `folder` makes ready, lends it to `use` while it is being synced, and
 * removes it: what `use` wants to keep, it links or renames. An error that `chunks` throws passes through unchanged.
 * Whatever fails, `chunks` are ended and nothing is left, unless the process is killed.
 */
export async function withSpooled<T>(
  folder: () => Promise<string>,
  chunks: AsyncIterable<string | Uint8Array> | Iterable<string>,
  use: (file: Spooled) => Promise<T>,
): Promise<T> {
  const hash = createHash('sha256');
  let bytes = 0;
  let file: SpoolFile | undefined;
  try {
    // Opened within the loop, so that a disk that refuses ends `chunks` too: behind them may stand a connection.
    for await (const chunk of chunks) {
      file ??= create(await folder());
      const data = typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
      hash.update(data);
      bytes += data.byteLength;
      const full = file.take(data);
      if (full !== undefined) await full;
    }
    file ??= create(await folder());
    const synced = file.sync();
    // Whoever uses it waits for it, or has failed before.
    synced.catch(() => {});
    return await use({ path: file.path, bytes, sha256: hash.digest('hex'), synced });
  } finally {
    await file?.remove();
  }
}

interface SpoolFile {
  readonly path: string;
  /** Takes what may not be changed any more. Returns a promise where it must be waited for. */
  take(data: Uint8Array): Promise<void> | undefined;
  sync(): Promise<void>;
  /** Never at the price of the outcome: a leftover harms nobody. */
  remove(): Promise<void>;
}

function create(folder: string): SpoolFile {
  const path = join(folder, `${randomUUID()}${suffix}`);
  const descriptor = onDisk('create', path, () => openSync(path, 'wx'));
  let block: Uint8Array[] = [];
  let inBlock = 0;
  let writing = Promise.resolve();
  let finishing = Promise.resolve();

  const write = async (): Promise<void> => {
    await writing;
    writing = writeAll(descriptor, path, block);
    writing.catch(() => {});
    block = [];
    inBlock = 0;
  };
  const finish = async (): Promise<void> => {
    await write();
    await writing;
    await syncDescriptor(descriptor).catch((cause: unknown) => {
      throw diskError('sync', path, cause);
    });
  };
  return {
    path,
    take(data) {
      block.push(data);
      inBlock += data.byteLength;
      return inBlock < blockBytes ? undefined : write();
    },
    sync() {
      finishing = finish();
      return finishing;
    },
    async remove() {
      // The next file that is opened has the descriptor's number: what still waits for a thread would go into that.
      await finishing.catch(() => {});
      await writing.catch(() => {});
      try {
        closeSync(descriptor);
        rmSync(path, { force: true });
      } catch {}
    },
  };
}

/** One call may write less than it was given. */
async function writeAll(descriptor: number, path: string, block: readonly Uint8Array[]): Promise<void> {
  for (let left = block.filter(({ byteLength }) => byteLength > 0); left.length > 0; ) {
    let done = await writeSome(descriptor, left).catch((cause: unknown) => {
      throw diskError('write', path, cause);
    });
    while (done > 0 && left[0] !== undefined) {
      const [first, ...others] = left;
      left = done < first.byteLength ? [first.subarray(done), ...others] : others;
      done -= Math.min(done, first.byteLength);
    }
  }
}

/** Resolves to how many bytes were written. */
function writeSome(descriptor: number, block: readonly Uint8Array[]): Promise<number> {
  return new Promise((resolve, reject) => {
    writev(descriptor, block, (error, bytesWritten) => (error === null ? resolve(bytesWritten) : reject(error)));
  });
}

function onDisk<T>(act: string, path: string, operation: () => T): T {
  try {
    return operation();
  } catch (cause) {
    throw diskError(act, path, cause);
  }
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
