/** Validates the headers of a successful response before its body is read (docs/service-contract.md, section 2.3). */

import { MIMEType } from 'node:util';
import type { Dispatcher } from 'undici';
import type { ExportError } from '../../../core/errors.ts';
import type { Instant } from '../../../core/model.ts';
import { epochMsOf, instantOf, parseHttpDate } from '../../../core/timestamps.ts';
import type { Description } from '../../api/description.ts';
import { countsReports, mediaTypesOf } from '../../api/page.ts';
import { isCursorOfVendor } from '../../api/next/header.ts';
import { containsKey, presentable } from '../../redaction/redact.ts';
import { contractError, failure, type ErrorContext } from '../errors.ts';

/** By lower-case name. Values are decoded as Latin-1; a header that occurs repeatedly is an array. */
export type Headers = Dispatcher.ResponseData['headers'];
export type Header = Headers[string];

/**
 * A next page in the trailers comes too late: without its header, the page counts as the last one.
 * @throws ContractError
 */
export function assertNoLateNext(
  context: ErrorContext,
  trailerNames: readonly string[],
  { header, isLast }: { readonly header: string | undefined; readonly isLast: boolean },
): void {
  const isOfVendor = header !== undefined && isLast && isCursorOfVendor(header);
  const late = trailerNames.find(
    (name) => name.toLowerCase() === header?.toLowerCase() || (isOfVendor && isCursorOfVendor(name)),
  );
  if (late === undefined) return;
  if (late.toLowerCase() === header?.toLowerCase())
    throw contractError(context, 'the cursor header follows the body instead of preceding it');
  const found = presentable(late, context.keys, 100);
  throw contractError(context, `it has the trailer ${found}, but the header ${header} is expected. Check the vendor`);
}

/** Why a page cannot have this content type, or, if it is text, this charset. undefined: it can. */
export function problemOfContentType(
  context: ErrorContext,
  headers: Headers,
  { page, pagination }: Pick<Description, 'page' | 'pagination'>,
): string | undefined {
  const types = mediaTypesOf(page);
  const isText = countsReports(page);
  const { essence = '', params } = mediaType(headers['content-type']) ?? {};
  const charset = params?.get('charset') ?? 'utf-8';
  if (types.length === 0 || (types.includes(essence) && (!isText || namesUtf8.test(charset)))) return undefined;
  const expected = `${types.join(' or ')}${isText ? ' in UTF-8' : ''}`;
  const problem = `content type ${quote(context, contentTypeIn(headers['content-type']))} instead of ${expected}`;
  const mayBePage = pagination !== undefined && !['', 'text/html', ...types].includes(essence);
  return mayBePage
    ? `${problem}. If this is a page, add ${presentable(essence, context.keys, 100)} to page.types`
    : problem;
}

/**
 * The content type as received, or `application/octet-stream`.
 * @throws ContractError if the content type, which is stored with the page, contains the API key
 */
export function readContentType(context: ErrorContext, headers: Headers): string {
  const type = contentTypeIn(headers['content-type']);
  if (type === '') return 'application/octet-stream';
  if (!isPrintableAscii(type)) throw contractError(context, 'the content type is not printable ASCII');
  if (containsKey(type, context.keys)) throw contractError(context, 'the content type contains the API key');
  return type;
}

/** Aliases in use, and ASCII, which UTF-8 includes: the bytes are checked in any case. */
const namesUtf8 = /^(utf-?8|csutf8|(us-)?ascii)$/i;

/**
 * Asserts that a truncated body will be noticed. Without a length and chunks, the body ends when the connection closes,
 * for whatever reason. That is accepted only if the document shows its end, as XML does with the end tag of its root.
 * @throws ContractError; ConfigurationError if the stated length exceeds the limit
 */
export function assertFraming(context: ErrorContext, headers: Headers, showsEnd: boolean, maxPageBytes: number): void {
  const coding = allValues(headers['transfer-encoding']);
  if (!/^(chunked)?$/i.test(coding)) throw contractError(context, `transfer encoding ${quote(context, coding)}`);
  const length = singleValue(headers['content-length']);
  if (Number(length) > maxPageBytes) throw pageTooLarge(context, `${Number(length)} bytes`, maxPageBytes);
  if (!showsEnd && length === undefined && coding === '') {
    const problem = 'neither a content-length nor chunked encoding, so a truncated body would go unnoticed';
    throw contractError(context, problem);
  }
}

/**
 * Not retried: the page is no smaller at the next attempt, which would transfer up to the whole limit again.
 * `size` completes the sentence.
 */
export function pageTooLarge(context: ErrorContext, size: string, maxPageBytes: number): ExportError {
  return failure(
    context,
    'ConfigurationError',
    `${context.server.name} sent ${size} for ${context.label}, but maxPageBytes is ${maxPageBytes}. ` +
      'Raise maxPageBytes in the settings file, or restart the run with fewer reports per page (size)',
  );
}

/**
 * The service's clock when the page was requested; null without a Date header. The Date header is from when the
 * response was sent. Its reports may have been selected up to `elapsedMs` before, so that time is subtracted, rounded
 * up to whole seconds: the next run may then export a report twice, but misses none.
 */
export function readServiceTime(date: Header, elapsedMs: number): Instant | null {
  const respondedAt = parseHttpDate(singleValue(date) ?? '');
  return respondedAt && instantOf(epochMsOf(respondedAt) - Math.max(0, Math.ceil(elapsedMs / 1_000)) * 1_000);
}

/** The contract mentions a request identifier but not the name of its header. These are the usual ones. */
const requestIdNames = [
  'x-request-id',
  'x-amzn-requestid',
  'x-amzn-request-id',
  'x-amz-request-id',
  'x-amz-apigw-id',
  'x-correlation-id',
  'request-id',
  'x-amz-cf-id',
  'x-amzn-trace-id',
  'traceparent',
];

/** Adds the request ID of the response, if there is one: the operators of the service will ask for it. */
export function withRequestId(context: ErrorContext, headers: Headers): ErrorContext {
  const ids = requestIdNames.map((name) => singleValue(headers[name]));
  const id = ids.find((value) => value !== undefined && isPrintableAscii(value));
  if (id === undefined) return context;
  return {
    ...context,
    // Only for errors: the search for the keys takes a millisecond.
    get label() {
      return `${context.label} (request ID ${presentable(id, context.keys, 100)})`;
    },
  };
}

export function quote({ keys }: ErrorContext, value: string): string {
  return value === '' ? '(none)' : JSON.stringify(presentable(value, keys, 100));
}

/** The value of a header that occurs exactly once, without the surrounding blanks, which are not part of it. */
export function singleValue(header: Header): string | undefined {
  return typeof header === 'string' ? header.replace(/^[ \t]+|[ \t]+$/g, '') : undefined;
}

export const headerOf =
  (headers: Headers) =>
  (name: string): string | undefined => {
    const value = headers[name.toLowerCase()];
    return value === undefined ? undefined : allValues(value);
  };

/** All values of a header, joined; empty if it is absent. */
export function allValues(header: Header): string {
  return [header ?? ''].flat().join(', ').trim();
}

/** A gateway may repeat the content type. Equal ones count as one. Different ones stay joined, which is invalid. */
function contentTypeIn(header: Header): string {
  const all = allValues(header);
  const types = all.split(',').map((each) => each.trim());
  const areEqual = new Set(types.map((each) => each.replaceAll(' ', '').toLowerCase())).size === 1;
  return areEqual ? (types[0] ?? '') : all;
}

/** undefined if the header is absent or invalid. */
export function mediaType(header: Header): MIMEType | undefined {
  try {
    return new MIMEType(contentTypeIn(header));
  } catch {
    return undefined;
  }
}

function isPrintableAscii(value: string): boolean {
  return /^[\x20-\x7e]+$/.test(value);
}
