/**
 * Decodes pages in gzip (docs/service-contract.md, section 2.3) while they are received, as fast as they are read.
 *
 * A body is valid only if it is exactly one complete member of gzip: a body of several that is cut off between two of
 * them would look complete. Node.js 24 rejects a second member, Node.js 22 does not. So the checksum is compared here.
 */

import { once } from 'node:events';
import type { Transform } from 'node:stream';
import * as zlib from 'node:zlib';
import { isBomb, maxRatio } from '../../formats/format-check.ts';
import { contractError, type ErrorContext, failure } from '../errors.ts';
import { allValues, type Header, quote } from './response-headers.ts';

/**
 * Whether a body is in gzip; otherwise, it was sent as it is. `x-gzip` is another name of `gzip` (RFC 9110, section
 * 8.4.1.3). Some services give the charset instead of an encoding: `utf-8` is none.
 * @throws ContractError if it has another encoding, several, or gzip that is not accepted
 */
export function isInGzip(context: ErrorContext, contentEncoding: Header, isAccepted: boolean): boolean {
  const value = allValues(contentEncoding);
  if (/^(identity|utf-?8)?$/i.test(value)) return false;
  if (isAccepted && /^(x-)?gzip$/i.test(value)) return true;
  const expected = isAccepted ? 'identity, gzip' : 'identity';
  throw contractError(context, `content encoding ${quote(context, value)}; only ${expected} is accepted`);
}

/** Creates the stream that decompresses a body. */
export type CreateGunzip = () => Transform & { readonly bytesWritten: number };

const gunzipInThread: CreateGunzip = () => zlib.createGunzip({ chunkSize: 64 * 1024, rejectGarbageAfterEnd: true });

const trailerBytes = 8;
const truncation = 'Z_BUF_ERROR';
const continuation = 'ERR_TRAILING_JUNK_AFTER_STREAM_END';

/** An error of the connection, in place of one of the decoder. */
class Interruption extends Error {}

/**
 * What the decoder makes of a body, which `next` reads. Nothing is read before the first chunk is asked for, and never
 * much more than what was asked for. `hint` ends the error of a body that expands as only an attack does.
 * @throws Interruption if `next` rejects
 */
async function* decode(
  decoder: ReturnType<CreateGunzip>,
  next: () => Promise<IteratorResult<Uint8Array>>,
  hint = '',
): AsyncGenerator<Uint8Array, void, void> {
  // The decoder may fail after its last chunk has been read. Without a listener, that would end the process.
  decoder.on('error', () => {});
  const feed = async (): Promise<void> => {
    for (;;) {
      const { done, value } = await next().catch((cause: unknown) => {
        throw new Interruption('The body was interrupted', { cause });
      });
      if (done === true) break;
      if (!decoder.write(value)) await once(decoder, 'drain');
    }
    decoder.end();
  };
  let size = 0;
  try {
    feed().catch((error: Error) => decoder.destroy(error));
    for await (const chunk of decoder as AsyncIterable<Uint8Array>) {
      size += chunk.length;
      if (isBomb(size, decoder.bytesWritten))
        throw new Error(`it expands to more than ${maxRatio} times its size${hint}`);
      yield chunk;
    }
  } finally {
    decoder.destroy();
  }
}

/**
 * The decoded body. `next` reads the encoded one; its errors are thrown unchanged.
 * @throws ServiceUnavailableError if the body ends before the stream
 * @throws ContractError if the stream is damaged, is followed by anything, or expands as only an attack does
 */
export async function* gunzip(
  context: ErrorContext,
  next: () => Promise<IteratorResult<Uint8Array>>,
  createGunzip: CreateGunzip = gunzipInThread,
): AsyncGenerator<Uint8Array, void, void> {
  let trailer = Buffer.alloc(0);
  const read = async () => {
    const result = await next();
    if (result.done !== true)
      trailer = Buffer.concat([trailer, result.value.subarray(-trailerBytes)]).subarray(-trailerBytes);
    return result;
  };
  let crc = 0;
  try {
    for await (const chunk of decode(createGunzip(), read, '. If its reports are alike, set compression to false')) {
      crc = zlib.crc32(chunk, crc);
      yield chunk;
    }
    if (trailer.length < trailerBytes) throw Object.assign(new Error('unexpected end'), { code: truncation });
    if (trailer.readUInt32LE(0) !== crc) throw Object.assign(new Error(), { code: continuation });
  } catch (error) {
    throw error instanceof Interruption ? error.cause : decodingError(context, error);
  }
}

/**
 * The content of a file in gzip, which may have several members, one after the other. A file that does not begin as
 * gzip does is yielded as it is. That it is complete is known from its length: it may end between two members.
 * @throws ContractError if it is damaged, or expands as only an attack does; errors of `file` unchanged
 */
export async function* gunzipFile(
  context: ErrorContext,
  file: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void, void> {
  const chunks = file[Symbol.asyncIterator]();
  let beginning: Buffer = Buffer.alloc(0);
  let isOver = false;
  while (beginning.length < 2 && !isOver) {
    const { done, value } = await chunks.next();
    isOver = done === true;
    if (done !== true) beginning = Buffer.concat([beginning, value]);
  }
  async function* all(): AsyncGenerator<Uint8Array, void, void> {
    if (beginning.length > 0) yield beginning;
    if (!isOver) yield* { [Symbol.asyncIterator]: () => chunks };
  }
  if (beginning[0] === 0x1f && beginning[1] === 0x8b) yield* gunzipMembers(context, all());
  else yield* all();
}

/** zlib compares the checksum of each member, and refuses what follows the last one, except for zeros. */
async function* gunzipMembers(
  context: ErrorContext,
  members: AsyncGenerator<Uint8Array>,
): AsyncGenerator<Uint8Array, void, void> {
  const decoder = zlib.createGunzip({ chunkSize: 64 * 1024 });
  let received = 0;
  const read = async () => {
    const result = await members.next();
    if (result.done !== true) received += result.value.length;
    return result;
  };
  try {
    yield* decode(decoder, read);
    if (decoder.bytesWritten !== received) throw new Error('it continues after its end');
  } catch (error) {
    if (error instanceof Interruption) throw error.cause;
    throw contractError(context, `not a valid file in gzip (${(error as Error).message})`);
  } finally {
    // The body of the file may be in gzip, too. It is not waited for: it may stall.
    members.return(undefined).catch(() => {});
  }
}

/** A truncated body is retried for longer: a proxy may have closed the connection. */
function decodingError(context: ErrorContext, error: unknown): Error {
  const { message, code } = error as Error & { readonly code?: string };
  if (code === truncation) {
    const problem = `${context.server.name} sent a body in gzip without its end for ${context.label}`;
    return failure(context, 'ServiceUnavailableError', problem, { cause: error });
  }
  const reason = code === continuation ? 'it continues after its end' : message;
  return contractError(context, `not a valid body in gzip (${reason})`);
}
