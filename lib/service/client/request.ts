/** Builds the HTTP request for a page, from the description of the API. */

import { ExportError } from '../../core/errors.ts';
import { filterBefore, filterOf } from '../../core/filter.ts';
import type { JsonObject, JsonValue } from '../../core/model.ts';
import type { PageRequest } from '../../core/ports.ts';
import { writeDate } from '../api/dates.ts';
import type { Description } from '../api/description.ts';
import { decodeText, parseExactly } from '../api/next/cursor-text.ts';
import { formOfNext, kindOf } from '../api/next/kinds.ts';
import { furtherRequest, valueInPlace, type WithTarget } from '../api/next/target.ts';
import { isGraphql, type Parameter, placeholderPattern, placeholdersIn, type RequestParts } from '../api/request.ts';
import { commonHeaders, type HeaderSettings } from '../../settings/network-settings.ts';
import type { ServiceSettings } from '../../settings/settings.ts';

export type RequestSettings = Pick<ServiceSettings, 'compression'> & HeaderSettings;

/** A request for a page, or for the job whose result it is. */
export interface DescribedRequest extends PageRequest {
  /** The value of `{item}`. */
  readonly item?: string | undefined;
  /** The value of `{poll:/path}`; undefined: the response to the last poll has none. */
  readonly polled?: ((path: string) => string | undefined) | undefined;
}

/** The request in undici's form, without origin, signal, and the header that authenticates it. */
export function httpRequest(base: URL, api: Description, request: DescribedRequest, settings: RequestSettings) {
  const withoutCursor = partsOf(base.pathname, api, request);
  const { path, query, rawQuery, headers, body, form } = kindOf(api.next).write(withoutCursor, request.cursor, {
    ...api,
    form: formOfNext(api),
  });
  // The comma of a cursor is encoded as `%2C` (docs/service-contract.md, section 2.2).
  const own = query.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`);
  const search = [...own, ...(rawQuery === undefined ? [] : [rawQuery])].join('&');
  const type = form !== undefined ? 'application/x-www-form-urlencoded' : body && 'application/json';
  const names = Object.keys(headers).map((name) => name.toLowerCase());
  const others = Object.entries(api.headers).filter(([name]) => !names.includes(name));
  return {
    method: withoutCursor.method,
    path: search === '' ? path : `${path}${path.includes('?') ? '&' : '?'}${search}`,
    headers: {
      ...commonHeaders(settings),
      ...Object.fromEntries(others),
      ...(type === undefined || names.includes('content-type') ? {} : { 'content-type': type }),
      'accept-encoding': settings.compression ? 'gzip' : 'identity',
      ...headers,
    },
    body:
      form === undefined
        ? body && JSON.stringify(body)
        : new URLSearchParams(form.map(([...field]) => field)).toString(),
  };
}

/** The request for a page before its cursor is written (docs/service-contract.md, section 4.1, rule 6). */
function partsOf(
  basePath: string,
  api: Description,
  request: DescribedRequest,
): RequestParts & { readonly method: 'GET' | 'POST' } {
  const { path, query, headers, method, body = {}, form } = request.cursor === null ? api.request : furtherRequest(api);
  const values = valuesOf(api, request);
  const parameters = (templates: Readonly<Record<string, string>> = {}): readonly Parameter[] =>
    Object.entries(templates).flatMap(([name, text]) => {
      const value = render(text, values);
      return value === undefined ? [] : [[name, value] as const];
    });
  return {
    method,
    path: `${basePath.replace(/\/+$/, '')}${renderPath(path, values)}`,
    query: parameters(query),
    headers: Object.fromEntries(parameters(headers)),
    body: method === 'GET' || form !== undefined ? undefined : ((fillBody(body, values) ?? {}) as JsonObject),
    form: form && parameters(form),
  };
}

/** What the request sends of its cursor, as a text; on the first page, what stands in its place: `*`, for example. */
export function sentCursor(api: Description, request: PageRequest): string | undefined {
  const { cursor } = request;
  if (cursor === null) return valueInPlace(partsOf('', api, request), api.next as WithTarget);
  return decodeText(cursor);
}

export const pathOfRequest = (base: URL, api: Description, request: PageRequest): string =>
  partsOf(base.pathname, api, { ...request, cursor: null }).path.replace(/\?.*/, '');

/** Internal name of a `{cursor}` that is a whole value in a body, and keeps its type. No placeholder has this name. */
const wholeCursor = 'cursor as a value';

function valueOfCursor(api: Description, cursor: string | null, isWhole: boolean): JsonValue | undefined {
  const { valueInRequest } = kindOf(api.next);
  if (valueInRequest !== undefined) return valueInRequest(cursor, api.next);
  if (cursor === null) return undefined;
  return isWhole && formOfNext(api) === 'json' ? (parseExactly(cursor) as JsonValue) : decodeText(cursor);
}

/** The value of a placeholder. Dates are written only where they are sent. */
type ValueOf = (name: string) => JsonValue | undefined;

function valuesOf(api: Description, request: DescribedRequest): ValueOf {
  const { since, cursor, parent, parentAlso = {}, job, item, polled } = request;
  const { filter, size, format, container } = request.request;
  const others = new Map<string, JsonValue | undefined>([
    ...Object.entries({ size, format, container, job, '+job': job, item }),
    ...Object.entries(parentAlso).map(([name, value]) => [`parent.${name}`, value] as const),
    ...Object.entries(filter).map(([name, value]) => [`filter.${name}`, value] as const),
  ]);
  // Without an upper bound, `{until}` is when the run began, as a placeholder must have a value.
  const until = request.until ?? request.begunAt;
  return (name) => {
    switch (name) {
      case 'since':
        return writeDate(api.dates, 'since', since);
      case 'since-1':
        return writeDate(api.dates, 'since', since, -1);
      case 'until':
        return writeDate(api.dates, 'until', until);
      case 'until-1':
        return writeDate(api.dates, 'until', until, -1);
      case 'parent':
      case '+parent':
        return parent;
      case 'cursor':
      case wholeCursor:
        return valueOfCursor(api, cursor, name === wholeCursor);
      case 'filter':
        return wholeFilter(api, request);
      default:
        return name.startsWith('poll:') ? polled?.(name.slice('poll:'.length)) : others.get(name);
    }
  };
}

function wholeFilter({ dates, filterUntil }: Description, { request, since, until }: PageRequest): JsonObject {
  const whole = filterOf(request, since);
  return until === undefined || filterUntil === undefined
    ? whole
    : filterBefore(whole, filterUntil, writeDate(dates, 'until', until));
}

/** The text with its placeholders replaced; undefined if one has no value. */
function render(
  template: string,
  valueOf: ValueOf,
  encode: (text: string) => string = (text) => text,
): string | undefined {
  const values = new Map(placeholdersIn(template).map((name) => [name, valueOf(name)]));
  const names = [...values.keys()];
  if (names.some((name) => values.get(name) === undefined)) {
    // Without its lower bound, a request would select everything.
    return names.some((name) => /^(since|until)/.test(name)) ? missing(template) : undefined;
  }
  return template.replaceAll(placeholderPattern, (_, name: string) => {
    const value = values.get(name);
    if (name.startsWith('+') && typeof value === 'string') return value.split('/').map(encode).join('/');
    if (typeof value !== 'object') return encode(String(value));
    const message = `${name}: must be text, a number or a boolean, as it is part of the text ${template}`;
    throw new ExportError('ConfigurationError', message);
  });
}

/** @throws ContractError if a value of the service would lead to another path, with the credentials */
function renderPath(template: string, values: ValueOf): string {
  const path = render(template, values, encodeURIComponent) ?? missing(template);
  const isOther = (path.split('?')[0] ?? '').split('/').some((part) => part === '.' || part === '..');
  if (!isOther) return path;
  const message = `The path ${template} in the description has a placeholder whose value is . or .., which would lead to another path`;
  throw new ExportError('ContractError', message);
}

function missing(template: string): never {
  const message = `${template} in the description needs a value for each of its placeholders. Set it in the export`;
  throw new ExportError('ConfigurationError', message);
}

/** The query of GraphQL has braces of its own. */
const fillBody = (body: JsonObject, values: ValueOf): JsonValue | undefined =>
  isGraphql(body)
    ? { ...(fill({ ...body, query: '' }, values) as JsonObject), query: body.query ?? '' }
    : fill(body, values);

/** `template` with its placeholders replaced. A field without a value is left out. */
function fill(template: JsonValue, values: ValueOf): JsonValue | undefined {
  if (typeof template === 'string') {
    const [, name] = /^\{([A-Za-z][\w.-]*)\}$/.exec(template) ?? [];
    return name === undefined ? render(template, values) : values(name === 'cursor' ? wholeCursor : name);
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
