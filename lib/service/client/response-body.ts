/** Streams a page's body while it decodes, counts, limits and checks the bytes. Never holds a whole page in memory. */

import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Dispatcher } from 'undici';
import type { FetchOptions } from '../../core/ports.ts';
import type { PageCheck } from '../formats/formats.ts';
import { type ContentEncoding, type CreateInflate, decode } from './content-encoding.ts';
import { excerptOf, maxBytes as maxExcerptBytes } from './error-body.ts';
import { contractError, type ErrorContext } from './errors.ts';
import { pageTooLarge } from './response-headers.ts';

interface BodyOptions {
  readonly subject: ErrorContext;
  readonly sink: FetchOptions['sink'];
  /** undefined: the body was sent as it is. */
  readonly encoding: ContentEncoding | undefined;
  readonly inflate: CreateInflate | undefined;
  readonly maxPageBytes: number;
  /** Its problems quote names without the API key. undefined: the body is passed through unchecked. */
  readonly check: PageCheck | undefined;
  /** Turns an error of the connection, after that many bytes were received, into the error to throw. */
  readonly translate: (error: unknown, bytesRead: number) => unknown;
}

interface ReadBody {
  /** How many bytes of it were received, as they were sent. */
  readonly transferredBytes: number;
  /** How it begins: short, printable and without secrets. */
  readonly excerpt: () => string;
}

/** Passes the body to `sink`. Resolves once it has all of it, and it is complete. @throws errors of `sink` unchanged */
export async function readBody(
  response: Dispatcher.ResponseData['body'],
  { subject, sink, encoding, inflate, maxPageBytes, check, translate }: BodyOptions,
): Promise<ReadBody> {
  let bytes = 0;
  let transferredBytes = 0;
  let beginning: Uint8Array = new Uint8Array(0);
  let hasEnded = false;
  const assertSmallEnough = (count: number) => {
    if (count > maxPageBytes) throw pageTooLarge(subject, `more than ${maxPageBytes} bytes`, maxPageBytes);
  };
  const assertNoProblem = (problem: string | undefined) => {
    if (problem !== undefined) throw contractError(subject, `not a ${check?.document} (${problem})`);
  };

  async function* encodedChunks(): AsyncGenerator<Uint8Array, void, void> {
    try {
      for await (const chunk of response as AsyncIterable<Uint8Array>) {
        transferredBytes += chunk.length;
        // A compressed body may be long without any content.
        assertSmallEnough(transferredBytes);
        yield chunk;
      }
    } catch (error) {
      throw translate(error, transferredBytes);
    }
  }

  async function* chunks(): AsyncGenerator<Uint8Array, void, void> {
    // The headers of this page let the caller request the next one. Before undici reuses a connection, it waits one turn of the
    // event loop to see whether the service has closed it. Work on this body in that turn would delay the request by
    // milliseconds, page after page.
    await nextTurn();
    await nextTurn();
    const encoded = encodedChunks();
    for await (const chunk of encoding === undefined
      ? encoded
      : decode(subject, encoding, () => encoded.next(), inflate)) {
      bytes += chunk.length;
      assertSmallEnough(bytes);
      const missing = maxExcerptBytes - beginning.length;
      if (missing > 0) beginning = Buffer.concat([beginning, chunk.subarray(0, missing)]);
      assertNoProblem(check?.push(chunk));
      yield chunk;
    }
    assertNoProblem(check?.end());
    hasEnded = true;
  }

  await sink(chunks());
  // Such as a sink that has read another iteration.
  if (!hasEnded) throw new Error(`The body of ${subject.label} was not read to its end`);
  return { transferredBytes, excerpt: () => excerptOf(beginning, bytes <= maxExcerptBytes, subject.keys) };
}
