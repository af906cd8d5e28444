/** Reads a small body ahead of the page, as only the body may say, for example, that the token has expired. */

import { gunzipSync } from 'node:zlib';
import type { Exchange, Response } from '../exchange.ts';

/** A longer body is a page. */
export const maxPeekBytes = 64 * 1024;

/** A response whose body can be read again. `bytes` is the decoded body; undefined if it is too long or invalid. */
export interface Peeked {
  readonly response: Response;
  readonly bytes: Uint8Array | undefined;
}

export async function peek(exchange: Exchange, response: Response): Promise<Peeked> {
  const iterator: AsyncIterator<Uint8Array> = response.body[Symbol.asyncIterator]();
  const chunks: Uint8Array[] = [];
  let length = 0;
  let isWhole = false;
  while (length <= maxPeekBytes && !isWhole) {
    const { done, value } = await iterator.next().catch((error: unknown) => {
      throw exchange.explain(error, length);
    });
    isWhole = done === true;
    if (done !== true) {
      chunks.push(value);
      length += value.length;
    }
  }
  const beginning = chunks.values();
  const body = {
    [Symbol.asyncIterator]: () => ({
      async next(): Promise<IteratorResult<Uint8Array>> {
        const { done, value } = beginning.next();
        return done === true ? await iterator.next() : { done: false, value };
      },
    }),
    destroy: () => response.body.destroy(),
  };
  const replayed = { ...response, body: body as unknown as Response['body'] };
  return { response: replayed, bytes: isWhole ? decode(Buffer.concat(chunks), response.headers) : undefined };
}

function decode(bytes: Buffer, headers: Response['headers']): Uint8Array | undefined {
  if (headers['content-encoding'] === undefined) return bytes;
  try {
    return gunzipSync(bytes, { maxOutputLength: maxPeekBytes });
  } catch {
    // An invalid body is reported where the page is read.
    return undefined;
  }
}
