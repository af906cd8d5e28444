/**
 * Reads single header values as HTTP means them.
 * undici gives names in lower case, values as Latin-1 text, and a header that came twice as an array.
 */

import { MIMEType } from 'node:util';
import type { Dispatcher } from 'undici';
import type { Instant } from '../../core/model.ts';
import { instantOfHttpDate } from '../../core/timestamps.ts';

export type Headers = Dispatcher.ResponseData['headers'];
export type Header = Headers[string];

/** The value of a header that came exactly once, without the blanks around it, which HTTP does not count as part of it. */
export function single(header: Header): string | undefined {
  return typeof header === 'string' ? header.replace(/^[ \t]+|[ \t]+$/g, '') : undefined;
}

/** All that a header says, however often it came; empty where it is absent. */
export function joined(header: Header): string {
  return [header ?? ''].flat().join(', ').trim();
}

/** The moment of an HTTP date; null where it is absent, repeated or none. */
export function httpDate(header: Header): Instant | null {
  const value = single(header);
  return value === undefined ? null : instantOfHttpDate(value);
}

/** undefined where it is absent or none. */
export function mediaType(header: Header): MIMEType | undefined {
  try {
    return new MIMEType(joined(header));
  } catch {
    return undefined;
  }
}

/** Whether a body comes as it is, and not compressed. */
export function isIdentity(contentEncoding: Header): boolean {
  return /^(identity)?$/i.test(joined(contentEncoding));
}

export function isPrintable(value: string): boolean {
  return /^[\x20-\x7e]+$/.test(value);
}
