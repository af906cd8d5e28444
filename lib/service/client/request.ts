/**
 * Builds the HTTP request for a page, from a description of the API. That of the Report Export Service is here, too
 * (docs/service-contract.md, sections 2.1 and 4.1).
 */

import { ExportError } from '../../core/errors.ts';
import type { ExportRequest, Instant, JsonObject, JsonValue } from '../../core/model.ts';
import type { PageRequest } from '../../core/ports.ts';
import { filterBefore, filterOf } from '../../core/filter.ts';
import { epochMsOf, instantOf } from '../../core/timestamps.ts';
import { placeholdersIn, uses } from '../../settings/api-request.ts';
import { type Api, mediaTypesOf, unitOfDates } from '../../settings/api-settings.ts';
import { commonHeaders, type HeaderSettings } from '../../settings/network-settings.ts';
import type { ServiceSettings } from '../../settings/settings.ts';
import { type ContentEncoding, decodable } from './content-encoding.ts';
import { cursorOfFirst, type RequestParts, withCursor } from './next-page.ts';

type ApiSettings = Pick<ServiceSettings, 'vendor' | 'cursorIn' | 'filterUntil' | 'api'>;
export type RequestSettings = ApiSettings & Pick<ServiceSettings, 'compression'> & HeaderSettings;

/** A description with what only that of the Report Export Service has: bounds in the filter. */
export type RequestedApi = Api & Pick<ServiceSettings, 'filterUntil'>;

/** The description of the service for a run with this request. */
export const apiFor = (settings: ApiSettings, request: ExportRequest): RequestedApi =>
  settings.api ?? contractApi(settings, request);

export const authOf = ({ vendor, api }: Pick<RequestSettings, 'vendor' | 'api'>): Api['auth'] =>
  api?.auth ?? { kind: 'header', name: headerNames(vendor).apiKey };

/** The Report Export Service. The cursor is sent in one place only, and with it, the body of every page is the same. */
function contractApi(
  { vendor, cursorIn, filterUntil }: ApiSettings,
  { format, container }: ExportRequest,
): RequestedApi {
  const names = headerNames(vendor);
  const body = { filter: '{filter}', format: '{format}', container: '{container}', size: '{size}' };
  return {
    request: { method: 'POST', path: '/v1/report/export', body },
    dates: 'iso',
    auth: authOf({ vendor }),
    next: { from: 'header', at: names.cursor, to: cursorIn === 'body' ? { body: '/cursor' } : { query: 'cursor' } },
    page: isXml({ format, container }) ? { format: 'xml', types: ['application/xml'] } : { format: 'bytes', types: [] },
    filterUntil,
  };
}

const isXml = ({ format, container }: Pick<ExportRequest, 'format' | 'container'>): boolean =>
  format === 'XML' && container === 'NONE';

/** The request in undici's form, without origin and signal. `credentials` are the headers that authenticate it. */
export function httpRequest(
  base: URL,
  api: RequestedApi,
  request: PageRequest,
  settings: RequestSettings,
  credentials: Readonly<Record<string, string>>,
) {
  const first = firstRequest(base.pathname, api, request);
  const { path, query, headers, body } = request.cursor === null ? first : withCursor(api, first, request.cursor);
  // The comma of a cursor is encoded as `%2C` (docs/service-contract.md, section 2.2).
  const search = query.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`).join('&');
  return {
    method: api.request.method,
    path: search === '' ? path : `${path}${path.includes('?') ? '&' : '?'}${search}`,
    headers: {
      ...commonHeaders(settings),
      ...(settings.api === undefined ? {} : { accept: mediaTypesOf(api.page).join(', '), 'cache-control': 'no-cache' }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      'accept-encoding': acceptedEncodings(settings).join(', ') || 'identity',
      ...headers,
      ...credentials,
    },
    body: body && JSON.stringify(body),
  };
}

/** What a response may be compressed with. */
export const acceptedEncodings = ({ compression }: Pick<RequestSettings, 'compression'>): readonly ContentEncoding[] =>
  compression ? decodable : [];

/** The request for the first page of a run (docs/service-contract.md, section 4.1, rule 6). */
function firstRequest(basePath: string, api: RequestedApi, request: PageRequest): RequestParts {
  const { path, query = {}, method, body = {} } = api.request;
  const values = valuesOf(api, request);
  return {
    path: `${basePath.replace(/\/+$/, '')}${render(path, values, encodeURIComponent) ?? missing(path)}`,
    query: Object.entries(query).flatMap(([name, text]) => {
      const value = render(text, values);
      return value === undefined ? [] : [[name, value] as const];
    }),
    headers: {},
    body: method === 'GET' ? undefined : ((fill(body, values) ?? {}) as JsonObject),
  };
}

/** What the request for the first page has in the place of a cursor. */
export const firstCursor = (api: RequestedApi, request: PageRequest): string | undefined =>
  cursorOfFirst(api, firstRequest('', api, request));

/** What a first request that the service rejects consists of. */
export interface SentParts {
  /** The names of parameters, and of fields of the body: `filter.date.gte`. */
  readonly fields: readonly string[];
  readonly since?: Instant;
  readonly until?: Instant;
  /** The bounds as they were sent, in the form that `api.dates` names. */
  readonly dates: readonly (string | number)[];
}

export function partsOf(base: URL, api: RequestedApi, request: PageRequest): SentParts {
  const { path, query, body = {} } = firstRequest(base.pathname, api, request);
  const [, ...fixed] = path.split('?');
  const parameters = [...new URLSearchParams(fixed.join('?')), ...query].map(([name]) => name);
  const fields = [...new Set([...parameters, ...fieldsIn(body)])];
  const { since, until } = request;
  // The contract has both in its filter, in the one form that there is.
  if (request.request.api.pagination === undefined) {
    return { fields, since, until: api.filterUntil === undefined ? undefined : until, dates: [] };
  }
  const bounds = (['since', 'until'] as const).filter((name) => uses(api, name));
  const values = valuesOf(api, request);
  return {
    fields,
    ...(uses(api, 'since') ? { since } : {}),
    ...(uses(api, 'until') ? { until: upperBoundOf(request) } : {}),
    dates: bounds.map((name) => values(name) as string | number),
  };
}

/** The paths of all fields of an object; of a list, only its own. */
const fieldsIn = (object: JsonObject): readonly string[] =>
  Object.entries(object).flatMap(([name, value]) =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? fieldsIn(value as JsonObject).map((inner) => `${name}.${inner}`)
      : [name],
  );

/** The value of each placeholder, undefined if it has none. */
type Values = (name: string) => JsonValue | undefined;

function valuesOf(api: RequestedApi, pageRequest: PageRequest): Values {
  const { request, since, until } = pageRequest;
  const { size, format, container, filter } = request;
  const upperBound = writeDate(api, upperBoundOf(pageRequest), Math.ceil);
  const ofRun = filterOf(request, since);
  const values: Readonly<Record<string, JsonValue | undefined>> = {
    since: writeDate(api, since, Math.floor),
    until: upperBound,
    size,
    format,
    container,
    filter:
      until === undefined || api.filterUntil === undefined ? ofRun : filterBefore(ofRun, api.filterUntil, upperBound),
  };
  return (name) =>
    name.startsWith('filter.')
      ? Object.hasOwn(filter, name.slice('filter.'.length))
        ? filter[name.slice('filter.'.length)]
        : undefined
      : values[name];
}

/** A placeholder must have a value. */
const upperBoundOf = ({ until, begunAt }: PageRequest): Instant => until ?? begunAt;

/** `since` is rounded down and `until` up, so that a request for whole seconds or days includes no less than they say. */
function writeDate(api: Pick<Api, 'dates'>, instant: Instant, round: (value: number) => number): string | number {
  const unitMs = unitOfDates(api);
  const units = round(epochMsOf(instant) / unitMs);
  switch (api.dates) {
    case 'iso':
      return instantOf(units * unitMs);
    case 'iso-ms':
      return new Date(units).toISOString();
    case 'epoch':
    case 'epoch-ms':
      return units;
    case 'date':
      return instantOf(units * unitMs).slice(0, 'yyyy-mm-dd'.length);
  }
}

const placeholder = /\{([A-Za-z][\w.-]*)\}/g;

/** The text with its placeholders replaced; undefined if one has no value. */
function render(
  template: string,
  values: Values,
  encode: (text: string) => string = (text) => text,
): string | undefined {
  const names = placeholdersIn(template);
  const without = names.filter((name) => values(name) === undefined);
  if (without.length > 0) {
    // Without its lower bound, a request would select everything.
    if (names.some((name) => name === 'since' || name === 'until')) missing(template);
    return undefined;
  }
  return template.replaceAll(placeholder, (_, name: string) => {
    const value = values(name);
    if (typeof value === 'object') {
      throw new ExportError(
        'ConfigurationError',
        `${name}: must be text, a number or a boolean, as it is part of a text in api.request`,
      );
    }
    return encode(String(value));
  });
}

function missing(template: string): never {
  throw new ExportError(
    'ConfigurationError',
    `api.request: ${template} needs a value for each of its placeholders. Set it in the export`,
  );
}

/** `template` with its placeholders replaced. A field without a value is left out. */
function fill(template: JsonValue, values: Values): JsonValue | undefined {
  if (typeof template === 'string') {
    const [, name] = /^\{([A-Za-z][\w.-]*)\}$/.exec(template) ?? [];
    return name === undefined ? render(template, values) : values(name);
  }
  if (typeof template !== 'object' || template === null) return template;
  if (Array.isArray(template)) {
    return (template as readonly JsonValue[]).map((item) => fill(item, values)).filter((item) => item !== undefined);
  }
  return Object.fromEntries(
    Object.entries(template).flatMap(([name, item]) => {
      const value = fill(item, values);
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

/** The header names for a vendor: the request's as documented, the response's in lower case, as undici returns it. */
export const headerNames = (vendor: string): { readonly apiKey: string; readonly cursor: string } => ({
  apiKey: `X-${vendor}-API-KEY`,
  cursor: `x-${vendor.toLowerCase()}-cursor`,
});
