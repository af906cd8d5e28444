/** A page's bytes on their way through: counted, capped, checked, and never held whole. */

import type { Dispatcher } from 'undici';
import { presentable } from '../redaction/redact.ts';
import type { XmlCheck } from '../xml/well-formedness.ts';
import { failure, type Subject } from './errors.ts';
import { tooLarge } from './response-headers.ts';

interface Passage {
  readonly subject: Subject;
  readonly maxPageBytes: number;
  /** Called once the body has ended; throws for headers after the last chunk that should have come before it. */
  readonly refuseTrailers: () => void;
  /** undefined: the bytes are not XML and go through as they are. */
  readonly xmlCheck: XmlCheck | undefined;
  /** The error to throw for one of the connection's, so many bytes into the body. */
  readonly translate: (error: unknown, bytesRead: number) => unknown;
}

/**
 * The body, to be read once. Ends normally only after a complete body and, for XML, one whole document. However the
 * reading stops, even before it began, the response is destroyed and its connection does not linger.
 */
export function pageBody(
  response: Dispatcher.ResponseData['body'],
  passage: Passage,
): { readonly body: AsyncIterable<Uint8Array>; hasEnded(): boolean } {
  let isTaken = false;
  let hasEnded = false;
  const iterator = (): AsyncIterator<Uint8Array> => {
    // A second reading would find nothing, and nothing must not pass for an empty page.
    if (isTaken) throw new Error(`The body of ${passage.subject.label} can be read only once`);
    isTaken = true;
    const chunks = checked(response, passage, () => {
      hasEnded = true;
    });
    return {
      next: () => chunks.next(),
      async return() {
        // A generator that has not begun skips its own clean-up.
        response.destroy();
        return chunks.return();
      },
    };
  };
  return { body: { [Symbol.asyncIterator]: iterator }, hasEnded: () => hasEnded };
}

async function* checked(
  response: Dispatcher.ResponseData['body'],
  { subject, maxPageBytes, refuseTrailers, xmlCheck, translate }: Passage,
  onEnd: () => void,
): AsyncGenerator<Uint8Array, void, void> {
  let bytes = 0;
  const received: AsyncIterator<Uint8Array> = response[Symbol.asyncIterator]();
  try {
    for (;;) {
      const { done, value: chunk } = await received.next().catch((error: unknown) => {
        throw translate(error, bytes);
      });
      if (done === true) break;
      bytes += chunk.length;
      if (bytes > maxPageBytes) throw tooLarge(subject, maxPageBytes);
      refuse(subject, xmlCheck?.push(chunk));
      yield chunk;
    }
    refuseTrailers();
    refuse(subject, xmlCheck?.end());
    onEnd();
  } finally {
    response.destroy();
  }
}

function refuse(subject: Subject, problem: string | undefined): void {
  if (problem === undefined) return;
  throw failure(
    subject,
    'ContractError',
    `Report service answered ${subject.label} with no whole well-formed XML document (${presentable(problem, subject.keys, 200)}): ` +
      'it is tried again a little, in case it was a glitch',
  );
}
