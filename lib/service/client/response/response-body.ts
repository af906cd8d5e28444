/** Streams a page's body while it decodes, counts, limits and checks the bytes. Never holds a whole page in memory. */

import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FetchOptions } from '../../../core/ports.ts';
import type { PageContent } from '../../formats/format-check.ts';
import type { PageCheck } from '../../formats/formats.ts';
import { contractError } from '../errors.ts';
import { excerptOf, maxExcerptBytes } from './excerpt.ts';
import type { Exchange, Response } from '../exchange.ts';
import { type CreateGunzip, gunzip, gunzipFile } from './gzip.ts';
import { pageTooLarge, singleValue } from './response-headers.ts';

interface BodyOptions {
  readonly sink: FetchOptions['sink'];
  readonly isGzip: boolean;
  readonly createGunzip: CreateGunzip | undefined;
  readonly maxPageBytes: number;
  /** Its problems quote names without the API key. undefined: the body is passed through unchecked. */
  readonly check: PageCheck | undefined;
  /** Whether a body without any bytes is not checked: the description says what it means. */
  readonly mayBeBlank?: boolean;
  /** Set if it is a file of a job's result, and no message quotes it. */
  readonly file?: ResultFile | undefined;
}

/** A file of the result of a job. */
export interface ResultFile {
  /** How the file itself is compressed. */
  readonly compression: 'gzip' | undefined;
}

interface ReadBody {
  /** How many bytes it has, decoded. */
  readonly bytes: number;
  /** How many bytes of it were received, as they were sent. */
  readonly transferredBytes: number;
  /** How it begins: short, printable and without secrets. */
  readonly excerpt: () => string;
  /** Undefined if it was not checked. */
  readonly content: PageContent | undefined;
}

/** Passes the body to `sink`. Resolves once it has all of it, and it is complete. @throws errors of `sink` unchanged */
export async function readBody(
  exchange: Exchange,
  { body, headers }: Response,
  { sink, isGzip, createGunzip, maxPageBytes, check, mayBeBlank = false, file }: BodyOptions,
): Promise<ReadBody> {
  const { context } = exchange;
  let bytes = 0;
  let transferredBytes = 0;
  let beginning: Uint8Array = new Uint8Array(0);
  let end: { readonly content: PageContent | undefined } | undefined;
  const assertSmallEnough = (count: number) => {
    if (count > maxPageBytes) throw pageTooLarge(context, `more than ${maxPageBytes} bytes`, maxPageBytes);
  };
  const excerpt = () => excerptOf(beginning, bytes <= maxExcerptBytes, context.keys);
  const invalid = (problem: string) => {
    const isWhole = singleValue(headers['content-length']) === String(transferredBytes) && bytes <= maxExcerptBytes;
    // The beginning identifies an error page in place of JSON or CSV. It says nothing about an error within XML.
    const isMarkup = beginning.find((byte) => byte > 0x20) === 0x3c && check?.document.includes('XML') === false;
    const shown = isMarkup ? excerptOf(beginning, isWhole, context.keys) : '';
    const more = shown === '' ? '' : `. It begins with ${shown}`;
    return contractError(context, `not a ${check?.document} (${problem})${more}`);
  };

  const received: AsyncIterator<Uint8Array, undefined> = body[Symbol.asyncIterator]();
  const next = async (): Promise<IteratorResult<Uint8Array, undefined>> => {
    const result = await received.next().catch((error: unknown) => {
      throw exchange.explain(error, transferredBytes);
    });
    if (result.done !== true) transferredBytes += result.value.length;
    // A compressed body may be long without any content.
    assertSmallEnough(transferredBytes);
    return result;
  };

  async function* chunks(): AsyncGenerator<Uint8Array, void, void> {
    // The headers of this page let the caller request the next one. Before undici reuses a connection, it waits one
    // turn of the event loop to see whether the service has closed it. Work on this body in that turn would delay the
    // request by milliseconds, page after page.
    await nextTurn();
    await nextTurn();
    const decoded = isGzip ? gunzip(context, next, createGunzip) : { [Symbol.asyncIterator]: () => ({ next }) };
    for await (const chunk of file?.compression === undefined ? decoded : gunzipFile(context, decoded)) {
      bytes += chunk.length;
      assertSmallEnough(bytes);
      const missing = file === undefined ? maxExcerptBytes - beginning.length : 0;
      if (missing > 0) beginning = Buffer.concat([beginning, chunk.subarray(0, missing)]);
      const problem = await check?.push(chunk);
      if (problem !== undefined) throw invalid(problem);
      yield chunk;
    }
    const content = bytes === 0 && mayBeBlank ? undefined : await check?.end();
    if (typeof content === 'string') throw invalid(content);
    end = { content };
  }

  await sink(chunks());
  // A sink may have read nothing, or another iteration.
  if (end === undefined) throw new Error(`The body of ${context.label} was not read to its end`);
  return {
    bytes,
    transferredBytes,
    excerpt,
    ...end,
  };
}
