/**
 * Buffers what is to be stored until all of it has arrived: size and hash are known only then, and a retry needs the bytes again. A small
 * body stays in memory, a larger one goes to a file block by block.
 */

import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import type { PageMetadata } from '../model.ts';

/** Size and SHA-256, in lower-case hexadecimal. */
export type Digest = Pick<PageMetadata, 'bytes' | 'sha256'>;

export interface Spool extends AsyncDisposable {
  /** Takes all of `chunks`. Call it once. An error that `chunks` throws is rethrown unchanged. */
  readonly fill: (chunks: AsyncIterable<string | Uint8Array> | Iterable<string>) => Promise<Digest>;
  /** Resolves once the file has all bytes, and survives a power loss. */
  sync(): Promise<void>;
  /** All bytes, from the beginning. May be called several times. */
  readonly read: () => Uint8Array | Readable;
}

/** What a large body is written to. A `FileHandle` is one. */
export interface SpoolFile {
  /** Appends `data`, which changes once this has resolved. */
  writeFile(data: Uint8Array): Promise<void>;
  createReadStream(options: {
    readonly start: number;
    readonly highWaterMark: number;
    readonly autoClose: boolean;
  }): Readable;
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** A body up to this size needs no file, and a larger one is written in blocks of this size. */
const blockBytes = 512 * 1024;

/** A smaller read size makes an upload hold less beyond its current part. */
const readBytes = 256 * 1024;

/**
 * `openFile` creates a file for reading and writing. Disposing of the spool closes it.
 * `toError` turns an error of the file system into the error to throw.
 */
export function createSpool(openFile: () => Promise<SpoolFile>, toError: (cause: unknown) => Error): Spool {
  // Reused for every block: new buffers would become garbage faster than they are collected.
  const block = Buffer.allocUnsafeSlow(blockBytes);
  let bytesInBlock = 0;
  let file: SpoolFile | undefined;

  const writeBlock = async (): Promise<SpoolFile> => {
    try {
      file ??= await openFile();
      await file.writeFile(block.subarray(0, bytesInBlock));
    } catch (cause) {
      throw toError(cause);
    }
    bytesInBlock = 0;
    return file;
  };

  return {
    async fill(chunks) {
      const hash = createHash('sha256');
      let bytes = 0;
      for await (const chunk of chunks) {
        const data = typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
        hash.update(data);
        bytes += data.byteLength;
        for (let offset = 0; offset < data.byteLength;) {
          if (bytesInBlock === blockBytes) await writeBlock();
          const part = data.subarray(offset, offset + blockBytes - bytesInBlock);
          block.set(part, bytesInBlock);
          offset += part.byteLength;
          bytesInBlock += part.byteLength;
        }
      }
      if (file !== undefined) await writeBlock();
      return { bytes, sha256: hash.digest('hex') };
    },

    async sync() {
      const written = file === undefined || bytesInBlock > 0 ? await writeBlock() : file;
      await written.sync().catch((cause: unknown) => {
        throw toError(cause);
      });
    },

    // Readers at explicit positions do not interfere.
    read: () =>
      file?.createReadStream({ start: 0, highWaterMark: readBytes, autoClose: false }) ??
      block.subarray(0, bytesInBlock),

    async [Symbol.asyncDispose]() {
      // Waits for a write that is in progress.
      await file?.close().catch(() => {});
    },
  };
}
