/** Reads the beginning of an error response's body for the error message. */

import type { Dispatcher } from 'undici';
import type { Clock } from '../../core/ports.ts';
import { toPrintable, truncate } from '../../core/sanitize.ts';
import { containsPart, withheld } from '../redaction/withhold.ts';
import { type Header, isIdentity, mediaType } from './response-headers.ts';

export const maxBytes = 4 * 1024;
const maxReadMs = 2_000;
const maxExcerptLength = 200;
/** How long the beginning of a key can be, in any encoding, without being recognized. */
const maxUnrecognizedLength = 512;

/**
 * Up to 200 characters of a text body, on one line; or that it is withheld, because what was read contains the API key.
 * Empty for any other body. Never throws. Afterwards the body is consumed, or destroyed together with its connection.
 */
export async function readExcerpt(
  { headers, body }: Pick<Dispatcher.ResponseData, 'headers' | 'body'>,
  keys: ReadonlySet<string>,
  clock: Pick<Clock, 'sleep'>,
): Promise<string> {
  const { bytes, isWhole } = await readFirstBytes(body, clock);
  if (!isIdentity(headers['content-encoding']) || !isText(headers['content-type'])) return '';
  return excerptOf(bytes, isWhole, keys);
}

/** Of a body that begins with `bytes`. */
export function excerptOf(bytes: Uint8Array, isWhole: boolean, keys: ReadonlySet<string>): string {
  const text = new TextDecoder().decode(bytes);
  if (containsPart(text, keys)) return withheld;
  const shown = isWhole ? text : text.slice(0, -maxUnrecognizedLength);
  return truncate(toPrintable(shown).trim(), maxExcerptLength);
}

async function readFirstBytes(
  body: Dispatcher.ResponseData['body'],
  { sleep }: Pick<Clock, 'sleep'>,
): Promise<{ bytes: Buffer; isWhole: boolean }> {
  const chunks: Buffer[] = [];
  let length = 0;
  const timer = new AbortController();
  sleep(maxReadMs, timer.signal).then(
    () => body.destroy(),
    () => {},
  );
  try {
    // Leaving the loop early destroys the body.
    for await (const chunk of body) {
      chunks.push(chunk);
      length += chunk.length;
      if (length > maxBytes) break;
    }
    return { bytes: Buffer.concat(chunks).subarray(0, maxBytes), isWhole: length <= maxBytes };
  } catch {
    // The status is what matters. A truncated explanation is not worth another error.
    return { bytes: Buffer.concat(chunks), isWhole: false };
  } finally {
    timer.abort();
  }
}

function isText(contentType: Header): boolean {
  return /^(text\/.+|application\/(.+\+)?(json|xml))$/.test(mediaType(contentType)?.essence ?? '');
}
