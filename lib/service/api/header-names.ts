/** Names of headers in settings: which are valid, and which are not for settings to set. */

import * as z from 'zod/mini';
import { text } from '../../core/schema/fields.ts';

/** Names that the exporter or the connection sets, and those that change which response is returned. */
const reservedHeader =
  /^(accept(-encoding)?|connection|content-.*|date|expect|host|if-.*|keep-alive|proxy-.*|range|te|trailer|transfer-encoding|upgrade|user-agent|x-.*-cursor)$/;
/** They ask for a part of a response, or for none. */
const conditionalHeader = /^(if-.*|range)$/;
/** Their values are credentials. */
const credentialHeader = /^(authorization|cookie|proxy-authorization|x-(.*-)?api-key)$/;
/** Probably confidential, too, but settings are in the template. A cursor may be called `X-Continuation-Token`. */
const likelyCredential =
  /(^|[-_.]|api|app|auth|access|client|session|subscription|secret)(key|token|secret)$|(^|[-_.])(password|authorization|credentials?)$/;

const namePattern = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/;

export const headerValuePattern = /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/;
export const headerValueProblem = 'must be printable ASCII characters, without white space at the beginning or end';

/** Whether the exporter or the connection sets the header. A vendor's own, such as `X-…-Cursor`, is not included. */
const isConnectionHeader = (name: string): boolean => reservedHeader.test(name.toLowerCase()) && !/^x-/i.test(name);

/** Why settings cannot set a header by this name; undefined if they can. */
export function problemOfHeaderName(name: string): string | undefined {
  if (!namePattern.test(name)) return 'is not a valid header name';
  const lowerName = name.toLowerCase();
  if (credentialHeader.test(lowerName) || likelyCredential.test(lowerName))
    return `must not be set: it holds a credential, and these headers are not secret. Set send of api.auth, or without api, of the service: {"${name}": "{secret.NAME}"}`;
  if (conditionalHeader.test(lowerName))
    return 'must not be set: the response would not be a complete page. Use a filter in the query or body, if the API has one';
  return reservedHeader.test(lowerName) ? 'must not be set: the exporter or the connection sets it' : undefined;
}

/** Why requests of a description cannot send this header. It may set what is accepted, what a body is, and a cursor. */
export const problemOfRequestHeader = (name: string, value: string): string | undefined =>
  /^(accept|content-type|x-.*-cursor)$/i.test(name) ||
  (value === '{cursor}' && cursorHeaderName.safeParse(name).success)
    ? undefined
    : problemOfHeaderName(name);

/** The problem of a header that is set before in another spelling. */
export function problemIfRepeated(name: string, headers: object): string | undefined {
  const first = Object.keys(headers).find((each) => each.toLowerCase() === name.toLowerCase());
  return first === name ? undefined : 'is already set in another spelling';
}

export const responseHeaderName = text(namePattern, 'is not a valid header name');

export const headerName = responseHeaderName.check(
  z.refine((name) => !isConnectionHeader(name), 'must be another header: the exporter or the connection sets this one'),
);

/** A header of requests whose content the service decides. */
export const cursorHeaderName = headerName.check(
  z.refine((name) => !credentialHeader.test(name.toLowerCase()), 'must be another header: this one is for the secret'),
);
