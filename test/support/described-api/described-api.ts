/**
 * Serves the API that a description in the settings describes (`services.<name>.api`), for tests. It is the inverse of the client,
 * and independent of it: a request must be what the templates make, and nothing else.
 *
 * The simulator keeps no state, so a cursor contains its own position; if it is sent alone, also the values of the
 * placeholders. An HMAC covers both. Cursors and links
 * have several forms, chosen by the HMAC, so that a client meets numbers of many digits, characters that each format
 * escapes, relative and absolute URLs, and links beside the next one.
 */

import { createHmac } from 'node:crypto';
import type { JsonObject, JsonValue } from '../../../lib/core/model.ts';
import type { Position, ReportSource } from '../../../lib/service/simulator/report-source.ts';
import {
  isFields,
  isSameSecret,
  parseJson,
  receivedBody,
  type ReceivedRequest,
  Rejection,
} from '../../../lib/service/simulator/request.ts';
import { type Headers, type Page, selectPage, type Validate } from '../../../lib/service/simulator/response.ts';
import { type Api, isUrl, mediaTypesOf } from '../../../lib/settings/api-settings.ts';
import type { AnyOf } from '../../../lib/settings/fields.ts';
import { createPageWriter, type PageContent, type PageValue, segmentsOf } from './described-page.ts';

const defaultPageSize = 100;
/** The query parameter of a link to the next page. */
const linkParameter = 'continue-at';

/** The values of the placeholders in a request, by name. */
type Values = ReadonlyMap<string, JsonValue>;

interface ApiOptions {
  readonly apiKey: string;
  readonly reports: ReportSource;
  readonly seed?: string | number | undefined;
}

/** @throws ConfigurationError if no document can have all that the description names */
export function describedApi(api: Api, { apiKey, reports, seed = 1 }: ApiOptions): Validate {
  const sign = (text: string) => createHmac('sha256', `api ${seed}`).update(text).digest();
  const cursors = createCursors(api, sign);
  const writePage = createPageWriter(api);
  const tokens = createTokens(api.auth, apiKey, sign);
  const initial = initialCursor(api);

  return (received, at) => {
    if (tokens.isRequested(received)) {
      const response = tokens.issue(received, at);
      return { cursor: undefined, isForPage: false, answer: () => response };
    }
    assertAuthorized(api.auth, received, apiKey, (token) => tokens.isValid(token, at));
    const { cursor, values } = readRequest(api, received);
    return {
      cursor: cursor === undefined ? undefined : String(cursor),
      isForPage: true,
      answer() {
        const issued = cursor === undefined ? undefined : cursors.decode(cursor, values);
        if (cursor !== undefined && issued === undefined) {
          if (api.next.rejected === undefined) throw unknownCursor();
          return respond({ reports: [], hasNext: false, next: undefined, instead: api.next.rejected });
        }
        const selection = readSelection(api, issued?.values ?? values, reports);
        const start = issued?.position ?? { date: Math.max(selection.since, reports.oldest), ordinal: 0 };
        const page = selectPage(reports, selection, { start, limit: selection.size, at });
        const next = findNext(api, page, start);
        const token =
          next === start && cursor === undefined && initial !== undefined
            ? initial
            : next && cursors.encode(next, issued?.values ?? values);
        const variant = token === undefined ? 0 : cursors.variant(token);
        const value = token !== undefined && isUrl(api) ? linkTo(received, String(token), variant) : token;
        const isEmpty = cursor === undefined && page.reports.length === 0;
        const { empty } = api.page;
        if (isEmpty && empty !== undefined && 'status' in empty) {
          return { status: 204, headers: [], body: () => [], reportIds: [] };
        }
        const content = {
          reports: page.reports,
          next: value ?? endOf(api).value,
          hasNext: value !== undefined,
          instead: isEmpty && empty !== undefined && 'at' in empty ? empty : undefined,
        };
        return respond(content, nextHeaders(api, value, variant));
      },
    };
  };

  function respond(content: PageContent, nextHeaders: Headers = []) {
    const { chunks, length } = writePage(content);
    const headers: Headers = [
      ...nextHeaders,
      ['content-type', mediaTypesOf(api.page)[0] ?? 'application/octet-stream'],
      ...(length === undefined ? [] : ([['content-length', String(length)]] as const)),
    ];
    const reportIds = content.reports.map(({ id }) => id);
    return { status: 200, headers, body: chunks, reportIds };
  }
}

const unknownCursor = () =>
  new Rejection('invalid_cursor', 'This service did not issue the cursor for a request with these values');

/**
 * Where the next page starts. Where an end is a cursor that stays the same, every page has one, and the last page, which has no
 * reports, that of its request.
 */
function findNext(api: Api, { reports, next }: Page, start: Position): Position | undefined {
  if (endOf(api).same !== true) return next;
  const last = reports.at(-1);
  return last === undefined ? start : { date: last.date, ordinal: last.ordinal + 1 };
}

const endOf = ({ next }: Api): AnyOf<NonNullable<Api['next']['end']>> => next.end ?? {};

/** Where requests have a cursor; nowhere for a URL. */
const targetOf = ({ next }: Api): AnyOf<Exclude<AnyOf<Api['next']>['to'], 'url' | undefined>> =>
  next.from === 'link' || next.to === 'url' ? {} : next.to;

// Requests

interface DescribedRequest {
  readonly cursor: PageValue | undefined;
  readonly values: Values;
}

/** @throws Rejection with what differs from the description */
function readRequest(api: Api, received: ReceivedRequest): DescribedRequest {
  const { request: template } = api;
  const problems: string[] = [];
  const values = createValues(api, problems);
  const to = targetOf(api);
  const [path = '', search = ''] = received.target.split(/\?([^]*)/);
  const [pathTemplate = '', fixedSearch = ''] = template.path.split(/\?([^]*)/);
  if (!values.matchPath(pathTemplate, path)) {
    throw new Rejection('not_found', `The only path is ${pathTemplate}`);
  }
  if (received.method !== template.method) {
    throw new Rejection('method_not_allowed', `The only method is ${template.method}`, { allow: template.method });
  }

  const parameters = [...new URLSearchParams(search)];
  const place = to.body === undefined ? undefined : segmentsOf(to.body);
  const body = template.method === 'GET' ? undefined : readBody(received, place?.at(-1));
  if (template.method === 'GET' && received.body?.length !== 0) problems.push('a GET must not have a body');
  const initial = initialCursor(api);
  const cursorName = isUrl(api) ? linkParameter : to.query;
  const sent =
    cursorName !== undefined
      ? parameters.find(([name]) => name === cursorName)?.[1]
      : to.header !== undefined
        ? received.headers[to.header.toLowerCase()]
        : place && body && (valueAt(body, place) as PageValue | object | undefined);
  const cursor = sent === initial || typeof sent === 'object' ? undefined : sent;
  const isAlone = cursor !== undefined && to.alone === true;

  const query = Object.entries(isAlone ? {} : (template.query ?? {}));
  const isCursor = ([name]: readonly [string, unknown]) => cursor !== undefined && name === cursorName;
  values.matchQuery(
    [...new URLSearchParams(fixedSearch), ...query.filter((one) => !isCursor(one))],
    parameters.filter((one, index) => !isCursor(one) || parameters.findIndex(isCursor) !== index),
  );
  if (body !== undefined) {
    const expected = isAlone ? {} : (template.body ?? {});
    const without = (object: JsonObject) =>
      cursor === undefined || place === undefined ? object : withoutValueAt(object, place);
    if (!values.matchJson(without(expected), without(body))) problems.push('the body is not that of the description');
  }
  if (problems.length > 0) throw new Rejection('invalid_request', problems.join('; '));
  return { cursor, values: values.all };
}

/** A cursor, which is the value of `cursorName`, may be a number that only a BigInt can represent. */
function readBody(received: ReceivedRequest, cursorName: string | undefined): JsonObject {
  const body = parseJson(receivedBody(received, 'application/json'), (name, value, ...context: unknown[]) => {
    const [{ source = '' } = {}] = context as { readonly source?: string }[];
    return name === cursorName && /^\d{16,}$/.test(source) ? BigInt(source) : value;
  });
  if (!isFields(body)) throw new Rejection('invalid_request', 'the body must be an object');
  return body as JsonObject;
}

/** What the template has in the place of the cursor: a first request says so with it. */
function initialCursor(api: Api): string | number | boolean | undefined {
  const { request } = api;
  const to = targetOf(api);
  if (to.query !== undefined) return request.query?.[to.query];
  const value = to.body === undefined ? undefined : valueAt(request.body ?? {}, segmentsOf(to.body));
  return typeof value === 'object' ? undefined : (value as string | number | boolean | undefined);
}

function valueAt(object: JsonObject, [name = '', ...rest]: readonly string[]): JsonValue | undefined {
  const value = Object.hasOwn(object, name) ? object[name] : undefined;
  if (rest.length === 0) return value;
  return isFields(value) ? valueAt(value as JsonObject, rest) : undefined;
}

/** Without the value, and without the objects that contain nothing else. */
function withoutValueAt(object: JsonObject, [name = '', ...rest]: readonly string[]): JsonObject {
  const { [name]: value, ...others } = object;
  if (rest.length === 0 || !isFields(value)) return rest.length === 0 ? others : object;
  const inner = withoutValueAt(value as JsonObject, rest);
  return Object.keys(inner).length === 0 ? others : { ...others, [name]: inner };
}

const dateForms: Readonly<Record<Api['dates'], { readonly pattern: string; readonly unitMs: number | undefined }>> = {
  iso: { pattern: String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`, unitMs: undefined },
  'iso-ms': { pattern: String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`, unitMs: undefined },
  epoch: { pattern: String.raw`-?\d+`, unitMs: 1_000 },
  'epoch-ms': { pattern: String.raw`-?\d+`, unitMs: 1 },
  date: { pattern: String.raw`\d{4}-\d\d-\d\d`, unitMs: undefined },
};

const placeholder = /\{([A-Za-z][\w.-]*)\}/;
const isWholePlaceholder = new RegExp(`^${placeholder.source}$`);
const isTime = (name: string): boolean => name === 'since' || name === 'until';

/** Compares a request with templates, and keeps the values of their placeholders. */
function createValues({ dates }: Api, problems: string[]) {
  const all = new Map<string, JsonValue>();
  /** False if another place has another value. */
  const keep = (name: string, value: JsonValue): boolean => {
    const same = JSON.stringify(all.get(name) ?? value) === JSON.stringify(value);
    all.set(name, value);
    return same;
  };
  const patternOf = (name: string): string =>
    isTime(name) ? dateForms[dates].pattern : name === 'size' ? String.raw`\d+` : '[^]*?';
  /** Of a part of a request that has no placeholder with a value, nothing is sent. A bound of the time always has one. */
  const isOptional = (template: string): boolean => {
    const names = template.split(placeholder).filter((_, index) => index % 2 === 1);
    return names.length > 0 && !names.some(isTime);
  };

  function match(template: string, text: string): boolean {
    const parts = template.split(placeholder);
    const source = parts.map((part, index) =>
      index % 2 === 1 ? `(${patternOf(part)})` : part.replace(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`),
    );
    const found = new RegExp(`^${source.join('')}$`).exec(text);
    const names = parts.filter((_, index) => index % 2 === 1);
    return found !== null && names.every((name, index) => keep(name, found[index + 1] ?? ''));
  }

  function matchPath(template: string, path: string): boolean {
    const segments = path.split('/');
    const expected = template.split('/');
    const isMatch = (text: string, index: number) =>
      match(decodeURIComponent(text), decodeURIComponent(segments[index] ?? ''));
    try {
      return segments.length === expected.length && expected.every(isMatch);
    } catch {
      return false;
    }
  }

  function matchQuery(
    template: readonly (readonly [string, string])[],
    parameters: readonly (readonly [string, string])[],
  ): void {
    const expected = new Map(template);
    for (const [name, value] of parameters) {
      const text = expected.get(name);
      expected.delete(name);
      if (text === undefined) problems.push(`the description does not show this query parameter: ${name}`);
      else if (!match(text, value)) problems.push(`the query parameter ${name} must be ${text}`);
    }
    for (const [name, text] of expected) {
      if (!isOptional(text)) problems.push(`the query parameter ${name} is missing`);
    }
  }

  function matchJson(template: JsonValue, value: JsonValue): boolean {
    if (typeof template === 'string') {
      const [, name] = isWholePlaceholder.exec(template) ?? [];
      if (name === undefined) return typeof value === 'string' && match(template, value);
      if (!isTime(name) && name !== 'size') return keep(name, value);
      const isNumber = name === 'size' || dateForms[dates].unitMs !== undefined;
      if (typeof value !== 'string' && typeof value !== 'number') return false;
      return (typeof value === 'number') === isNumber && match(template, String(value));
    }
    if (Array.isArray(template)) {
      if (!Array.isArray(value)) return false;
      const items = value as readonly JsonValue[];
      let left = template.length - items.length;
      const expected = (template as readonly JsonValue[]).filter(
        (item) => left <= 0 || typeof item !== 'string' || !isOptional(item) || (left -= 1) < 0,
      );
      return expected.length === items.length && expected.every((item, at) => matchJson(item, items[at] ?? null));
    }
    if (typeof template !== 'object' || template === null) return template === value;
    if (!isFields(value)) return false;
    const object = value as JsonObject;
    return (
      Object.keys(object).every((name) => Object.hasOwn(template, name)) &&
      Object.entries(template as JsonObject).every(([name, item]) =>
        Object.hasOwn(object, name)
          ? matchJson(item, object[name] as JsonValue)
          : typeof item === 'string' && isOptional(item),
      )
    );
  }

  return { all, matchPath, matchQuery, matchJson };
}

function readSelection({ dates }: Api, values: Values, { oldest }: ReportSource) {
  const time = (name: string, otherwise: number): number => {
    const text = values.get(name) as string | undefined;
    if (text === undefined) return otherwise;
    const { unitMs } = dateForms[dates];
    const ms = unitMs === undefined ? Date.parse(text) : Number(text) * unitMs;
    if (Number.isNaN(ms)) throw new Rejection('invalid_request', `${name} is not a date: ${text}`);
    return ms;
  };
  const size = Number(values.get('size') ?? defaultPageSize);
  if (size < 1) throw new Rejection('invalid_request', 'the size must be at least 1');
  const filter = values.get('filter');
  const type = values.get('filter.type') ?? (isFields(filter) ? (filter as JsonObject).type : undefined);
  return {
    since: time('since', oldest),
    until: time('until', Infinity),
    size,
    type: typeof type === 'string' ? type : undefined,
  };
}

// The next page

function createCursors(api: Api, sign: (text: string) => Buffer) {
  const isRepeated = targetOf(api).alone !== true;
  const isInJson = api.next.from === 'body' && api.page.format === 'json';
  const isSentAsJson = isInJson && targetOf(api).body !== undefined;
  const prefixes = ['', isSentAsJson ? 'Łódź\t"\\/ ' : `a"b'\\<&>%2C,;+ `];
  /** One of several forms. */
  const variant = (value: PageValue): number => sign(`variant ${value}`)[0] ?? 0;

  function encode({ date, ordinal }: Position, values: Values): PageValue {
    const sorted = [...values].toSorted(([one], [other]) => (one < other ? -1 : 1));
    const content = JSON.stringify([date, ordinal, ...(isRepeated ? [] : [sorted])]);
    const mac = sign(JSON.stringify([content, sorted])).subarray(0, 6);
    const bytes = Buffer.concat([mac, Buffer.from(content)]);
    if (isUrl(api)) return bytes.toString('base64url');
    const form = (mac[0] ?? 0) % 3;
    if (form === 2 && isInJson) return BigInt(`0x1${bytes.toString('hex')}`);
    return `${prefixes[form % 2] ?? ''}${bytes.toString('base64')}`;
  }

  /** Undefined if the cursor is not one of a request with these values. */
  function decode(cursor: PageValue, received: Values) {
    const text = String(cursor);
    const bytes = /^\d{30,}$/.test(text)
      ? Buffer.from(BigInt(text).toString(16).slice(1), 'hex')
      : Buffer.from(text.slice(text.lastIndexOf(' ') + 1), 'base64');
    try {
      const [date, ordinal, kept] = JSON.parse(bytes.subarray(6).toString()) as [number, number, [string, JsonValue][]];
      const position = { date, ordinal };
      const values = isRepeated ? received : new Map(kept);
      const expected = encode(position, values);
      const isSame = isSentAsJson ? cursor === expected : text === String(expected);
      if (isSame) return { position, values };
    } catch {
      // It is none of ours.
    }
    return undefined;
  }

  return { encode, decode, variant };
}

/** The URL of the next page: absolute, with an absolute path, or with the query only. */
function linkTo({ target, headers }: ReceivedRequest, token: string, variant: number): string {
  const [path = '', search = ''] = target.split(/\?([^]*)/);
  const kept = search.split('&').filter((part) => part !== '' && !part.startsWith(`${linkParameter}=`));
  const query = `?${[...kept, `${linkParameter}=${token}`].join('&')}`;
  return [`http://${headers.host ?? ''}${path}${query}`, `${path}${query}`, query][variant % 3] ?? query;
}

function nextHeaders(api: Api, value: PageValue | undefined, variant: number): Headers {
  const { from, at } = api.next;
  if (from === 'body') return [];
  const text = value ?? endOf(api).value;
  if (from === 'header') return text === undefined ? [] : [[at, String(text)]];
  const link = text === undefined ? [] : [`<${text}>; rel="${at}"`];
  // A reader of commas alone, or of `rel=` anywhere, finds another link.
  const others = [`</help?a=1,2>; title="a, b; rel=${at}"; rel="help"`, '</>; rel=index'];
  const links = [link, [...link, ...others], [...others, ...link], [...others, ...link]][variant % 4] ?? link;
  if (variant % 4 === 3) return links.map((one) => ['link', one]);
  return links.length === 0 ? [] : [['link', links.join(', ')]];
}

// Authentication

function assertAuthorized(
  { kind, name = 'authorization', prefix = '' }: AnyOf<Api['auth']>,
  { headers }: ReceivedRequest,
  apiKey: string,
  isToken: (token: string) => boolean,
): void {
  const expected = { none: '', header: prefix, basic: 'Basic ', bearer: 'Bearer ', oauth2: 'Bearer ' }[kind ?? 'none'];
  const value = headers[name.toLowerCase()];
  const key = typeof value === 'string' && value.startsWith(expected) ? value.slice(expected.length) : undefined;
  const isAuthorized =
    kind === 'none' ||
    (key !== undefined &&
      (kind === 'oauth2'
        ? isToken(key)
        : isSameSecret(key, kind === 'basic' ? Buffer.from(apiKey).toString('base64') : apiKey)));
  if (!isAuthorized) throw new Rejection('unauthorized', `The header ${name} is missing, or its key is invalid`);
}

/** How long an access token is valid. */
const tokenSeconds = 120;

/** Access tokens for the client credentials grant (RFC 6749, section 4.4). */
function createTokens(auth: AnyOf<Api['auth']>, apiKey: string, sign: (text: string) => Buffer) {
  const path = auth.tokenUrl === undefined ? undefined : new URL(auth.tokenUrl).pathname;
  const tokenFor = (expiry: number) => `${expiry}.${sign(`token ${apiKey} ${expiry}`).toString('base64url')}`;

  return {
    isRequested: ({ target }: ReceivedRequest) => path !== undefined && target.split('?')[0] === path,
    isValid(token: string, at: number): boolean {
      const expiry = Number(token.split('.')[0]);
      return expiry > at && isSameSecret(token, tokenFor(expiry));
    },
    issue(received: ReceivedRequest, now: number) {
      if (received.method !== 'POST') {
        throw new Rejection('method_not_allowed', 'The only method is POST', { allow: 'POST' });
      }
      const form = new URLSearchParams(receivedBody(received, 'application/x-www-form-urlencoded'));
      const [, basic] = /^Basic (.+)$/.exec(received.headers.authorization ?? '') ?? [];
      const [id, ...secret] = Buffer.from(basic ?? '', 'base64')
        .toString()
        .split(':');
      // Both are encoded as in a form (section 2.3.1).
      const decode = (text = '') => new URLSearchParams(`text=${text}`).get('text') ?? '';
      if (decode(id) !== auth.clientId || !isSameSecret(decode(secret.join(':')), apiKey)) {
        throw new Rejection('unauthorized', 'The client ID or the secret is wrong');
      }
      if (form.get('grant_type') !== 'client_credentials' || (form.get('scope') ?? undefined) !== auth.scope) {
        throw new Rejection('invalid_request', 'The grant type or the scope is not that of the description');
      }
      const token = tokenFor(now + tokenSeconds * 1_000);
      const body = Buffer.from(JSON.stringify({ access_token: token, token_type: 'Bearer', expires_in: tokenSeconds }));
      const headers: Headers = [
        ['content-type', 'application/json'],
        ['content-length', String(body.length)],
      ];
      return { status: 200, headers, body: () => [body], reportIds: [] };
    },
  };
}
