/**
 * Checks that a page is a whole ZIP archive, while it is received: each entry is complete and has the CRC that the
 * archive says, and the directory at the end lists exactly these entries. What is in the entries is not looked at, so
 * reports are not counted.
 *
 * Written here because no library does it. yauzl and @zip.js/zip.js need the end of the archive first; unzipper and
 * fflate read it as it arrives, but compare neither CRCs nor the directory, and fflate ends an entry of unknown length
 * at the first four bytes that look like the end of one.
 */

import { crc32, createInflateRaw } from 'node:zlib';
import { documentValue, isBomb, maxRatio, type PageContent } from '../format-check.ts';
import {
  type Content,
  createEntrySet,
  InvalidArchive,
  lengths,
  type LocalHeader,
  readDirectoryEntry,
  readEnd,
  readLocalHeader,
  signatures,
  zip64Problem,
} from './records.ts';

/** Waits for a chunk with each `yield`; undefined: the archive is over. */
type Reading<Result> = AsyncGenerator<undefined, Result, Uint8Array | undefined>;

/** A check like `FormatCheck`. It inflates in a thread of zlib, so its answers are promises. */
export function createZipCheck() {
  const archive = readArchive();
  let isBegun = false;
  let problem: string | undefined;
  let bytes = 0;
  const advance = async (chunk: Uint8Array | undefined): Promise<string | undefined> => {
    if (problem !== undefined || chunk?.length === 0) return problem;
    try {
      if (!isBegun) await archive.next();
      isBegun = true;
      await archive.next(chunk);
    } catch (error) {
      if (!(error instanceof InvalidArchive)) throw error;
      problem = error.message;
    }
    return problem;
  };
  return {
    push(chunk: Uint8Array): Promise<string | undefined> {
      bytes += chunk.length;
      return advance(chunk);
    },
    async end(): Promise<string | PageContent> {
      if (bytes === 0) return 'the body is empty';
      const found = await advance(undefined);
      return found ?? { reports: null, rootName: null, value: (path) => documentValue(path, bytes) };
    },
  };
}

async function* readArchive(): Reading<void> {
  const input = createInput();
  const read = createEntrySet();
  let signature = yield* readSignature(input, 'it');
  const isArchive = signature === signatures.localHeader || signature === signatures.end;
  if (!isArchive) throw new InvalidArchive('it does not begin with an entry');
  while (signature === signatures.localHeader) {
    const offset = input.position() - lengths.signature;
    read.add(yield* readEntry(input, `entry ${read.count() + 1}`), offset);
    signature = yield* readSignature(input, 'it');
  }
  yield* readDirectory(input, signature, read);
  if (input.available() > 0 || (yield) !== undefined) throw new InvalidArchive('it continues after its end');
}

async function* readSignature(input: Input, subject: string): Reading<number> {
  return (yield* input.take(lengths.signature, subject)).readUInt32LE(0);
}

/** Reads the entry after the signature of its header. */
async function* readEntry(input: Input, entry: string): Reading<Content> {
  const header = readLocalHeader(yield* input.take(lengths.localHeader, entry), entry);
  yield* input.take(header.lengthOfNames, entry);
  const content = yield* header.method === 8 ? inflate(input, header, entry) : readStored(input, header, entry);
  if (header.hasDescriptor) yield* readDescriptor(input, content, entry);
  else if (content.crc !== header.crc) throw wrongCrc(entry);
  else if (content.bytes !== header.bytes)
    throw new InvalidArchive(`${entry} has ${content.bytes} bytes, and its header says ${header.bytes}`);
  return content;
}

const wrongCrc = (entry: string) => new InvalidArchive(`the CRC of ${entry} is not that of its content`);

async function* readStored(input: Input, { method, compressedBytes }: LocalHeader, entry: string): Reading<Content> {
  let crc = 0;
  let bytes = 0;
  while (bytes < compressedBytes) {
    const piece = yield* input.some(compressedBytes - bytes, entry);
    crc = crc32(piece, crc);
    bytes += piece.length;
    input.skip(piece.length);
  }
  return { method, crc, compressedBytes, bytes };
}

/** Reads to the end of the Deflate stream. Its header may not have its length. */
async function* inflate(input: Input, header: LocalHeader, entry: string): Reading<Content> {
  const limit = header.hasDescriptor ? Number.POSITIVE_INFINITY : header.compressedBytes;
  const decoder = createInflater();
  let compressedBytes = 0;
  while (!decoder.isOver() && compressedBytes < limit) {
    const piece = yield* input.some(limit - compressedBytes, entry);
    const consumed = await decoder.write(piece);
    compressedBytes += consumed;
    input.skip(consumed);
    if (isBomb(decoder.content().bytes, compressedBytes))
      throw new InvalidArchive(`${entry} expands to more than ${maxRatio} times its size`);
  }
  const error = await decoder.end();
  if (error !== undefined) throw new InvalidArchive(`${entry} is damaged: ${error.message}`);
  if (!header.hasDescriptor && compressedBytes < limit)
    throw new InvalidArchive(`${entry} is damaged: its content ends after ${compressedBytes} of ${limit} bytes`);
  return { method: header.method, ...decoder.content(), compressedBytes };
}

/** Inflates a stream without holding its content. zlib stops at the end of the stream, and knows where that is. */
function createInflater() {
  const decoder = createInflateRaw({ chunkSize: 64 * 1024 });
  let crc = 0;
  let bytes = 0;
  let isOver = false;
  let problem: Error | undefined;
  decoder.on('data', (chunk: Uint8Array) => {
    crc = crc32(chunk, crc);
    bytes += chunk.length;
  });
  const over = new Promise<void>((resolve) => {
    const end = (error?: Error) => {
      problem ??= error;
      isOver = true;
      resolve();
    };
    decoder.on('end', end).on('error', end);
  });
  return {
    /** Returns how many bytes belong to the stream. */
    async write(piece: Uint8Array): Promise<number> {
      const before = decoder.bytesWritten;
      await Promise.race([over, new Promise<void>((resolve) => decoder.write(piece, () => resolve()))]);
      return decoder.bytesWritten - before;
    },
    isOver: () => isOver,
    content: () => ({ crc, bytes }),
    /** Returns what is wrong with the stream, for example that it is not complete. */
    async end(): Promise<Error | undefined> {
      if (!isOver) decoder.end();
      await over;
      decoder.destroy();
      return problem;
    },
  };
}

/** The record after the content. Its signature is optional. */
async function* readDescriptor(input: Input, content: Content, entry: string): Reading<void> {
  const isContent = (record: Buffer) =>
    [content.crc, content.compressedBytes, content.bytes].every((value, at) => record.readUInt32LE(at * 4) === value);
  const record = yield* input.take(lengths.descriptor, entry);
  if (isContent(record)) return;
  if (record.readUInt32LE(0) !== signatures.descriptor) throw wrongCrc(entry);
  const rest = yield* input.take(lengths.signature, entry);
  if (!isContent(Buffer.concat([record.subarray(lengths.signature), rest]))) throw wrongCrc(entry);
}

/** Reads the directory, and the end record after it. */
async function* readDirectory(input: Input, first: number, read: ReturnType<typeof createEntrySet>): Reading<void> {
  const listed = createEntrySet();
  const start = input.position() - lengths.signature;
  let signature = first;
  while (signature === signatures.directory) {
    const entry = readDirectoryEntry(yield* input.take(lengths.directory, 'its directory'));
    yield* input.take(entry.lengthOfNames, 'its directory');
    listed.add(entry, entry.offset);
    signature = yield* readSignature(input, 'its directory');
  }
  if (signature === signatures.zip64End) throw new InvalidArchive(zip64Problem);
  const end = input.position() - lengths.signature;
  if (signature !== signatures.end) throw new InvalidArchive(`it has no record at byte ${end}`);
  const record = readEnd(yield* input.take(lengths.end, 'its directory'));
  yield* input.take(record.lengthOfComment, 'its comment');
  if (read.count() === 0) throw new InvalidArchive('it has no entries');
  if (record.disks > 0) throw new InvalidArchive('it is a part of a split archive');
  const isExact =
    listed.digest() === read.digest() &&
    record.entries.every((count) => count === (read.count() & 0xffff)) &&
    record.directoryOffset === start &&
    record.directoryBytes === end - start;
  if (!isExact) throw new InvalidArchive('its directory does not list exactly its entries');
}

type Input = ReturnType<typeof createInput>;

/** The bytes that were received and not read yet: less than a chunk, and the longest record. */
function createInput() {
  let rest: Buffer = Buffer.alloc(0);
  let position = 0;
  async function* receive(subject: string): Reading<void> {
    const chunk = yield;
    if (chunk === undefined) throw new InvalidArchive(`${subject} is not complete`);
    const received = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length);
    rest = rest.length === 0 ? received : Buffer.concat([rest, received]);
  }
  const skip = (bytes: number): void => {
    rest = rest.subarray(bytes);
    position += bytes;
  };
  return {
    position: () => position,
    available: () => rest.length,
    skip,
    async *take(bytes: number, subject: string): Reading<Buffer> {
      while (rest.length < bytes) yield* receive(subject);
      const taken = rest.subarray(0, bytes);
      skip(bytes);
      return taken;
    },
    /** Returns at least one byte, and does not skip it. */
    async *some(atMost: number, subject: string): Reading<Buffer> {
      while (rest.length === 0) yield* receive(subject);
      return rest.subarray(0, atMost);
    },
  };
}
