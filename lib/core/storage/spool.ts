/**
 * Buffers what is to be stored until all of it has arrived: size and hash are known only then, and a retry needs the
 * bytes again. A small body stays in memory, a larger one goes to a file block by block.
 */

import { createHash } from 'node:crypto';
import { closeSync, createReadStream, fsync, openSync, writeFile, writev } from 'node:fs';
import type { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { settled } from '../concurrency.ts';
import type { PageMetadata } from '../model.ts';
import type { PageIdentity, ReceivedPage } from '../ports.ts';
import { type Compress, createMeter, type Digest, gzip, type PageObject } from './compression.ts';

export interface Spool extends AsyncDisposable {
  /** Takes all of `chunks`, which must not change afterwards. Call it once. Rethrows an error of `chunks` unchanged. */
  readonly fill: (chunks: AsyncIterable<string | Uint8Array> | Iterable<string>) => Promise<Digest>;
  /** Resolves once the file has all bytes, and survives a power loss. */
  sync(): Promise<void>;
  /** All bytes, from the beginning. May be called several times. */
  readonly read: () => Uint8Array | Readable;
}

/** The file of a large body. */
export interface SpoolFile {
  /** Appends `chunks`. Resolves once they are written. */
  write(chunks: readonly Uint8Array[]): Promise<void>;
  sync(): Promise<void>;
  /** All bytes written so far. May be called several times. */
  read(): Readable;
  close(): void;
}

/** A body smaller than this needs no file, and a larger one is written in blocks of this size. */
const blockBytes = 512 * 1024;

/** A smaller read size makes an upload hold less beyond its current part. */
const readBytes = 256 * 1024;

/**
 * `openFile` creates a file for reading and writing. Disposing of the spool closes it.
 * `toError` turns an error of the file system into the error to throw.
 */
export function createSpool(openFile: () => SpoolFile, toError: (cause: unknown) => Error): Spool {
  let block: Uint8Array[] = [];
  let bytesInBlock = 0;
  let file: SpoolFile | undefined;
  let written = Promise.resolve();

  /** Writes the block while the next one is collected. */
  const writeBlock = async (): Promise<void> => {
    await written;
    try {
      file ??= openFile();
    } catch (cause) {
      throw toError(cause);
    }
    written = file.write(block).catch((cause: unknown) => {
      throw toError(cause);
    });
    written.catch(() => {});
    block = [];
    bytesInBlock = 0;
  };

  return {
    async fill(chunks) {
      const hash = createHash('sha256');
      let bytes = 0;
      for await (const chunk of chunks) {
        const data = typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
        hash.update(data);
        block.push(data);
        bytes += data.byteLength;
        bytesInBlock += data.byteLength;
        if (bytesInBlock >= blockBytes) await writeBlock();
      }
      if (file !== undefined) {
        await writeBlock();
        await written;
      }
      return { bytes, sha256: hash.digest('hex') };
    },

    async sync() {
      if (file === undefined) await writeBlock();
      await written;
      await file?.sync().catch((cause: unknown) => {
        throw toError(cause);
      });
    },

    read: () => file?.read() ?? Buffer.concat(block),

    async [Symbol.asyncDispose]() {
      // The next file to be opened gets the same descriptor, and would get what is still being written.
      await written.catch(() => {});
      file?.close();
    },
  };
}

/** Fills `spool` with the object for a page whose bytes are `body`. Resolves to what is known of both. */
export async function fillWithPage(
  spool: Pick<Spool, 'fill'>,
  { compression }: Pick<PageIdentity, 'compression'>,
  body: AsyncIterable<Uint8Array>,
  compress: Compress = gzip,
): Promise<PageObject> {
  if (compression === undefined) return await spool.fill(body);
  const meter = createMeter();
  const { bytes: storedBytes, sha256: storedSha256 } = await spool.fill(compress(meter.passing(body)));
  return { ...meter.digest(), compression, storedBytes, storedSha256 };
}

export function toPageMetadata(
  identity: PageIdentity,
  object: PageObject,
  { reports, documentRoot, nextCursor, serviceTime, transferredBytes }: ReceivedPage,
): PageMetadata {
  return { ...identity, ...object, reports, documentRoot, nextCursor, serviceTime, transferredBytes };
}

/** Creates the file at `path`, for {@link createSpool}. Synchronously, which is several times as fast. */
export function openSpoolFile(path: string): SpoolFile {
  const descriptor = openSync(path, 'wx+');
  return {
    async write(chunks) {
      const bytes = chunks.reduce((sum, { byteLength }) => sum + byteLength, 0);
      const bytesWritten = await new Promise<number>((resolve, reject) => {
        writev(descriptor, chunks, (error, written) => (error === null ? resolve(written) : reject(error)));
      });
      if (bytesWritten < bytes) await promisify(writeFile)(descriptor, Buffer.concat(chunks).subarray(bytesWritten));
    },
    sync: () => settled((done) => fsync(descriptor, done)),
    // Readers at explicit positions do not interfere.
    read: () => createReadStream('', { fd: descriptor, start: 0, highWaterMark: readBytes, autoClose: false }),
    close: () => closeSync(descriptor),
  };
}
