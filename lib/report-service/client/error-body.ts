/** Reads what an error answer has to say, for the person who must find out; only a little of it, and not for long. */

import type { Dispatcher } from 'undici';
import type { Clock } from '../../core/ports.ts';
import { truncate } from '../../core/sanitize.ts';
import { maxOccurrenceLength, presentable } from '../redaction/redact.ts';
import { type Header, isIdentity, mediaType } from './response-headers.ts';

const maxBytes = 4 * 1024;
const maxMs = 2_000;
const maxCharacters = 200;

/**
 * Up to 200 characters of a body that calls itself text, on one line and without the API key; otherwise the empty string.
 * Never throws. Afterwards the body is read to its end, or destroyed and its connection with it.
 */
export async function excerptOf(
  { headers, body }: Pick<Dispatcher.ResponseData, 'headers' | 'body'>,
  keys: ReadonlySet<string>,
  clock: Pick<Clock, 'sleep'>,
): Promise<string> {
  const { bytes, whole } = await firstBytes(body, clock);
  if (!isIdentity(headers['content-encoding']) || !isText(headers['content-type'])) return '';
  const plain = presentable(new TextDecoder().decode(bytes), keys, Number.POSITIVE_INFINITY);
  // A key cut off by our own limit is not known for one any more, so nothing of that length is kept before the limit.
  const known = whole ? plain : plain.slice(0, Math.max(0, plain.length - maxOccurrenceLength(keys)));
  return truncate(known.trim(), maxCharacters);
}

async function firstBytes(
  body: Dispatcher.ResponseData['body'],
  { sleep }: Pick<Clock, 'sleep'>,
): Promise<{ bytes: Buffer; whole: boolean }> {
  const chunks: Buffer[] = [];
  let length = 0;
  const done = new AbortController();
  sleep(maxMs, done.signal).then(
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
    return { bytes: Buffer.concat(chunks).subarray(0, maxBytes), whole: length <= maxBytes };
  } catch {
    // The status is known; that its explanation broke off is not worth another error.
    return { bytes: Buffer.concat(chunks), whole: false };
  } finally {
    done.abort();
  }
}

function isText(contentType: Header): boolean {
  return /^(text\/.+|application\/(.+\+)?(json|xml))$/.test(mediaType(contentType)?.essence ?? '');
}
