/** What a good answer's headers must say before its body is worth reading (contract, section 2.3). */

import { MIMEType } from 'node:util';
import type { Dispatcher } from 'undici';
import type { ExportError } from '../../core/errors.ts';
import { asCursor, type Cursor, type Instant } from '../../core/model.ts';
import { epochMsOf, instantOf, parseHttpDate } from '../../core/timestamps.ts';
import { containsKey, presentable } from '../redaction/redact.ts';
import { failure, type Subject } from './errors.ts';

/**
 * The continuation, or null where the header is absent: there are no more pages (contract, section 3). Opaque, unchanged.
 * @throws ContractError where it came empty, more than once, with anything but printable ASCII, or with the API key in it
 */
export function cursorOf(subject: Subject, header: Header): Cursor | null {
  if (header === undefined) return null;
  const cursor = single(header);
  if (cursor === undefined) throw broken(subject, 'with the cursor header more than once');
  if (cursor === '') throw broken(subject, 'with an empty cursor header');
  if (!isPrintable(cursor)) throw broken(subject, 'with a cursor that is not printable ASCII');
  // It would stand in the manifest for every reader, in the page log and in the store.
  if (containsKey(cursor, subject.keys)) throw broken(subject, 'with a cursor that holds the API key');
  return asCursor(cursor);
}

/**
 * A cursor after the body comes too late: the page has been taken for the last one, and would be published as such.
 * @throws ContractError
 */
export function checkTrailers(subject: Subject, trailers: Readonly<Record<string, unknown>>, cursor: string): void {
  const isLate = Object.keys(trailers).some((name) => name.toLowerCase() === cursor);
  if (isLate) throw broken(subject, 'with the cursor header after the body instead of before it');
}

/**
 * The content type as sent, or `application/octet-stream`.
 * @throws ContractError for an XML page that does not call itself UTF-8 XML, for an encoding nobody asked for, and for the
 *   API key in it: the store keeps it
 */
export function contentTypeOf(subject: Subject, headers: Headers, isXml: boolean): string {
  if (!isIdentity(headers['content-encoding'])) {
    const encoding = quoted(subject, joined(headers['content-encoding']));
    throw broken(subject, `encoded as ${encoding}, though nothing but identity is accepted`);
  }
  const type = joined(headers['content-type']);
  if (isXml && !isUtf8Xml(headers['content-type'])) {
    throw broken(subject, `as ${quoted(subject, type)} instead of application/xml in UTF-8`);
  }
  if (type === '') return 'application/octet-stream';
  if (!isPrintable(type)) throw broken(subject, 'with a content type that is not printable ASCII');
  if (containsKey(type, subject.keys)) throw broken(subject, 'with a content type that holds the API key');
  return type;
}

function isUtf8Xml(contentType: Header): boolean {
  const type = mediaType(contentType);
  return type?.essence === 'application/xml' && /^utf-8$/i.test(type.params.get('charset') ?? 'utf-8');
}

/**
 * Makes sure that a body's end can be told from a lost connection. A body that merely stops where the connection closes
 * may have been cut off unnoticed; XML is let through, because its own last tag tells.
 * @throws ContractError
 */
export function checkFraming(subject: Subject, headers: Headers, isXml: boolean, maxPageBytes: number): void {
  const coding = joined(headers['transfer-encoding']);
  if (!/^(chunked)?$/i.test(coding)) throw broken(subject, `in transfer encoding ${quoted(subject, coding)}`);
  const length = single(headers['content-length']);
  if (Number(length) > maxPageBytes) throw tooLarge(subject, maxPageBytes);
  if (!isXml && length === undefined && coding === '') {
    throw broken(subject, 'with neither content-length nor chunks, so a cut-off body would pass for a whole one');
  }
}

export function tooLarge(subject: Subject, maxPageBytes: number): ExportError {
  return broken(subject, `with more than the ${maxPageBytes} bytes a page may have (maxPageBytes)`);
}

/**
 * The service's clock when the page was asked for, or null where it sent no date. A Date is stamped when the answer goes
 * out: one that took 30 seconds to find shows the reports of 30 seconds before, so the time it took is taken off. Rounded up to whole seconds, the form the contract shows (section
 * 2.1): what was seen then and is asked for again comes twice, what was not seen must not be left out.
 */
export function serviceTimeOf(header: Header, elapsedMs: number): Instant | null {
  const answeredAt = httpDate(header);
  return answeredAt && instantOf(epochMsOf(answeredAt) - Math.max(0, Math.ceil(elapsedMs / 1_000)) * 1_000);
}

/** The contract speaks of a request identifier from the gateway without its name; these are the usual ones. */
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

/** The subject with the answer's request id, where it has one: what the service's people will ask for. */
export function withRequestId(subject: Subject, headers: Headers): Subject {
  const ids = requestIdNames.map((name) => single(headers[name]));
  const id = ids.find((value) => value !== undefined && isPrintable(value));
  if (id === undefined) return subject;
  return { ...subject, label: `${subject.label} (request id ${presentable(id, subject.keys, 100)})` };
}

function quoted({ keys }: Subject, value: string): string {
  return value === '' ? 'nothing' : JSON.stringify(presentable(value, keys, 100));
}

function broken(subject: Subject, how: string): ExportError {
  return failure(
    subject,
    'ContractError',
    `Report service answered ${subject.label} ${how}: it is tried again a little, in case it was a glitch`,
  );
}

// MERGED header-values.ts: Reads single header values as HTTP means them. undici gives names in lower case, values as Latin-1 text, and a header that came twice as an array.

export type Headers = Dispatcher.ResponseData['headers'];
export type Header = Headers[string];

/** The value of a header that came exactly once, without the blanks around it, which HTTP does not count as part of it. */
export function single(header: Header): string | undefined {
  return typeof header === 'string' ? header.replace(/^[ \t]+|[ \t]+$/g, '') : undefined;
}

/** All that a header says, however often it came; empty where it is absent. */
function joined(header: Header): string {
  return [header ?? ''].flat().join(', ').trim();
}

/** The moment of an HTTP date; null where it is absent, repeated or none. */
export function httpDate(header: Header): Instant | null {
  const value = single(header);
  return value === undefined ? null : parseHttpDate(value);
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

function isPrintable(value: string): boolean {
  return /^[\x20-\x7e]+$/.test(value);
}
