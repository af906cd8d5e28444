/** Reads the beginning of an error response's body for the error message. */

import type { Dispatcher } from 'undici';
import type { Clock } from '../../core/ports.ts';
import { toPrintable, truncate } from '../../core/sanitize.ts';
import { containsPart, redacted } from '../redaction/redact.ts';
import { decodable, decode, readContentEncoding } from './content-encoding.ts';
import type { ErrorContext } from './errors.ts';
import { type Header, mediaType } from './response-headers.ts';

export const maxBytes = 4 * 1024;
/** Of a compressed body, which may be long without any content. */
const maxReceivedBytes = 64 * 1024;
const maxReadMs = 2_000;
const maxExcerptLength = 200;
/** How long the beginning of a key can be, in any encoding, without being recognized. */
const maxUnrecognizedLength = 512;

type Response = Pick<Dispatcher.ResponseData, 'headers' | 'body'>;

/**
 * Up to 200 characters of a text body, on one line; or that it is redacted, because what was read contains the API key.
 * Empty for any other body. Never throws. Afterwards the body is consumed, or destroyed together with its connection.
 */
export async function readExcerpt(
  subject: ErrorContext,
  response: Response,
  clock: Pick<Clock, 'sleep'>,
): Promise<string> {
  const { bytes, isWhole } = await readFirstBytes(subject, response, clock);
  return isText(response.headers['content-type']) ? excerptOf(bytes, isWhole, subject.keys) : '';
}

/** Of a body that begins with `bytes`. */
export function excerptOf(bytes: Uint8Array, isWhole: boolean, keys: ReadonlySet<string>): string {
  const text = new TextDecoder().decode(bytes);
  if (containsPart(text, keys)) return redacted;
  const shown = isWhole ? text : text.slice(0, -maxUnrecognizedLength);
  return truncate(toPrintable(shown).trim(), maxExcerptLength);
}

async function readFirstBytes(
  subject: ErrorContext,
  response: Response,
  { sleep }: Pick<Clock, 'sleep'>,
): Promise<{ bytes: Buffer; isWhole: boolean }> {
  const { body } = response;
  const chunks: Uint8Array[] = [];
  let length = 0;
  const timer = new AbortController();
  sleep(maxReadMs, timer.signal).then(
    () => body.destroy(),
    () => {},
  );
  const firstBytes = () => Buffer.concat(chunks).subarray(0, maxBytes);
  try {
    for await (const chunk of decoded(subject, response)) {
      chunks.push(chunk);
      length += chunk.length;
      if (length > maxBytes) break;
    }
    return { bytes: firstBytes(), isWhole: length <= maxBytes };
  } catch {
    // The status is what matters. A truncated explanation is not worth another error.
    return { bytes: firstBytes(), isWhole: false };
  } finally {
    timer.abort();
    body.destroy();
  }
}

/** @throws ContractError if this encoding cannot be decoded. The request need not have asked for it */
async function* decoded(subject: ErrorContext, { headers, body }: Response): AsyncGenerator<Uint8Array, void, void> {
  const encoding = readContentEncoding(subject, headers['content-encoding'], decodable);
  const received: AsyncIterator<Uint8Array> = body[Symbol.asyncIterator]();
  let bytes = 0;
  const next = async (): Promise<IteratorResult<Uint8Array>> => {
    if (bytes > maxReceivedBytes) return { done: true, value: undefined };
    const result = await received.next();
    if (result.done !== true) bytes += result.value.length;
    return result;
  };
  if (encoding === undefined) yield* body;
  else yield* decode(subject, encoding, next);
}

function isText(contentType: Header): boolean {
  return /^(text\/.+|application\/(.+\+)?(json|xml))$/.test(mediaType(contentType)?.essence ?? '');
}
