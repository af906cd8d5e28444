/** Streams a page's body while it decodes, counts, limits and checks the bytes. Never holds a whole page in memory. */

import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Dispatcher } from 'undici';
import type { PageCheck } from '../formats/formats.ts';
import { type ContentEncoding, type CreateInflate, decode } from './content-encoding.ts';
import { excerptOf, maxBytes as maxExcerptBytes } from './error-body.ts';
import { contractError, type Subject } from './errors.ts';
import { pageTooLarge } from './response-headers.ts';

interface BodyOptions<Facts> {
  readonly subject: Subject;
  /** undefined: the body was sent as it is. */
  readonly encoding: ContentEncoding | undefined;
  readonly inflate: CreateInflate | undefined;
  readonly maxPageBytes: number;
  /** Called when the body has ended; throws if the trailers contain a header that belongs before the body. */
  readonly assertTrailers: () => void;
  /** Its problems quote names without the API key. undefined: the body is passed through unchecked. */
  readonly check: PageCheck | undefined;
  /** Called when the document is complete. Returns what is known of it; throws if it is no page. */
  readonly complete: (body: ReadBody) => Facts;
  /** Turns an error of the connection, after that many bytes were received, into the error to throw. */
  readonly translate: (error: unknown, bytesRead: number) => unknown;
}

interface ReadBody {
  /** How many bytes of it were received, as they were sent. */
  readonly transferredBytes: number;
  /** How it begins: short, printable and without secrets. */
  readonly excerpt: () => string;
}

interface PageBody<Facts> {
  /** To be read once. Ends normally only after a complete body, which is a page of its format. */
  readonly chunks: AsyncIterable<Uint8Array>;
  /** What `complete` has returned. @throws Error if the body has not ended normally */
  received(): Facts;
}

/** When reading stops for any reason, even before it starts, the response is destroyed and its connection released. */
export function createPageBody<Facts>(
  response: Dispatcher.ResponseData['body'],
  options: BodyOptions<Facts>,
): PageBody<Facts> {
  const { label } = options.subject;
  let isTaken = false;
  let ended: { readonly facts: Facts } | undefined;
  const iterator = (): AsyncIterator<Uint8Array> => {
    // A second reader would find nothing, which must not pass for an empty page.
    if (isTaken) throw new Error(`The body of ${label} can be read only once`);
    isTaken = true;
    const chunks = readChecked(response, options, (facts) => {
      ended = { facts };
    });
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
    received() {
      if (ended === undefined) throw new Error(`Read the body of ${label} to its end first`);
      return ended.facts;
    },
  };
}

async function* readChecked<Facts>(
  response: Dispatcher.ResponseData['body'],
  { subject, encoding, inflate, maxPageBytes, assertTrailers, check, complete, translate }: BodyOptions<Facts>,
  onEnd: (facts: Facts) => void,
): AsyncGenerator<Uint8Array, void, void> {
  let bytes = 0;
  let transferredBytes = 0;
  let beginning: Uint8Array = new Uint8Array(0);
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
      throw translate(error, transferredBytes);
    });
    if (result.done !== true) {
      transferredBytes += result.value.length;
      // A compressed body may be long without any content.
      assertSmallEnough(transferredBytes);
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
      const missing = maxExcerptBytes - beginning.length;
      if (missing > 0) beginning = Buffer.concat([beginning, chunk.subarray(0, missing)]);
      assertNoProblem(check?.push(chunk));
      yield chunk;
    }
    assertTrailers();
    assertNoProblem(check?.end());
    const excerpt = () => excerptOf(beginning, bytes <= maxExcerptBytes, subject.keys);
    onEnd(complete({ transferredBytes, excerpt }));
  } finally {
    response.destroy();
    if ('return' in chunks) await chunks.return();
  }
}
