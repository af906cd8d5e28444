/**
 * Puts an answer on the wire, as a fault wants it. node:http writes header lines in the order and case it is given, once
 * it is given them as one flat list; the connection itself is ended here where a fault says so.
 */

import { createHash } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Fault } from './faults.ts';
import type { Exchange } from './handler.ts';
import type { Answer, Headers } from './response.ts';

interface Delivered {
  readonly facts: Pick<Exchange, 'bytes' | 'sha256' | 'whole' | 'problem'>;
  /** Sends the last piece and ends the response, or breaks it off. */
  finish(): void | Promise<void>;
}
type Chunks = Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

/**
 * Writes the answer but for its last piece, and never throws. Sending that is left to `finish`, so that the exchange can
 * be noted before the client can know that it is over.
 */
export async function deliver(
  response: ServerResponse,
  answer: Answer,
  { cut, drip, framing }: Pick<Fault, 'framing' | 'drip' | 'cut'>,
  signal: AbortSignal,
): Promise<Delivered> {
  const hash = createHash('sha256');
  let bytes = 0;
  let last: Uint8Array | undefined;
  async function* allButTheLast(chunks: Chunks) {
    for await (const chunk of chunks) {
      bytes += chunk.length;
      hash.update(chunk);
      if (last !== undefined) yield last;
      last = chunk;
    }
  }
  const facts = (whole: boolean) => ({ bytes, sha256: hash.digest('hex'), whole });
  const breakOff = () => void (cut?.by === 'reset' ? response.socket?.resetAndDestroy() : response.socket?.destroy());
  if (cut?.at === 'start') return { facts: facts(false), finish: breakOff };

  try {
    writeHead(response, answer, framing);
    let chunks: Chunks = answer.body();
    if (cut !== undefined) chunks = upTo(cut.at, chunks);
    if (drip !== undefined) {
      response.flushHeaders();
      chunks = inPieces(chunks, drip, signal);
    }
    await pipeline(allButTheLast(chunks), response, { end: false });
  } catch (problem) {
    return { facts: { ...facts(false), problem }, finish: () => void response.destroy() };
  }
  if (cut === undefined) return { facts: facts(true), finish: () => void response.end(last) };
  return { facts: facts(false), finish: () => flushed(response, last).then(breakOff) };
}

function writeHead(response: ServerResponse, answer: Answer, framing: Fault['framing']): void {
  response.sendDate = false;
  const headers: Headers = framing === 'close' ? [...answer.headers, ['connection', 'close']] : answer.headers;
  if (framing === 'close') response.useChunkedEncodingByDefault = false;
  // Header values go out as Latin-1, one byte a character: this makes them UTF-8 on the wire.
  const flat = headers.flatMap(([name, value]) => [name, Buffer.from(value).toString('latin1')]);
  response.writeHead(answer.status, flat);
}

/** Resolves once the headers, everything written so far and `last` have left this process, or never can. */
function flushed(response: ServerResponse, last: Uint8Array = Buffer.of()): Promise<void> {
  return new Promise((resolve) => {
    response.once('close', resolve);
    response.write(last, () => resolve());
  });
}

async function* upTo(limit: number, chunks: Chunks): AsyncGenerator<Uint8Array> {
  let left = limit;
  if (left === 0) return;
  for await (const chunk of chunks) {
    yield chunk.subarray(0, left);
    left -= Math.min(left, chunk.length);
    if (left === 0) return;
  }
}

async function* inPieces(chunks: Chunks, { bytes, everyMs }: NonNullable<Fault['drip']>, signal: AbortSignal) {
  for await (const chunk of chunks) {
    for (let start = 0; start < chunk.length; start += bytes) {
      yield chunk.subarray(start, start + bytes);
      await sleep(everyMs, undefined, { signal });
    }
  }
}
