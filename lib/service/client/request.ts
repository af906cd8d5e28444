/**
 * Builds the HTTP request for a page, from a description of the API. That of the Report Export Service is here, too
 * (docs/service-contract.md, sections 2.1 and 4.1).
 */

import { ExportError } from '../../core/errors.ts';
import type { Cursor, ExportRequest, Instant, JsonObject, JsonValue } from '../../core/model.ts';
import type { PageRequest } from '../../core/ports.ts';
import { filterBefore, filterOf } from '../../core/filter.ts';
import { epochMsOf, instantOf } from '../../core/timestamps.ts';
import { type Api, mediaTypesOf, unitOfDates, uses } from '../../settings/api-settings.ts';
import { commonHeaders, type HeaderSettings } from '../../settings/network-settings.ts';
import type { ServiceSettings } from '../../settings/settings.ts';
import { type ContentEncoding, decodable } from './content-encoding.ts';

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
    page: isXml({ format, container }) ? { format: 'xml', types: ['application/xml'] } : { format: 'bytes' },
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
  const body = requestBody(api, request);
  const types = mediaTypesOf(api.page);
  const { to } = api.next;
  return {
    method: api.request.method,
    path: requestPath(base, api, request),
    headers: {
      ...commonHeaders(settings),
      ...(settings.api === undefined ? {} : { accept: types.join(', '), 'cache-control': 'no-cache' }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      'accept-encoding': acceptedEncodings(settings).join(', ') || 'identity',
      ...(to?.header === undefined || request.cursor === null ? {} : { [to.header]: request.cursor }),
      ...credentials,
    },
    body,
  };
}

/** What a response may be compressed with. */
export const acceptedEncodings = ({ compression }: Pick<RequestSettings, 'compression'>): readonly ContentEncoding[] =>
  compression ? decodable : [];

/** Path and query. The comma of a cursor is encoded as `%2C` (docs/service-contract.md, section 2.2). */
export function requestPath(base: URL, api: RequestedApi, request: PageRequest): string {
  const { next, request: template } = api;
  const { cursor } = request;
  // The path and query of a link, as the service wrote them.
  if (cursor !== null && isUrl(api)) return cursor;
  const values = valuesOf(api, request);
  const path = endpointPath(base, render(template.path, values, encodeURIComponent) ?? missing(template.path));
  const parameters = cursor !== null && next.alone === true ? {} : template.query;
  const query = Object.entries(parameters ?? {}).flatMap(([name, text]) => {
    const value = render(text, values);
    return value === undefined || (cursor !== null && name === next.to?.query) ? [] : [[name, value] as const];
  });
  if (cursor !== null && next.to?.query !== undefined) query.push([next.to.query, cursor]);
  if (query.length === 0) return path;
  const text = query.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`).join('&');
  return `${path}${path.includes('?') ? '&' : '?'}${text}`;
}

export const isUrl = ({ next }: Pick<Api, 'next'>): boolean =>
  (next.is ?? (next.from === 'link' ? 'url' : 'cursor')) === 'url';

const endpointPath = (base: URL, path: string): string => `${base.pathname.replace(/\/+$/, '')}${path}`;

/** The same for every page of a run (docs/service-contract.md, section 4.1, rule 6), but for the cursor. */
function requestBody(api: RequestedApi, request: PageRequest): string | undefined {
  const { next, request: template } = api;
  const { cursor } = request;
  if (template.method === 'GET') return undefined;
  const values = valuesOf(api, request);
  const isAlone = cursor !== null && next.alone === true;
  const body = isAlone ? {} : ((fill(template.body ?? {}, values) ?? {}) as JsonObject);
  if (cursor === null || next.to?.body === undefined) return JSON.stringify(body);
  return JSON.stringify(withValueAt(body, keysOf(next.to.body), jsonCursor(api, cursor)));
}

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
  const [, ...query] = requestPath(base, api, request).split('?');
  const parameters = new URLSearchParams(query.join('?')).keys();
  const body = requestBody(api, request);
  const fields = new Set([...parameters, ...(body === undefined ? [] : fieldsIn(JSON.parse(body)))]);
  const { since, until } = request;
  // The contract has both in its filter, in the one form that there is.
  if (request.request.api.pagination === undefined) {
    return { fields: [...fields], since, until: api.filterUntil === undefined ? undefined : until, dates: [] };
  }
  const bounds = (['since', 'until'] as const).filter((name) => uses(api, name));
  const values = valuesOf(api, request);
  return {
    fields: [...fields],
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

/** The keys of a JSON Pointer. */
const keysOf = (pointer: string): readonly string[] =>
  pointer
    .split('/')
    .slice(1)
    .map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));

/** What the request for the first page has in the place of a cursor: `*`, for example. */
export function firstCursor(api: RequestedApi, request: PageRequest): string | undefined {
  const { to } = api.next;
  const template =
    to?.body === undefined
      ? api.request.query?.[to?.query ?? '']
      : keysOf(to.body).reduce<JsonValue | undefined>(
          (parent, key) => (typeof parent === 'object' ? (parent as JsonObject | null)?.[key] : undefined),
          api.request.body,
        );
  const value = template === undefined ? undefined : fill(template, valuesOf(api, request));
  return value === undefined || (typeof value === 'string' && !isJsonText(api)) ? value : JSON.stringify(value);
}

/** A cursor from JSON is the text of a JSON value, so that a number with twenty digits is sent back as it was received. */
export const isJsonText = ({ next, page }: Pick<Api, 'next' | 'page'>): boolean =>
  next.from === 'body' && page.format === 'json' && next.to?.body !== undefined;

/** Node.js has it, but TypeScript does not know it yet. */
type JsonWithRawValues = JSON & { rawJSON(text: string): unknown };

function jsonCursor(api: Api, cursor: Cursor): unknown {
  return isJsonText(api) ? (JSON as JsonWithRawValues).rawJSON(cursor) : cursor;
}

/** `parent` with `value` at `path`. What else it has stays; what is neither an object nor an array is replaced. */
function withValueAt(parent: unknown, [key = '', ...rest]: readonly string[], value: unknown): object {
  const isArray = Array.isArray(parent);
  const children: Readonly<Record<string, unknown>> =
    typeof parent === 'object' && parent !== null ? { ...parent } : {};
  const child = rest.length === 0 ? value : withValueAt(Object.hasOwn(children, key) ? children[key] : {}, rest, value);
  const changed = { ...children, [key]: child };
  return isArray ? Object.values(changed) : changed;
}

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
  const names = [...template.matchAll(placeholder)].map(([, name = '']) => name);
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
