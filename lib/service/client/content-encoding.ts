/**
 * Decodes compressed bodies (docs/service-contract.md, section 2.3) while they are received, as fast as they are read.
 *
 * A body counts only if it is exactly one complete stream of its codec. The decoders of Node.js accept more: a second stream,
 * or bytes after the end; `rejectGarbageAfterEnd` (not in Node.js 22) does not see a second frame of zstd in a later chunk.
 * So this file finds the ends. Of gzip it reads the header and the trailer itself, and Node.js inflates
 * what is between them; it follows a frame of zstd from block to block. Brotli has neither header nor checksum.
 */

import { once } from 'node:events';
import type { Transform } from 'node:stream';
import * as zlib from 'node:zlib';
import { contractError, failure, type ErrorContext } from './errors.ts';
import { allValues, type Header, quote } from './response-headers.ts';

export const decodable = ['gzip', 'br', 'zstd'] as const;
export type ContentEncoding = (typeof decodable)[number];

/**
 * The encoding of a body; undefined if it was sent as it is. `x-gzip` is another name of `gzip` (RFC 9110, section 8.4.1.3).
 * @throws ContractError if it is none of `accepted`, or if there are several
 */
export function readContentEncoding(
  subject: ErrorContext,
  header: Header,
  accepted: readonly ContentEncoding[],
): ContentEncoding | undefined {
  const value = allValues(header);
  if (/^(identity)?$/i.test(value)) return undefined;
  const name = value.toLowerCase().replace(/^x-gzip$/, 'gzip');
  const encoding = accepted.find((one) => one === name);
  if (encoding !== undefined) return encoding;
  const expected = ['identity', ...accepted].join(', ');
  throw contractError(subject, `content encoding ${quote(subject, value)}; only ${expected} is accepted`);
}

/**
 * Deflate compresses 1,032 times at most, brotli and zstd a hundred thousand times, but never reports that differ: at this
 * ratio, each of 100 reports would have 160 KB, and at most 330 bytes that are not in the others. A small body may have any
 * ratio: it costs little, and `maxPageBytes` limits it.
 */
const maxRatio = 500;
const minBombBytes = 16 * 1024 * 1024;

/** The limit of RFC 9659 on the memory that a body can make its receiver allocate: 8 MiB. Brotli has 16 MiB. */
const maxZstdWindowLog = 23;
const chunkSize = 64 * 1024;

type Engine = Transform & { readonly bytesWritten: number };

/** Creates what decompresses the deflate stream of a gzip body. */
export type CreateInflate = () => Engine;

/** Decodes one body. */
interface Codec {
  readonly engine: Engine;
  /** How many bytes at the end of the body the engine does not decode. Default 0. */
  readonly trailerBytes?: number;
  /** Receives the encoded body, and returns what the engine is to decode. Default: all of it. */
  take?(chunk: Uint8Array): Uint8Array;
  /** Receives the decoded body. */
  onDecoded?(chunk: Uint8Array): void;
  /** Called at the end of the body. @throws Error if it is not that of the stream */
  assertComplete?(): void;
}

/**
 * The decoded body. `next` reads the encoded one; its errors are thrown unchanged. Nothing is read before the first chunk is
 * asked for, and never much more than what was asked for.
 * @throws ServiceUnavailableError if the body ends before the stream
 * @throws ContractError if the stream is damaged, is followed by anything, or expands as only an attack does
 */
export async function* decode(
  subject: ErrorContext,
  encoding: ContentEncoding,
  next: () => Promise<IteratorResult<Uint8Array>>,
  createInflate: CreateInflate = inflateInThread,
): AsyncGenerator<Uint8Array, void, void> {
  const codec = codecs[encoding](createInflate);
  const { engine, trailerBytes = 0 } = codec;
  // It may fail after its last chunk has been read. Without a listener, that would end the process.
  engine.on('error', () => {});
  const ended = Promise.withResolvers<void>();
  let hasEnded = false;
  let given = 0;
  const surplus = () => given - engine.bytesWritten - trailerBytes;
  async function feed(): Promise<void> {
    for (;;) {
      const { done, value } = await next().catch((cause: unknown) => {
        throw new Interruption(cause);
      });
      if (done === true) break;
      const chunk = codec.take?.(value) ?? value;
      given += chunk.length;
      if (hasEnded && surplus() > 0) throw new Error(continues);
      if (!hasEnded && chunk.length > 0 && !engine.write(chunk)) {
        // An engine that has reached its end takes nothing more.
        await Promise.race([once(engine, 'drain'), ended.promise]);
      }
    }
    engine.end();
  }
  let decoded = 0;
  try {
    const fed = feed();
    fed.catch((error: Error) => engine.destroy(error));
    for await (const chunk of engine as AsyncIterable<Uint8Array>) {
      decoded += chunk.length;
      if (decoded > minBombBytes && decoded > maxRatio * engine.bytesWritten) throw new Error(bomb);
      codec.onDecoded?.(chunk);
      yield chunk;
    }
    hasEnded = true;
    ended.resolve();
    await fed;
    if (surplus() > 0) throw new Error(continues);
    if (surplus() < 0) throw truncation();
    codec.assertComplete?.();
  } catch (error) {
    throw error instanceof Interruption ? error.cause : decodingError(subject, encoding, error);
  } finally {
    engine.destroy();
  }
}

const continues = 'it continues after its end';
const bomb = `it expands to more than ${maxRatio} times its size. If its reports are alike, set compression to false`;

/** Carries an error of the connection through the engine. */
class Interruption extends Error {
  constructor(cause: unknown) {
    super('The body was interrupted', { cause });
  }
}

const codeOfTruncation = 'Z_BUF_ERROR';
const truncation = () => Object.assign(new Error('unexpected end'), { code: codeOfTruncation });

/** A body without its end may be due to a connection that was closed, before a proxy for example. That is retried for longer. */
function decodingError(subject: ErrorContext, encoding: ContentEncoding, error: unknown): Error {
  if (!(error instanceof Error)) return new Error(String(error));
  if ('code' in error && error.code === codeOfTruncation) {
    const message = `Report service sent a body in ${encoding} without its end for ${subject.label}`;
    return failure(subject, 'ServiceUnavailableError', message, { cause: error });
  }
  return contractError(subject, `not a valid body in ${encoding} (${error.message})`);
}

const inflateInThread: CreateInflate = () => zlib.createInflateRaw({ chunkSize });

const codecs: Readonly<Record<ContentEncoding, (createInflate: CreateInflate) => Codec>> = {
  gzip(createInflate) {
    const readHeader = follow(gzipHeader());
    let trailer = Buffer.alloc(0);
    let crc = 0;
    let size = 0;
    return {
      engine: createInflate(),
      trailerBytes: 8,
      take(chunk) {
        const rest = chunk.subarray(readHeader(chunk).taken);
        trailer = Buffer.concat([trailer, rest.subarray(-8)]).subarray(-8);
        return rest;
      },
      onDecoded(chunk) {
        crc = zlib.crc32(chunk, crc);
        size = (size + chunk.length) % 2 ** 32;
      },
      assertComplete() {
        if (trailer.readUInt32LE(0) !== crc) throw new Error('its checksum is wrong');
        if (trailer.readUInt32LE(4) !== size) throw new Error('its length is wrong');
      },
    };
  },
  // The engine fails without the mark of the end.
  br: () => ({ engine: zlib.createBrotliDecompress({ chunkSize }) }),
  zstd() {
    const readFrame = follow(zstdFrame());
    let isComplete = false;
    return {
      // The engine compares the checksum, if the frame has one.
      engine: zlib.createZstdDecompress({
        chunkSize,
        params: { [zlib.constants.ZSTD_d_windowLogMax]: maxZstdWindowLog },
      }),
      take(chunk) {
        const { taken, isDone } = readFrame(chunk);
        if (taken < chunk.length) throw new Error(continues);
        isComplete = isDone;
        return chunk;
      },
      assertComplete() {
        if (!isComplete) throw truncation();
      },
    };
  },
};

/** A format: yields how many bytes to move forward, at least one, and receives the last one of these. */
type Format = Generator<number, void, number>;

/** RFC 1952, section 2.3. */
function* gzipHeader(): Format {
  for (const expected of [0x1f, 0x8b, 8]) if ((yield 1) !== expected) throw new Error('incorrect header');
  const flags = yield 1;
  const [hasCrc, hasExtra, hasName, hasComment] = [2, 4, 8, 16].map((flag) => (flags & flag) !== 0);
  if (flags > 31) throw new Error('unknown flags');
  yield 6;
  if (hasExtra) {
    const length = (yield 1) + (yield 1) * 256;
    if (length > 0) yield length;
  }
  for (const hasText of [hasName, hasComment]) while (hasText && (yield 1) !== 0);
  if (hasCrc) yield 2;
}

/** RFC 8878, section 3.1.1. A frame that is to be skipped has another magic number. */
function* zstdFrame(): Format {
  for (const expected of [0x28, 0xb5, 0x2f, 0xfd]) if ((yield 1) !== expected) throw new Error('incorrect header');
  const descriptor = yield 1;
  const isSingleSegment = (descriptor & 0x20) !== 0;
  const hasChecksum = (descriptor & 4) !== 0;
  const contentSizeBytes = [isSingleSegment ? 1 : 0, 2, 4, 8][descriptor >> 6] ?? 0;
  const dictionaryIdBytes = [0, 1, 2, 4][descriptor & 3] ?? 0;
  const rest = (isSingleSegment ? 0 : 1) + dictionaryIdBytes + contentSizeBytes;
  if (rest > 0) yield rest;
  for (let isLast = false; !isLast;) {
    const header = (yield 1) + (yield 1) * 2 ** 8 + (yield 1) * 2 ** 16;
    isLast = (header & 1) === 1;
    const isOneByteRepeated = ((header >> 1) & 3) === 1;
    const size = isOneByteRepeated ? 1 : header >> 3;
    if (size > 0) yield size;
  }
  if (hasChecksum) yield 4;
}

/** Follows a format through chunks. The function returns how many bytes of a chunk belong to it. */
function follow(format: Format): (chunk: Uint8Array) => { readonly taken: number; readonly isDone: boolean } {
  const advance = (byte: number): number => format.next(byte).value ?? 0;
  // The first byte that a generator receives is ignored.
  let missing = advance(0);
  return (chunk) => {
    let taken = 0;
    while (missing > 0 && taken < chunk.length) {
      const step = Math.min(missing, chunk.length - taken);
      taken += step;
      missing -= step;
      if (missing === 0) missing = advance(chunk[taken - 1] ?? 0);
    }
    return { taken, isDone: missing === 0 };
  };
}
