/**
 * Buffers a body on disk before it is uploaded: S3 needs its length and hash before the first byte, and a retry needs it
 * again. The file is unlinked as soon as it is open, so nothing of it remains even if the process is killed.
 */

import { createHash, randomUUID } from 'node:crypto';
import { type FileHandle, open, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { ExportError } from '../../core/errors.ts';

export interface SpooledBody {
  readonly bytes: number;
  /** Lower-case hexadecimal. */
  readonly sha256: string;
  /** Streams the whole body. Every call starts from the beginning. */
  read(): Readable;
}

/**
 * Buffers `chunks`, passes the body to `use`, and releases it afterwards. An error thrown by `chunks` is rethrown unchanged.
 * On any failure the iteration of `chunks` is ended, so that the connection it reads from is released. `remedy` says what to do if the
 * body does not fit.
 */
export type Spool = <Outcome>(
  chunks: AsyncIterable<string | Uint8Array>,
  use: (body: SpooledBody) => Promise<Outcome>,
  remedy: string,
) => Promise<Outcome>;

/**
 * Buffers bodies in files in `directory`.
 * @throws ConfigurationError if the directory is missing, read-only or full
 */
export function fileSpool(directory: string): Spool {
  return (chunks, use, remedy) => spoolToFile(directory, chunks, use, remedy);
}

/** Chunks are collected and written in blocks: a manifest has a chunk per page. */
const blockBytes = 1024 * 1024;

/** A smaller read size makes the upload hold less beyond its current part. */
const readBytes = 256 * 1024;

async function spoolToFile<Outcome>(
  directory: string,
  chunks: AsyncIterable<string | Uint8Array>,
  use: (body: SpooledBody) => Promise<Outcome>,
  remedy: string,
): Promise<Outcome> {
  const hash = createHash('sha256');
  // Reused for every block: new buffers would become garbage faster than they are collected.
  const block = Buffer.allocUnsafeSlow(blockBytes);
  let bytesInBlock = 0;
  let bytes = 0;
  let file: FileHandle | undefined;
  const writeBlock = async () => {
    try {
      file ??= await openUnlinked(directory);
      await file.writeFile(block.subarray(0, bytesInBlock));
    } catch (cause) {
      throw spoolError(directory, cause, remedy);
    }
    bytesInBlock = 0;
  };
  try {
    for await (const chunk of chunks) {
      const data = typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
      hash.update(data);
      bytes += data.byteLength;
      for (let offset = 0; offset < data.byteLength;) {
        const part = data.subarray(offset, offset + blockBytes - bytesInBlock);
        block.set(part, bytesInBlock);
        offset += part.byteLength;
        bytesInBlock += part.byteLength;
        if (bytesInBlock === blockBytes) await writeBlock();
      }
    }
    await writeBlock();
    // Not in object mode, in which the stream would read a dozen blocks ahead.
    const read = () => Readable.from(readBlocks(file, bytes), { objectMode: false });
    return await use({ bytes, sha256: hash.digest('hex'), read });
  } finally {
    await file?.close().catch(() => undefined);
  }
}

async function openUnlinked(directory: string): Promise<FileHandle> {
  const path = join(directory, `report-exporter-${randomUUID()}.spool`);
  const file = await open(path, 'wx+');
  await unlink(path);
  return file;
}

/** Reads at explicit positions, so that two concurrent readers do not interfere. */
async function* readBlocks(file: FileHandle | undefined, bytes: number): AsyncGenerator<Buffer> {
  for (let position = 0; position < bytes;) {
    const buffer = Buffer.allocUnsafeSlow(Math.min(readBytes, bytes - position));
    const { bytesRead } = (await file?.read({ buffer, position })) ?? { bytesRead: 0 };
    if (bytesRead === 0) throw new Error(`A spooled body of ${bytes} bytes ends after ${position} bytes`);
    yield buffer.subarray(0, bytesRead);
    position += bytesRead;
  }
}

function spoolError(directory: string, cause: unknown, remedy: string): ExportError {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : String(cause);
  return new ExportError('ConfigurationError', `Cannot write the body to upload to ${directory} (${code}). ${remedy}`, {
    cause,
  });
}
