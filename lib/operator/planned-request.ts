/** A request that a run would send, for a person to read. */

import type { Cursor, ExportRequest, Instant } from '../core/model.ts';
import type { DeployedService } from '../target/target.ts';
import { headerNames, httpRequest } from '../service/client/request.ts';

export interface PlannedRequest {
  readonly method: string;
  readonly url: string;
  /** The API key is replaced by its source. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
}

/** The request for the page at `cursor`; for the first page without it. */
export function plannedRequest(
  service: Pick<DeployedService, 'address' | 'settings' | 'keySource'>,
  {
    request,
    since,
    cursor = null,
  }: { readonly request: ExportRequest; readonly since: Instant; readonly cursor?: Cursor | null },
): PlannedRequest {
  const base = URL.parse(service.address) ?? new URL('http://simulator');
  const apiKey = { name: headerNames(service.settings.vendor).apiKey, key: `(${service.keySource})` };
  const pageRequest = { request, since, cursor, label: '' };
  const { method, path, headers, body } = httpRequest(base, pageRequest, service.settings, apiKey);
  return { method, url: `${base.origin}${path}`, headers, body: JSON.parse(body) };
}

/** Indented, as the details of a plan. */
export function requestLines(request: PlannedRequest): string[] {
  const headers = Object.entries(request.headers).map(([name, value]) => `           ${name}: ${value}`);
  return [`  request  ${request.method} ${request.url}`, ...headers, `           ${JSON.stringify(request.body)}`];
}
