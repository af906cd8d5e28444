/** One request for a page, as it goes over the wire (contract, sections 2.1 and 4.1). */

import { ExportError } from '../../core/errors.ts';
import type { PageRequest } from '../../core/ports.ts';
import { filterSince } from '../../core/settings/filter.ts';

/** The one route by which the cursor goes back (contract, section 4.1, rules 1 and 2); never both. */
export type CursorRoute = 'query' | 'body';

/** The request as undici takes it, but for the signal. */
export function httpRequest(
  base: URL,
  request: PageRequest,
  route: CursorRoute,
  apiKey: { name: string; key: string },
) {
  return {
    method: 'POST',
    path: requestPath(base, request, route),
    headers: {
      'content-type': 'application/json',
      'accept-encoding': 'identity',
      'user-agent': 'report-exporter',
      [apiKey.name]: apiKey.key,
    },
    body: requestBody(request, route),
  } as const;
}

/** Path and query. The comma of a cursor stands in it as `%2C` (contract, section 2.2), a blank as `%20`. */
export function requestPath(base: URL, { cursor }: PageRequest, route: CursorRoute): string {
  const path = `${base.pathname.replace(/\/+$/, '')}/v1/report/export`;
  return cursor === null || route === 'body' ? path : `${path}?cursor=${encodeURIComponent(cursor)}`;
}

/**
 * The same filter, format, container and size on every page of a run (contract, section 4.1, rule 6): by the query
 * route, every page's body is the same bytes.
 */
function requestBody({ request, since, cursor }: PageRequest, route: CursorRoute): string {
  return JSON.stringify({
    filter: filterSince(request.filter, since),
    format: request.format,
    container: request.container,
    ...(request.size === undefined ? {} : { size: request.size }),
    ...(cursor === null || route === 'query' ? {} : { cursor }),
  });
}

/** The contract's header names for a vendor; the response's in lower case, as undici gives them. */
export function headerNames(vendor: string): { readonly apiKey: string; readonly cursor: string } {
  if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(vendor)) {
    throw new ExportError('ConfigurationError', `vendor: ${JSON.stringify(vendor)} cannot stand in a header's name`);
  }
  return { apiKey: `X-${vendor}-API-KEY`, cursor: `x-${vendor.toLowerCase()}-cursor` };
}
