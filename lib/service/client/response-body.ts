/** Streams a page's body while it decodes, counts, limits and checks the bytes. Never holds a whole page in memory. */

import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Dispatcher } from 'undici';
import type { PageCheck } from '../formats/formats.ts';
import { type ContentEncoding, type CreateInflate, decode } from './content-encoding.ts';
import { excerptOf, maxBytes as maxExcerptBytes } from './error-body.ts';
import { contractError, type Subject } from './errors.ts';
import { pageTooLarge } from './response-headers.ts';

interface BodyOptions {
  readonly subject: Subject;
  /** undefined: the body was sent as it is. */
  readonly encoding: ContentEncoding | undefined;
  readonly inflate: CreateInflate | undefined;
  readonly maxPageBytes: number;
  /** Called when the body has ended; throws if the trailers contain a header that belongs before the body. */
  readonly assertTrailers: () => void;
  /** Its problems quote names without the API key. undefined: the body is passed through unchecked. */
  readonly check: PageCheck | undefined;
  /** Called when the document is complete; throws if it is no page. */
  readonly assertPage: () => void;
  /** Turns an error of the connection, after that many bytes were received, into the error to throw. */
  readonly translate: (error: unknown, bytesRead: number) => unknown;
}

interface PageBody {
  /** To be read once. Ends normally only after a complete body, which is a page of its format. */
  readonly chunks: AsyncIterable<Uint8Array>;
  hasEnded(): boolean;
  /** How many bytes of it were received, as they were sent. */
  transferredBytes(): number;
  /** Of what has been read. */
  excerpt(): string;
}

/** When reading stops for any reason, even before it starts, the response is destroyed and its connection released. */
export function createPageBody(response: Dispatcher.ResponseData['body'], options: BodyOptions): PageBody {
  let isTaken = false;
  let hasEnded = false;
  let beginning: Uint8Array = new Uint8Array(0);
  let bytes = 0;
  let transferredBytes = 0;
  const onReceived = (chunk: Uint8Array) => {
    transferredBytes += chunk.length;
  };
  const onChunk = (chunk: Uint8Array) => {
    bytes += chunk.length;
    const missing = maxExcerptBytes - beginning.length;
    if (missing > 0) beginning = Buffer.concat([beginning, chunk.subarray(0, missing)]);
  };
  const iterator = (): AsyncIterator<Uint8Array> => {
    // A second reader would find nothing, which must not pass for an empty page.
    if (isTaken) throw new Error(`The body of ${options.subject.label} can be read only once`);
    isTaken = true;
    const onEnd = () => {
      hasEnded = true;
    };
    const chunks = readChecked(response, options, { onReceived, onChunk, onEnd });
    return {
      next: () => chunks.next(),
      async return() {
        // A generator that has not started does not run its finally block.
        response.destroy();
        return chunks.return();
      },
    };
  };
  return {
    chunks: { [Symbol.asyncIterator]: iterator },
    hasEnded: () => hasEnded,
    transferredBytes: () => transferredBytes,
    excerpt: () => excerptOf(beginning, hasEnded && bytes <= maxExcerptBytes, options.subject.keys),
  };
}

interface Observers {
  readonly onReceived: (chunk: Uint8Array) => void;
  readonly onChunk: (chunk: Uint8Array) => void;
  readonly onEnd: () => void;
}

async function* readChecked(
  response: Dispatcher.ResponseData['body'],
  { subject, encoding, inflate, maxPageBytes, assertTrailers, check, assertPage, translate }: BodyOptions,
  { onReceived, onChunk, onEnd }: Observers,
): AsyncGenerator<Uint8Array, void, void> {
  let bytes = 0;
  let receivedBytes = 0;
  const assertNoProblem = (problem: string | undefined) => {
    if (problem !== undefined) throw contractError(subject, `not a ${check?.document} (${problem})`);
  };
  const assertSmallEnough = (count: number) => {
    if (count > maxPageBytes) throw pageTooLarge(subject, `more than ${maxPageBytes} bytes`, maxPageBytes);
  };
  // The headers of this page let the caller request the next one. Before undici reuses a connection, it waits one turn of the
  // event loop to see whether the service has closed it. Work on this body in that turn would delay the request by
  // milliseconds, page after page.
  await nextTurn();
  await nextTurn();
  const received: AsyncIterator<Uint8Array> = response[Symbol.asyncIterator]();
  const next = async () => {
    const result = await received.next().catch((error: unknown) => {
      throw translate(error, receivedBytes);
    });
    if (result.done !== true) {
      receivedBytes += result.value.length;
      // A compressed body may be long without any content.
      assertSmallEnough(receivedBytes);
      onReceived(result.value);
    }
    return result;
  };
  const chunks = encoding === undefined ? { next } : decode(subject, encoding, next, inflate);
  try {
    for (;;) {
      const { done, value: chunk } = await chunks.next();
      if (done === true) break;
      bytes += chunk.length;
      assertSmallEnough(bytes);
      onChunk(chunk);
      assertNoProblem(check?.push(chunk));
      yield chunk;
    }
    assertTrailers();
    assertNoProblem(check?.end());
    assertPage();
    onEnd();
  } finally {
    response.destroy();
    if ('return' in chunks) await chunks.return();
  }
}
