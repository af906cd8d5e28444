/** Streams a page's body while it counts, limits and checks the bytes. Never holds a whole page in memory. */

import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Dispatcher } from 'undici';
import type { XmlCheck } from '../xml/well-formedness.ts';
import { containsKey } from '../redaction/withhold.ts';
import { excerptOf, maxBytes as maxExcerptBytes } from './error-body.ts';
import { contractError, type Subject } from './errors.ts';
import { pageTooLarge } from './response-headers.ts';

interface BodyOptions {
  readonly subject: Subject;
  readonly maxPageBytes: number;
  /** Called when the body has ended; throws if the trailers contain a header that belongs before the body. */
  readonly assertTrailers: () => void;
  /** Its problems quote names without the API key. undefined: the body is not XML and is passed through unchecked. */
  readonly xmlCheck: XmlCheck | undefined;
  /** Turns an error of the connection, after that many bytes of the body, into the error to throw. */
  readonly translate: (error: unknown, bytesRead: number) => unknown;
}

interface PageBody {
  /** To be read once. Ends normally only after a complete body and, for XML, a single well-formed document. */
  readonly chunks: AsyncIterable<Uint8Array>;
  hasEnded(): boolean;
  /** Of what has been read. */
  excerpt(): string;
}

/** When reading stops for any reason, even before it starts, the response is destroyed and its connection released. */
export function createPageBody(response: Dispatcher.ResponseData['body'], options: BodyOptions): PageBody {
  let isTaken = false;
  let hasEnded = false;
  let beginning: Uint8Array = new Uint8Array(0);
  let bytes = 0;
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
    const chunks = readChecked(response, options, { onChunk, onEnd });
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
    excerpt: () => excerptOf(beginning, hasEnded && bytes <= maxExcerptBytes, options.subject.keys),
  };
}

async function* readChecked(
  response: Dispatcher.ResponseData['body'],
  { subject, maxPageBytes, assertTrailers, xmlCheck, translate }: BodyOptions,
  { onChunk, onEnd }: { readonly onChunk: (chunk: Uint8Array) => void; readonly onEnd: () => void },
): AsyncGenerator<Uint8Array, void, void> {
  let bytes = 0;
  // The headers of this page let the caller request the next one. Before undici reuses a connection, it waits one turn of the
  // event loop to see whether the service has closed it. Work on this body in that turn would delay the request by
  // milliseconds, page after page.
  await nextTurn();
  await nextTurn();
  const received: AsyncIterator<Uint8Array> = response[Symbol.asyncIterator]();
  try {
    for (;;) {
      const { done, value: chunk } = await received.next().catch((error: unknown) => {
        throw translate(error, bytes);
      });
      if (done === true) break;
      bytes += chunk.length;
      if (bytes > maxPageBytes) throw pageTooLarge(subject, `more than ${maxPageBytes} bytes`, maxPageBytes);
      onChunk(chunk);
      assertWellFormed(subject, xmlCheck?.push(chunk));
      yield chunk;
    }
    assertTrailers();
    assertWellFormed(subject, xmlCheck?.end());
    // The name is stored with the page.
    if (xmlCheck !== undefined && containsKey(xmlCheck.rootName, subject.keys)) {
      throw contractError(subject, 'the name of the root element contains the API key');
    }
    onEnd();
  } finally {
    response.destroy();
  }
}

function assertWellFormed(subject: Subject, problem: string | undefined): void {
  if (problem === undefined) return;
  throw contractError(subject, `not a well-formed XML document (${problem})`);
}
