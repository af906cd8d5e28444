/**
 * Holds a body that is to be uploaded: its length and hash must be known before the first byte is sent, and it must be
 * there again where the upload has to be repeated. It lies in a file without a name, so nothing is left of it whatever
 * happens, also where the function is killed.
 */

import { createHash, randomUUID } from 'node:crypto';
import { type FileHandle, open, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { ExportError } from '../../core/errors.ts';

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

/** What is read is the upload's, which makes parts of it: what does not fit into one is held together with it. */
const readBytes = 256 * 1024;

async function withSpooled<Outcome>(
  directory: string,
  chunks: AsyncIterable<string | Uint8Array>,
  use: (body: Spooled) => Promise<Outcome>,
): Promise<Outcome> {
  const hash = createHash('sha256');
  // One for the whole body: a new one for each block would be garbage faster than it is collected.
  const block = Buffer.allocUnsafeSlow(blockBytes);
  let inBlock = 0;
  let bytes = 0;
  let file: FileHandle | undefined;
  const write = async () => {
    try {
      file ??= await openNameless(directory);
      await file.writeFile(block.subarray(0, inBlock));
    } catch (cause) {
      throw refused(directory, cause);
    }
    inBlock = 0;
  };
  try {
    for await (const chunk of chunks) {
      const data = typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
      hash.update(data);
      bytes += data.byteLength;
      for (let taken = 0; taken < data.byteLength; ) {
        const fitting = data.subarray(taken, taken + blockBytes - inBlock);
        block.set(fitting, inBlock);
        taken += fitting.byteLength;
        inBlock += fitting.byteLength;
        if (inBlock === blockBytes) await write();
      }
    }
    await write();
    // Bytes, not objects, of which a stream would read a dozen ahead.
    const read = () => Readable.from(blocksOf(file, bytes), { objectMode: false });
    return await use({ bytes, sha256: hash.digest('hex'), read });
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
    const buffer = Buffer.allocUnsafeSlow(Math.min(readBytes, bytes - position));
    const { bytesRead } = (await file?.read({ buffer, position })) ?? { bytesRead: 0 };
    if (bytesRead === 0) throw new Error(`A spooled body of ${bytes} bytes ends after ${position}`);
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
