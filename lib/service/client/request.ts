/** Builds the HTTP request for a page (docs/service-contract.md, sections 2.1 and 4.1). */

import { ExportError } from '../../core/errors.ts';
import type { PageRequest } from '../../core/ports.ts';
import { filterSince } from '../../core/filter.ts';
import { commonHeaders, type HeaderSettings } from '../../settings/network-settings.ts';
import type { ServiceSettings } from '../../settings/settings.ts';
import { type ContentEncoding, decodable } from './content-encoding.ts';

/** Where the cursor is sent; never in both places (docs/service-contract.md, section 4.1, rules 1 and 2). */
type CursorLocation = ServiceSettings['cursorIn'];

export type RequestSettings = Pick<ServiceSettings, 'cursorIn' | 'compression'> & HeaderSettings;

/** The request in undici's form, without origin and signal. */
export function httpRequest(
  base: URL,
  request: PageRequest,
  settings: RequestSettings,
  apiKey: { name: string; key: string },
) {
  const { cursorIn } = settings;
  return {
    method: 'POST',
    path: requestPath(base, request, cursorIn),
    headers: {
      ...commonHeaders(settings),
      'content-type': 'application/json',
      'accept-encoding': acceptedEncodings(settings).join(', ') || 'identity',
      [apiKey.name]: apiKey.key,
    },
    body: requestBody(request, cursorIn),
  } as const;
}

/** What a response may be compressed with. */
export const acceptedEncodings = ({ compression }: RequestSettings): readonly ContentEncoding[] =>
  compression ? decodable : [];

/** Path and query. The comma of a cursor is encoded as `%2C` (docs/service-contract.md, section 2.2). */
export function requestPath(base: URL, { cursor }: PageRequest, route: CursorLocation): string {
  const path = endpointPath(base);
  return cursor === null || route === 'body' ? path : `${path}?cursor=${encodeURIComponent(cursor)}`;
}

export function endpointPath(base: URL): string {
  return `${base.pathname.replace(/\/+$/, '')}/v1/report/export`;
}

/**
 * The same filter, format, container and size for every page of a run (docs/service-contract.md, section 4.1, rule 6).
 * With the cursor in the query, the bodies of all pages are identical.
 */
function requestBody({ request, since, cursor }: PageRequest, route: CursorLocation): string {
  return JSON.stringify({
    filter: filterSince(request.filter, since),
    format: request.format,
    container: request.container,
    ...(request.size === undefined ? {} : { size: request.size }),
    ...(cursor === null || route === 'query' ? {} : { cursor }),
  });
}

/**
 * The header names for a vendor: the request's as documented, the response's in lower case, as undici returns it.
 * @throws ConfigurationError if `vendor` is not valid in a header name
 */
export function headerNames(vendor: string): { readonly apiKey: string; readonly cursor: string } {
  if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(vendor)) {
    throw new ExportError('ConfigurationError', `vendor: ${JSON.stringify(vendor)} is not valid in a header name`);
  }
  return { apiKey: `X-${vendor}-API-KEY`, cursor: `x-${vendor.toLowerCase()}-cursor` };
}
