/** Quotes the beginning of a response's body in messages. */

import type { Dispatcher } from 'undici';
import type { Clock } from '../../../core/ports.ts';
import { shorten, toPrintable } from '../../../core/sanitize.ts';
import { containsPart, redacted } from '../../redaction/redact.ts';
import type { ErrorContext } from '../errors.ts';
import { type CreateGunzip, gunzip, isInGzip } from './gzip.ts';
import { mediaType } from './response-headers.ts';

export const maxExcerptBytes = 4 * 1024;
/** The most bytes that are read of a compressed body: it may be long without any content. */
const maxReceivedBytes = 64 * 1024;
const maxReadMs = 2_000;
const maxExcerptLength = 200;
/** How long the beginning of a key can be, in any encoding, without being recognized. */
const maxUnrecognizedLength = 512;

type Response = Pick<Dispatcher.ResponseData, 'headers' | 'body'>;

/** The error code of an authorization server, and of many APIs. */
const errorCode = /"error"\s*:\s*"[a-z_]{1,40}"/;

/** The beginning of a body: up to 200 characters on one line; or its error code, if it contains the API key. */
export function excerptOf(bytes: Uint8Array, isWhole: boolean, keys: ReadonlySet<string>): string {
  const text = new TextDecoder().decode(bytes);
  if (containsPart(text, keys)) {
    const [code = ''] = errorCode.exec(text) ?? [];
    return code === '' || containsPart(code, keys) ? redacted : `${code} ${redacted}`;
  }
  const shown = isWhole ? text : text.slice(0, -maxUnrecognizedLength);
  return shorten(toPrintable(shown).trim(), maxExcerptLength);
}

/** The beginning of a body that is no page, or all of it. */
export interface Beginning {
  readonly bytes: Buffer;
  readonly isWhole: boolean;
}

export interface BeginningOptions extends Pick<Clock, 'sleep'> {
  /** Decompresses the body. By default zlib does, in its threads. */
  readonly createGunzip?: CreateGunzip | undefined;
  /** How many bytes to read at most, after decompression. */
  readonly limit?: number | undefined;
}

/** Never throws. Afterwards the body is consumed, or destroyed together with its connection. */
export async function readBeginning(
  context: ErrorContext,
  { headers, body }: Response,
  { sleep, createGunzip, limit = maxExcerptBytes }: BeginningOptions,
): Promise<Beginning> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  let isWhole = false;
  const timer = new AbortController();
  sleep(maxReadMs, timer.signal).then(
    () => body.destroy(),
    () => {},
  );
  try {
    for await (const chunk of decoded(context, { headers, body }, createGunzip)) {
      chunks.push(chunk);
      length += chunk.length;
      if (length > limit) break;
    }
    isWhole = length <= limit;
  } catch {
    // The status is what matters. A truncated explanation is not worth another error.
  } finally {
    timer.abort();
    body.destroy();
  }
  return { bytes: Buffer.concat(chunks), isWhole };
}

export function excerptOfText(
  { keys }: ErrorContext,
  headers: Response['headers'],
  { bytes, isWhole }: Beginning,
): string {
  const isText = /^(text\/.+|application\/(.+\+)?(json|xml))$/.test(mediaType(headers['content-type'])?.essence ?? '');
  const hasAll = isWhole && bytes.length <= maxExcerptBytes;
  return isText ? excerptOf(bytes.subarray(0, maxExcerptBytes), hasAll, keys) : '';
}

function decoded(
  context: ErrorContext,
  { headers, body }: Response,
  createGunzip: CreateGunzip | undefined,
): AsyncIterable<Uint8Array> {
  if (!isInGzip(context, headers['content-encoding'], true)) return body;
  const received: AsyncIterator<Uint8Array> = body[Symbol.asyncIterator]();
  let bytes = 0;
  const next = async (): Promise<IteratorResult<Uint8Array>> => {
    if (bytes > maxReceivedBytes) return { done: true, value: undefined };
    const result = await received.next();
    if (result.done !== true) bytes += result.value.length;
    return result;
  };
  return gunzip(context, next, createGunzip);
}
