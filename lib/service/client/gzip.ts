/**
 * Decodes pages in gzip (docs/service-contract.md, section 2.3) while they are received, as fast as they are read.
 *
 * A body counts only if it is exactly one complete member of gzip. The decoder of Node.js accepts more: a second member, or bytes
 * after the end (`rejectGarbageAfterEnd` is not in Node.js 22). So this file reads header and trailer itself, and Node.js inflates
 * what is between them.
 */

import { once } from 'node:events';
import type { Transform } from 'node:stream';
import * as zlib from 'node:zlib';
import { contractError, type ErrorContext, failure } from './errors.ts';
import { allValues, type Header, quote } from './response-headers.ts';

/**
 * Whether a body is in gzip; otherwise, it was sent as it is. `x-gzip` is another name of `gzip` (RFC 9110, section 8.4.1.3).
 * @throws ContractError if it has another encoding, several, or gzip that is not accepted
 */
export function isInGzip(context: ErrorContext, contentEncoding: Header, isAccepted: boolean): boolean {
  const value = allValues(contentEncoding);
  if (/^(identity)?$/i.test(value)) return false;
  if (isAccepted && /^(x-)?gzip$/i.test(value)) return true;
  const expected = isAccepted ? 'identity, gzip' : 'identity';
  throw contractError(context, `content encoding ${quote(context, value)}; only ${expected} is accepted`);
}

/**
 * Deflate compresses 1,032 times at most, but never reports that differ: at this ratio, each of 100 reports would have 160 KB, and
 * at most 330 bytes that are not in the others. A small body may have any ratio: it costs little, and `maxPageBytes` limits it.
 */
const maxRatio = 500;
const minBombBytes = 16 * 1024 * 1024;

type Inflate = Transform & { readonly bytesWritten: number };

/** Creates what decompresses the deflate stream of a body. */
export type CreateInflate = () => Inflate;

const inflateInThread: CreateInflate = () => zlib.createInflateRaw({ chunkSize: 64 * 1024 });

const trailerBytes = 8;
const truncation = 'Z_BUF_ERROR';

/**
 * The decoded body. `next` reads the encoded one; its errors are thrown unchanged. Nothing is read before the first chunk is
 * asked for, and never much more than what was asked for.
 * @throws ServiceUnavailableError if the body ends before the stream
 * @throws ContractError if the stream is damaged, is followed by anything, or expands as only an attack does
 */
export async function* gunzip(
  context: ErrorContext,
  next: () => Promise<IteratorResult<Uint8Array>>,
  createInflate: CreateInflate = inflateInThread,
): AsyncGenerator<Uint8Array, void, void> {
  const inflate = createInflate();
  // It may fail after its last chunk has been read. Without a listener, that would end the process.
  inflate.on('error', () => {});
  const ended = Promise.withResolvers<void>();
  let hasEnded = false;
  let given = 0;
  let trailer = Buffer.alloc(0);
  const surplus = () => given - inflate.bytesWritten - trailerBytes;
  const assertNoSurplus = () => {
    if (surplus() > 0) throw new Error('it continues after its end');
  };
  let interruption: { readonly cause: unknown } | undefined;

  async function feed(): Promise<void> {
    const header = readHeader();
    let isInHeader = header.next().done !== true;
    for (;;) {
      const { done, value } = await next().catch((cause: unknown) => {
        interruption = { cause };
        throw new Error('The body was interrupted');
      });
      if (done === true) break;
      let start = 0;
      while (isInHeader && start < value.length) isInHeader = header.next(value[start++] ?? 0).done !== true;
      const chunk = value.subarray(start);
      trailer = Buffer.concat([trailer, chunk.subarray(-trailerBytes)]).subarray(-trailerBytes);
      given += chunk.length;
      if (hasEnded) assertNoSurplus();
      else if (chunk.length > 0 && !inflate.write(chunk)) {
        // A stream that has reached its end takes nothing more.
        await Promise.race([once(inflate, 'drain'), ended.promise]);
      }
    }
    inflate.end();
  }

  let crc = 0;
  let size = 0;
  try {
    const fed = feed();
    fed.catch((error: Error) => inflate.destroy(error));
    for await (const chunk of inflate as AsyncIterable<Uint8Array>) {
      size += chunk.length;
      if (size > minBombBytes && size > maxRatio * inflate.bytesWritten) {
        throw new Error(
          `it expands to more than ${maxRatio} times its size. If its reports are alike, set compression to false`,
        );
      }
      crc = zlib.crc32(chunk, crc);
      yield chunk;
    }
    hasEnded = true;
    ended.resolve();
    await fed;
    assertNoSurplus();
    if (surplus() < 0) throw Object.assign(new Error('unexpected end'), { code: truncation });
    if (trailer.readUInt32LE(0) !== crc) throw new Error('its checksum is wrong');
    if (trailer.readUInt32LE(4) !== size % 2 ** 32) throw new Error('its length is wrong');
  } catch (error) {
    throw interruption === undefined ? decodingError(context, error) : interruption.cause;
  } finally {
    inflate.destroy();
  }
}

/** A body without its end may be due to a connection that was closed, before a proxy for example. That is retried for longer. */
function decodingError(context: ErrorContext, error: unknown): Error {
  const { message, code } = error as Error & { readonly code?: string };
  if (code !== truncation) return contractError(context, `not a valid body in gzip (${message})`);
  const problem = `${context.server.name} sent a body in gzip without its end for ${context.label}`;
  return failure(context, 'ServiceUnavailableError', problem, { cause: error });
}

/** RFC 1952, section 2.3. Receives one byte after the other, and returns after the last one. */
function* readHeader(): Generator<undefined, void, number> {
  for (const expected of [0x1f, 0x8b, 8]) if ((yield) !== expected) throw new Error('incorrect header');
  const flags = yield;
  if (flags > 31) throw new Error('unknown flags');
  const [hasCrc, hasExtra, hasName, hasComment] = [2, 4, 8, 16].map((flag) => (flags & flag) !== 0);
  for (let rest = 6; rest > 0; rest -= 1) yield;
  if (hasExtra) for (let length = (yield) + (yield) * 256; length > 0; length -= 1) yield;
  for (const hasText of [hasName, hasComment]) while (hasText && (yield) !== 0);
  for (let rest = hasCrc ? 2 : 0; rest > 0; rest -= 1) yield;
}
