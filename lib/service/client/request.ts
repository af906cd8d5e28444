/**
 * Builds the HTTP request for a page, from a description of the API. That of the Report Export Service is here, too
 * (docs/service-contract.md, sections 2.1 and 4.1).
 */

import { ExportError } from '../../core/errors.ts';
import { filterBefore, filterOf } from '../../core/filter.ts';
import type { ExportRequest, Instant, JsonObject, JsonValue } from '../../core/model.ts';
import type { PageRequest } from '../../core/ports.ts';
import { epochMsOf, instantOf } from '../../core/timestamps.ts';
import { isGraphql, placeholdersIn } from '../../settings/api-request.ts';
import { type Api, isUrl, mediaTypesOf, unitOfDates } from '../../settings/api-settings.ts';
import type { AnyOf } from '../../settings/fields.ts';
import { commonHeaders, type HeaderSettings } from '../../settings/network-settings.ts';
import { defaultVendor, type ServiceSettings } from '../../settings/settings.ts';

type ApiSettings = Pick<ServiceSettings, 'vendor' | 'cursorIn' | 'filterUntil' | 'api'>;
export type RequestSettings = ApiSettings & Pick<ServiceSettings, 'compression'> & HeaderSettings;

/** A description with what only that of the Report Export Service has: bounds in the filter. */
export type RequestedApi = Api & Pick<ServiceSettings, 'filterUntil'>;

/** The description of the service for a run with this request. */
export const apiFor = (settings: ApiSettings, request: ExportRequest): RequestedApi =>
  settings.api ?? contractApi(settings, request);

export const authOf = ({ vendor, api }: Pick<RequestSettings, 'vendor' | 'api'>): Api['auth'] =>
  api?.auth ?? { kind: 'header', name: headerNames(vendor).apiKey };

/** The header names for a vendor: the request's as documented, the response's in lower case, as undici returns it. */
export const headerNames = (vendor = defaultVendor): { readonly apiKey: string; readonly cursor: string } => ({
  apiKey: `X-${vendor}-API-KEY`,
  cursor: `x-${vendor.toLowerCase()}-cursor`,
});

/** The Report Export Service. The cursor is sent in one place only, and with it, the body of every page is the same. */
function contractApi(
  { vendor, cursorIn, filterUntil }: ApiSettings,
  { format, container }: ExportRequest,
): RequestedApi {
  const body = { filter: '{filter}', format: '{format}', container: '{container}', size: '{size}' };
  const to = cursorIn === 'body' ? { body: '/cursor' } : { query: 'cursor' };
  const isXml = format === 'XML' && container === 'NONE';
  return {
    request: { method: 'POST', path: '/v1/report/export', body },
    dates: 'iso',
    auth: authOf({ vendor }),
    next: { from: 'header', at: headerNames(vendor).cursor, to },
    page: isXml ? { format: 'xml', types: ['application/xml'] } : { format: 'bytes', types: [] },
    filterUntil,
  };
}

/** The request in undici's form, without origin, signal, and the header that authenticates it. */
export function httpRequest(base: URL, api: RequestedApi, request: PageRequest, settings: RequestSettings) {
  const first = firstRequest(base.pathname, api, request);
  const cursor = sentCursor(api, request);
  const { path, query, headers, body, form } = cursor === null ? first : withCursor(api, first, cursor);
  // The comma of a cursor is encoded as `%2C` (docs/service-contract.md, section 2.2).
  const search = query.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`).join('&');
  const type = form !== undefined ? 'application/x-www-form-urlencoded' : body && 'application/json';
  return {
    method: api.request.method,
    path: search === '' ? path : `${path}${path.includes('?') ? '&' : '?'}${search}`,
    headers: {
      ...commonHeaders(settings),
      ...(settings.api === undefined ? {} : { accept: mediaTypesOf(api.page).join(', '), 'cache-control': 'no-cache' }),
      ...(type === undefined ? {} : { 'content-type': type }),
      'accept-encoding': settings.compression ? 'gzip' : 'identity',
      ...headers,
    },
    body:
      form === undefined
        ? body && JSON.stringify(body)
        : new URLSearchParams(form.map(([...field]) => field)).toString(),
  };
}

/** A request before it is encoded. */
interface RequestParts {
  /** With the fixed part of the query. */
  readonly path: string;
  readonly query: readonly Parameter[];
  readonly headers: Readonly<Record<string, string>>;
  /** Undefined: GET, or a form. */
  readonly body?: JsonObject;
  readonly form?: readonly Parameter[];
}

type Parameter = readonly [name: string, value: string];

/** The request for the first page of a run (docs/service-contract.md, section 4.1, rule 6). */
function firstRequest(basePath: string, api: RequestedApi, request: PageRequest): RequestParts {
  const { path, query, method, body = {}, form } = api.request;
  const values = valuesOf(api, request);
  const parameters = (templates: Readonly<Record<string, string>> = {}): readonly Parameter[] =>
    Object.entries(templates).flatMap(([name, text]) => {
      const value = render(text, values);
      return value === undefined ? [] : [[name, value] as const];
    });
  return {
    path: `${basePath.replace(/\/+$/, '')}${render(path, values, encodeURIComponent) ?? missing(path)}`,
    query: parameters(query),
    headers: {},
    body: method === 'GET' || form !== undefined ? undefined : ((fillBody(body, values) ?? {}) as JsonObject),
    form: form && parameters(form),
  };
}

type CursorTarget = AnyOf<Exclude<AnyOf<Api['next']>['to'], 'url' | undefined>>;

const targetOf = ({ to }: AnyOf<Api['next']>): CursorTarget => (typeof to === 'object' ? to : {});

/** What a request sends of its cursor: of counted pages, the number, also of the first one. */
const sentCursor = ({ next }: Api, { cursor }: Pick<PageRequest, 'cursor'>): string | null =>
  next.from === 'count' ? String(cursor === null ? next.first : Number.parseInt(cursor, 10)) : cursor;

/** The request for the page of a cursor, from `first`, that for the first page. */
function withCursor(api: Api, first: RequestParts, cursor: string): RequestParts {
  // The path and query of a link, as the service wrote them.
  if (isUrl(api)) return { ...first, path: cursor, query: [] };
  const { query, header, form, body = '', alone = false } = targetOf(api.next);
  const parts = alone ? { ...first, query: [], body: first.body && {}, form: first.form && [] } : first;
  const replace = (parameters: readonly Parameter[], name: string): readonly Parameter[] => [
    ...parameters.filter(([each]) => each !== name),
    [name, cursor],
  ];
  if (query !== undefined) return { ...parts, query: replace(parts.query, query) };
  if (form !== undefined) return { ...parts, form: replace(parts.form ?? [], form) };
  if (header !== undefined) return { ...parts, headers: { [header]: cursor } };
  const value = isJsonText(api) ? (JSON as JsonWithRawValues).rawJSON(cursor) : cursor;
  return { ...parts, body: withValueAt(parts.body, keysOf(body), value) as JsonObject };
}

/** What the request for the first page has in the place of a cursor: `*`, for example. */
export function firstCursor(api: RequestedApi, request: PageRequest): string | undefined {
  const { query, body, form = [] } = firstRequest('', api, request);
  const target = targetOf(api.next);
  if (target.form !== undefined) return form.find(([name]) => name === target.form)?.[1];
  if (target.body === undefined) return query.find(([name]) => name === target.query)?.[1];
  const value = keysOf(target.body).reduce<unknown>(
    (parent, key) => (typeof parent === 'object' ? (parent as JsonObject | null)?.[key] : undefined),
    body,
  );
  return typeof value === 'string' && !isJsonText(api) ? value : JSON.stringify(value);
}

/** A cursor from JSON is the text of a JSON value, so that a number with twenty digits is sent back as it was received. */
export const isJsonText = ({ next, page }: Pick<Api, 'next' | 'page'>): boolean => {
  const isInJson = (next.from === 'body' || next.from === 'report') && page.format === 'json';
  return (isInJson || next.from === 'count') && targetOf(next).body !== undefined;
};

/** Node.js has it, but TypeScript does not know it yet. */
type JsonWithRawValues = JSON & { rawJSON(text: string): unknown };

/** The keys of a JSON Pointer. */
const keysOf = (pointer: string): readonly string[] =>
  pointer
    .split('/')
    .slice(1)
    .map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));

/** `parent` with `value` at `path`. What else it has stays; what is neither an object nor an array is replaced. */
function withValueAt(parent: unknown, [key = '', ...rest]: readonly string[], value: unknown): object {
  const children: Readonly<Record<string, unknown>> =
    typeof parent === 'object' && parent !== null ? { ...parent } : {};
  const child = rest.length === 0 ? value : withValueAt(Object.hasOwn(children, key) ? children[key] : {}, rest, value);
  const changed = { ...children, [key]: child };
  return Array.isArray(parent) ? Object.values(changed) : changed;
}

/** The value of each placeholder. */
type Values = Readonly<Record<string, JsonValue | undefined>>;

function valuesOf(api: RequestedApi, { request, since, until: bound, begunAt }: PageRequest): Values {
  const { size, format, container, filter } = request;
  // A placeholder must have a value.
  const until = writeDate(api, bound ?? begunAt, Math.ceil);
  const whole = filterOf(request, since);
  return {
    since: writeDate(api, since, Math.floor),
    until,
    size,
    format,
    container,
    filter: bound === undefined || api.filterUntil === undefined ? whole : filterBefore(whole, api.filterUntil, until),
    ...Object.fromEntries(Object.entries(filter).map(([name, value]) => [`filter.${name}`, value])),
  };
}

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

/** The text with its placeholders replaced; undefined if one has no value. */
function render(
  template: string,
  values: Values,
  encode: (text: string) => string = (text) => text,
): string | undefined {
  const names = placeholdersIn(template);
  if (names.some((name) => values[name] === undefined)) {
    // Without its lower bound, a request would select everything.
    return names.some((name) => name === 'since' || name === 'until') ? missing(template) : undefined;
  }
  return template.replaceAll(/\{([A-Za-z][\w.-]*)\}/g, (_, name: string) => {
    const value = values[name];
    if (typeof value !== 'object') return encode(String(value));
    const message = `${name}: must be text, a number or a boolean, as it is part of a text in api.request`;
    throw new ExportError('ConfigurationError', message);
  });
}

function missing(template: string): never {
  const message = `api.request: ${template} needs a value for each of its placeholders. Set it in the export`;
  throw new ExportError('ConfigurationError', message);
}

/** The query of GraphQL has braces of its own. */
const fillBody = (body: JsonObject, values: Values): JsonValue | undefined =>
  isGraphql(body)
    ? { ...(fill({ ...body, query: '' }, values) as JsonObject), query: body.query ?? '' }
    : fill(body, values);

/** `template` with its placeholders replaced. A field without a value is left out. */
function fill(template: JsonValue, values: Values): JsonValue | undefined {
  if (typeof template === 'string') {
    const [, name] = /^\{([A-Za-z][\w.-]*)\}$/.exec(template) ?? [];
    return name === undefined ? render(template, values) : values[name];
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
