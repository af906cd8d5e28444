/**
 * Holds a body that is to be uploaded: its length and hash must be known before the first byte is sent, and it must be
 * there again where the upload has to be repeated. It lies in a file without a name, so nothing is left of it whatever
 * happens, also where the function is killed.
 */

import { createHash, randomUUID } from 'node:crypto';
import { type FileHandle, open, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { ExportError } from '../core/errors.ts';

export interface Spooled {
  readonly bytes: number;
  /** Lower-case hexadecimal. */
  readonly sha256: string;
  /** The whole of it, from its start, each time. */
  read(): Readable;
}

/**
 * Takes `chunks` in, lends the result to `use`, and lets go of it. An error that `chunks` throws passes through
 * unchanged. Whatever fails, `chunks` are ended: behind them may stand a connection.
 */
export type Spool = <Outcome>(
  chunks: AsyncIterable<string | Uint8Array>,
  use: (body: Spooled) => Promise<Outcome>,
) => Promise<Outcome>;

/**
 * Spools to files in `directory`.
 * @throws ConfigurationError where it cannot take what comes
 */
export function fileSpool(directory: string): Spool {
  return (chunks, use) => withSpooled(directory, chunks, use);
}

/** A manifest comes line by line, and a million lines are not worth a write each. */
const blockBytes = 1024 * 1024;

async function withSpooled<Outcome>(
  directory: string,
  chunks: AsyncIterable<string | Uint8Array>,
  use: (body: Spooled) => Promise<Outcome>,
): Promise<Outcome> {
  const hash = createHash('sha256');
  let bytes = 0;
  let file: FileHandle | undefined;
  let block: Uint8Array[] = [];
  let inBlock = 0;
  const write = async () => {
    try {
      file ??= await openNameless(directory);
      await file.writeFile(Buffer.concat(block));
    } catch (cause) {
      throw refused(directory, cause);
    }
    block = [];
    inBlock = 0;
  };
  try {
    for await (const chunk of chunks) {
      const data = typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
      hash.update(data);
      bytes += data.byteLength;
      block.push(data);
      inBlock += data.byteLength;
      if (inBlock >= blockBytes) await write();
    }
    await write();
    return await use({ bytes, sha256: hash.digest('hex'), read: () => Readable.from(blocksOf(file, bytes)) });
  } finally {
    await file?.close().catch(() => undefined);
  }
}

async function openNameless(directory: string): Promise<FileHandle> {
  const path = join(directory, `report-exporter-${randomUUID()}.spool`);
  const file = await open(path, 'wx+');
  await unlink(path);
  return file;
}

/** By position, so that two readers at once do not disturb each other. */
async function* blocksOf(file: FileHandle | undefined, bytes: number): AsyncGenerator<Buffer> {
  for (let position = 0; position < bytes; ) {
    const { buffer, bytesRead } = (await file?.read({ buffer: Buffer.alloc(blockBytes), position })) ?? {};
    if (buffer === undefined || bytesRead === undefined || bytesRead === 0) {
      throw new Error(`A spooled body of ${bytes} bytes ends after ${position}`);
    }
    yield buffer.subarray(0, bytesRead);
    position += bytesRead;
  }
}

function refused(directory: string, cause: unknown): ExportError {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : String(cause);
  return new ExportError(
    'ConfigurationError',
    `${directory} cannot take what is to be uploaded (${code}). ` +
      'Give the function more temporary storage, or lower maxPageBytes; then start again',
    { cause },
  );
}
