/** A request that a run would send, for a person to read. */

import type { Cursor } from '../core/model.ts';
import type { PageRequest } from '../core/ports.ts';
import type { DeployedService } from '../target/target.ts';
import { shownCredentials } from '../service/client/auth.ts';
import { apiFor, authOf, httpRequest } from '../service/client/request.ts';

export interface PlannedRequest {
  readonly method: string;
  readonly url: string;
  /** The API key is replaced by its source. */
  readonly headers: Readonly<Record<string, string>>;
  /** null: there is none. */
  readonly body: unknown;
}

/** The request for the page at `cursor`; for the first page without it. */
export function plannedRequest(
  service: Pick<DeployedService, 'address' | 'settings' | 'keySource'>,
  {
    cursor = null,
    ...planned
  }: Pick<PageRequest, 'request' | 'since' | 'until' | 'begunAt'> & { readonly cursor?: Cursor | null },
): PlannedRequest {
  const base = URL.parse(service.address) ?? new URL('http://simulator');
  const credentials = shownCredentials(authOf(service.settings), `(${service.keySource})`);
  const pageRequest = { ...planned, cursor, label: '' };
  const api = apiFor(service.settings, planned.request);
  const { method, path, headers, body } = httpRequest(base, api, pageRequest, service.settings, credentials);
  return { method, url: `${base.origin}${path}`, headers, body: body === undefined ? null : JSON.parse(body) };
}

/** Indented, as the details of a plan. */
export function requestLines(request: PlannedRequest): string[] {
  const headers = Object.entries(request.headers).map(([name, value]) => `           ${name}: ${value}`);
  const body = request.body === null ? [] : [`           ${JSON.stringify(request.body)}`];
  return [`  request  ${request.method} ${request.url}`, ...headers, ...body];
}
