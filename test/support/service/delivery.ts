/**
 * Sends a prepared response, with the faults that concern the connection. node:http sends header lines in the given order
 * and case only if it receives them as one flat list.
 */

import { createHash } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Fault } from './faults.ts';
import type { Chunks, PreparedResponse } from '../../../lib/service/simulator/response.ts';

/** What was sent of a response body. */
export interface Delivery {
  /** Bytes written to the connection, and their SHA-256 in lower-case hexadecimal. */
  readonly bytes: number;
  readonly sha256: string;
  /** False if a fault, the client or an unreadable report ended the response early. */
  readonly isComplete: boolean;
  /** Why the response is incomplete without a scripted fault, or the cause of a 500. */
  readonly error?: unknown;
}

interface PendingDelivery {
  readonly delivery: Delivery;
  /** Sends the last chunk and ends the response, or closes the connection early. */
  readonly finish: () => void | Promise<void>;
}

/**
 * Sends everything except the last chunk, and never throws. `finish` sends the rest, so that the caller can record the
 * exchange before the client can see the end of the response.
 */
export async function deliver(
  response: ServerResponse,
  prepared: PreparedResponse,
  { disconnect, trickle, framing }: Pick<Fault, 'framing' | 'trickle' | 'disconnect'>,
  signal: AbortSignal,
): Promise<PendingDelivery> {
  const hash = createHash('sha256');
  let bytes = 0;
  let lastChunk: Uint8Array | undefined;
  async function* allButLast(chunks: Chunks) {
    for await (const chunk of chunks) {
      bytes += chunk.length;
      hash.update(chunk);
      if (lastChunk !== undefined) yield lastChunk;
      lastChunk = chunk;
    }
  }
  const deliveryOf = (isComplete: boolean) => ({ bytes, sha256: hash.digest('hex'), isComplete });
  const closeConnection = () =>
    void (disconnect?.by === 'reset' ? response.socket?.resetAndDestroy() : response.socket?.destroy());
  if (disconnect?.at === 'start') return { delivery: deliveryOf(false), finish: closeConnection };

  try {
    writeHead(response, prepared, framing);
    let chunks: Chunks = prepared.body();
    if (disconnect !== undefined) chunks = limited(chunks, disconnect.at);
    if (trickle !== undefined) {
      response.flushHeaders();
      chunks = trickled(chunks, trickle, signal);
    }
    await pipeline(allButLast(chunks), response, { end: false });
  } catch (error) {
    return { delivery: { ...deliveryOf(false), error }, finish: () => void response.destroy() };
  }
  if (disconnect === undefined) return { delivery: deliveryOf(true), finish: () => void response.end(lastChunk) };
  return { delivery: deliveryOf(false), finish: () => flush(response, lastChunk).then(closeConnection) };
}

function writeHead(response: ServerResponse, { status, headers }: PreparedResponse, framing: Fault['framing']): void {
  response.sendDate = false;
  if (framing === 'close') response.useChunkedEncodingByDefault = false;
  const lines = framing === 'close' ? [...headers, ['connection', 'close'] as const] : headers;
  // Node sends header values as Latin-1, one byte per character. This sends UTF-8 instead.
  const flat = lines.flatMap(([name, value]) => [name, Buffer.from(value).toString('latin1')]);
  response.writeHead(status, flat);
}

async function* limited(chunks: Chunks, maxBytes: number): AsyncGenerator<Uint8Array> {
  let remaining = maxBytes;
  if (remaining === 0) return;
  for await (const chunk of chunks) {
    yield chunk.subarray(0, remaining);
    remaining -= Math.min(remaining, chunk.length);
    if (remaining === 0) return;
  }
}

async function* trickled(chunks: Chunks, { bytes, everyMs }: NonNullable<Fault['trickle']>, signal: AbortSignal) {
  for await (const chunk of chunks) {
    for (let start = 0; start < chunk.length; start += bytes) {
      yield chunk.subarray(start, start + bytes);
      await sleep(everyMs, undefined, { signal });
    }
  }
}

/** Resolves once headers, body and `lastChunk` have left this process, or the connection is closed. */
function flush(response: ServerResponse, lastChunk: Uint8Array = Buffer.of()): Promise<void> {
  return new Promise((resolve) => {
    response.once('close', resolve);
    response.write(lastChunk, () => resolve());
  });
}
