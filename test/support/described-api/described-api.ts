/**
 * Serves the API that a description in the settings describes (`services.<name>.api`), for tests. It finds cursors and
 * writes pages; what else a request has is not its concern. It keeps no state: a cursor contains its position.
 *
 * Cursors and links have several forms, so that a client meets numbers of many digits, characters that each format
 * escapes, relative and absolute URLs, and links beside the next one.
 */

import { zipSync } from 'fflate';
import type { JsonObject, JsonValue } from '../../../lib/core/model.ts';
import { instantOf } from '../../../lib/core/timestamps.ts';
import {
  type Answer,
  type AnswerRequest,
  type Headers,
  type ReceivedRequest,
  Rejection,
  type Report,
  type ReportSource,
} from '../../../lib/service/simulator/report-export-service.ts';
import { type ConditionPart, partsOf, statusesOf, valuesOf } from '../../../lib/service/api/condition.ts';
import { queryOf, sendOf, tokenUrlOf } from '../../../lib/service/api/auth/kinds.ts';
import { fillText } from '../../../lib/service/api/auth/secret.ts';
import type { Api } from '../../../lib/service/api/description.ts';
import { firstOf } from '../../../lib/service/api/next/count.ts';
import { countsReports, mediaTypesOf, reportsIn, statusesOfPages } from '../../../lib/service/api/page.ts';

type KeyOf<Kinds> = Kinds extends unknown ? keyof Kinds : never;
type ValueOf<Kinds, Name> = Kinds extends unknown ? (Name extends keyof Kinds ? Kinds[Name] : never) : never;
/** The fields that any of several kinds of an object has. */
type AnyOf<Kinds> = { readonly [Name in KeyOf<Kinds>]?: ValueOf<Kinds, Name> };

type AnyNext = AnyOf<Api['next']>;

/** How the last page is recognized: by the first part of `last`. Counted pages have none: their total says it. */
export function endOf({ next, last }: Pick<Api, 'next' | 'last'>) {
  const { from, at = '', alsoOnLast = false }: AnyNext = next;
  const part: ConditionPart = partsOf(last)[0] ?? {};
  const place = from === 'header' ? part.header : part.at;
  const isAboutNext = (from === 'header' || from === 'body') && place === at;
  const [value] = valuesOf(part);
  const isSame = isAboutNext && value === '{cursor}';
  const isPart =
    part.at !== undefined &&
    value === null &&
    !isAboutNext &&
    from === 'body' &&
    at.startsWith(part.at) &&
    /^[/[]/.test(at.slice(part.at.length));
  return {
    part,
    /** The last page has the cursor of its request. */
    isSame,
    /** The last page has this in the place of the cursor. */
    lastCursor: isAboutNext && typeof value === 'string' && !isSame ? value : undefined,
    /** The last page has no reports. */
    endsEmpty: part.reports === 0,
    /** The last page has a cursor, too. */
    keepsCursor: alsoOnLast,
    /** The last page lacks this object, which contains the cursor. */
    absent: isPart ? part.at : undefined,
    /** What stands elsewhere; undefined: nothing. */
    mark: (hasNext: boolean): PageValue | null | undefined => {
      if (isAboutNext || isPart || valuesOf(part).length === 0) return undefined;
      if (value === null) return hasNext ? 'more' : null;
      if (typeof value === 'boolean') return hasNext ? !value : value;
      return hasNext ? 'other' : value;
    },
  };
}

/** Whether the next page is a URL, as it is or for its parameters. */
const isUrl = ({ next }: Api): boolean => {
  const { to }: AnyNext = next;
  return next.from === 'link' || to === 'url' || hasParameters({ next });
};
const hasParameters = ({ next }: Pick<Api, 'next'>): boolean => {
  const { to }: AnyNext = next;
  return typeof to === 'object' && 'query' in to && to.query === '*';
};

/** The query parameter of a link to the next page. */
const linkParameter = 'continue-at';

/** A cursor, a URL or a flag. A BigInt is a JSON number. */
type PageValue = string | number | boolean | bigint;

interface ApiOptions {
  readonly apiKey: string;
  readonly reports: ReportSource;
  readonly pageSize?: number | undefined;
  /** Whether some pages in the middle lack their list, as `when.empty` says, and have a next page. */
  readonly quietPages?: boolean | undefined;
}

/** Added to the position in the cursor of the page after one without a list. */
const afterQuiet = 500_000;

/** Whether a page without a list can say where the next one is. */
function canBeQuiet(api: Api): boolean {
  const [empty] = partsOf(api.when?.empty);
  const { isSame, endsEmpty } = endOf(api);
  if (empty === undefined || isSame || endsEmpty || !countsReports(api.page)) return false;
  const { from } = api.next;
  const hasFields = !statusesOf(empty).includes(204) && empty.at !== '';
  return from === 'header' || from === 'link' || (from === 'body' && hasFields);
}

/** All reports match. */
export function describedApi(
  api: Api,
  { apiKey, reports, pageSize = 100, quietPages = false }: ApiOptions,
): AnswerRequest {
  const tokenUrl = tokenUrlOf(api.auth);
  const loginPath = api.auth.kind === 'login' ? api.auth.path : undefined;
  const tokenPath = tokenUrl === undefined ? loginPath : new URL(tokenUrl).pathname;
  const empty = partsOf(api.when?.empty)[0];
  return (received, at) => {
    if (received.target === tokenPath) return issueToken(api.auth, received);
    assertAuthorized(api.auth, received, apiKey);
    const cursor = cursorIn(api, received);
    const requested = { cursor: cursor === undefined ? undefined : String(cursor) };
    const answer = (): Answer => {
      const all = [...reports.from({ date: 0, ordinal: 0 }, at)];
      const position = cursor === undefined ? 0 : positionOf(api, cursor, all, pageSize);
      const start = position % afterQuiet;
      if (quietPages && cursor !== undefined && start === position && start % 3 < 2 && canBeQuiet(api)) {
        const token = cursorAt(api, start + afterQuiet);
        const next = isUrl(api) ? linkTo(api, received, String(token), start) : token;
        const content = { reports: [], next, hasNext: true, total: all.length, instead: insteadOf(api) };
        return respond(api, content, nextHeaders(api, content, start));
      }
      const page = all.slice(start, start + pageSize);
      const end = start + page.length;
      if (page.length === 0 && cursor === undefined && empty !== undefined) {
        return respond(api, { reports: [], next: undefined, hasNext: false, total: 0, instead: insteadOf(api) });
      }
      const { isSame, endsEmpty, keepsCursor, lastCursor } = endOf(api);
      // Where an end is a cursor that stays the same, every page has one, and the last page, which has no reports,
      // that of its request.
      const first = isSame && page.length === 0 && cursor === undefined ? initialCursor(api) : undefined;
      const hasNext = isSame || (endsEmpty ? page.length > 0 : end < all.length);
      const token = first ?? (hasNext || keepsCursor ? cursorAt(api, end) : undefined);
      const value = token !== undefined && isUrl(api) ? linkTo(api, received, String(token), end) : token;
      const content = { reports: page, next: value ?? lastCursor, hasNext, total: all.length };
      return respond(api, content, nextHeaders(api, content, end));
    };
    return { ...answer(), page: requested };
  };
}

/** The content of a page without a list, for `when.empty`. */
function insteadOf(api: Api): PageContent['instead'] {
  const [empty = {}] = partsOf(api.when?.empty);
  if (statusesOf(empty).includes(204)) return 'no content';
  return { at: empty.at ?? '', is: (valuesOf(empty)[0] ?? null) as string | null };
}

function respond(api: Api, content: PageContent, nextHeaders: Headers = []): Answer {
  if (content.instead === 'no content') return { status: 204, headers: nextHeaders, body: Buffer.of(), reportIds: [] };
  const body = Buffer.from(pageBody(api, content));
  const headers: Headers = [...nextHeaders, ['content-type', mediaTypesOf(api.page)[0] ?? 'application/octet-stream']];
  const status = statusesOfPages(api.page)[0] ?? 200;
  return { status, headers, body, reportIds: content.reports.map(({ id }) => id) };
}

// Authentication

const accessToken = 'an-access-token-of-the-described-api';

/** With a secret that is JSON, `send` may name its fields. */
function assertAuthorized(auth: Api['auth'], { headers, target }: ReceivedRequest, apiKey: string): void {
  const token = auth.kind === 'basic' ? Buffer.from(apiKey).toString('base64') : accessToken;
  const expected = (template: string) =>
    fillText(template, (field) => (field === undefined ? apiKey : fieldOf(apiKey, field)), token);
  for (const [name, template] of Object.entries(sendOf(auth))) {
    if (headers[name.toLowerCase()] !== expected(template))
      throw new Rejection('unauthorized', `The header ${name} is missing, or its key is invalid`);
  }
  const { searchParams } = new URL(target, 'http://service');
  for (const [name, template] of Object.entries(queryOf(auth))) {
    if (searchParams.getAll(name).join() !== expected(template))
      throw new Rejection('unauthorized', `The parameter ${name} is missing, or its key is invalid`);
  }
}

const fieldOf = (secret: string, field: string): string => (JSON.parse(secret) as Record<string, string>)[field] ?? '';

/** Replaces a refresh token, whatever it is. */
function issueToken({ grant }: AnyOf<Api['auth']>, { body: form }: ReceivedRequest): Answer {
  const sent = new URLSearchParams(form?.toString()).get('refresh_token');
  if ((grant === 'refresh_token') !== (sent !== null)) throw new Rejection('unauthorized', 'The grant is another one');
  const refreshToken = sent === null ? {} : { refresh_token: `${sent}+` };
  const issued = { access_token: accessToken, token_type: 'Bearer', expires_in: 120, ...refreshToken };
  const body = Buffer.from(JSON.stringify(issued));
  return { status: 200, headers: [['content-type', 'application/json']], body, reportIds: [] };
}

// Cursors

interface Target {
  readonly query?: string;
  readonly header?: string;
  readonly form?: string;
  readonly body?: string;
}

/** Where requests have a cursor; nowhere for a URL. */
function targetOf({ next }: Api): Target {
  const { to, request }: AnyNext = next;
  if (typeof to === 'object' && !hasParameters({ next })) return to as Target;
  const named = (fields: Readonly<Record<string, unknown>> = {}) =>
    Object.entries(fields).find(([, value]) => value === '{cursor}')?.[0];
  const inBody = named(request?.body);
  return {
    query: named(request?.query),
    header: named(request?.headers),
    form: named(request?.form),
    body: inBody === undefined ? undefined : `/${inBody.replaceAll('~', '~0').replaceAll('/', '~1')}`,
  } as Target;
}

/** The cursor that was sent; undefined if it requests the first page. */
function cursorIn(api: Api, { target, headers, body }: ReceivedRequest): PageValue | undefined {
  if (api.next.from === 'none') return undefined;
  const to = targetOf(api);
  const query = new URL(target, 'http://localhost').searchParams;
  const sent = isUrl(api)
    ? query.get(linkParameter)
    : to.query !== undefined
      ? query.get(to.query)
      : to.header !== undefined
        ? headers[to.header.toLowerCase()]
        : to.form !== undefined
          ? new URLSearchParams(body?.toString()).get(to.form)
          : valueAt(parseBody(body), segmentsOf(to.body ?? ''));
  const first = api.next.from === 'count' ? api.next.first : undefined;
  const isInitial =
    sent === initialCursor(api) || (first !== undefined && [first, String(first)].includes(sent as string));
  return sent === null || isInitial ? undefined : (sent as PageValue | undefined);
}

/** A cursor may be a number that only a BigInt can represent. */
const parseBody = (body: Buffer | undefined): JsonObject =>
  JSON.parse(body?.toString() ?? '{}', (_, value, ...context: unknown[]) => {
    const [{ source = '' } = {}] = context as { readonly source?: string }[];
    return /^\d{16,}$/.test(source) ? BigInt(source) : value;
  }) as JsonObject;

/** What the template has in the place of the cursor: a first request says so with it. */
function initialCursor(api: Api): PageValue | undefined {
  const { query, body, form } = targetOf(api);
  if (query !== undefined) return api.request.query?.[query];
  if (form !== undefined) return api.request.form?.[form];
  return body === undefined ? undefined : (valueAt(api.request.body ?? {}, segmentsOf(body)) as PageValue | undefined);
}

/** The segments of a JSON Pointer. */
const segmentsOf = (pointer: string): readonly string[] =>
  pointer
    .split('/')
    .slice(1)
    .map((segment) => segment.replaceAll('~1', '/').replaceAll('~0', '~'));

const valueAt = (object: JsonObject, segments: readonly string[]): JsonValue | undefined =>
  segments.reduce<JsonValue | undefined>(
    (parent, name) =>
      typeof parent === 'object' && parent !== null && Object.hasOwn(parent, name)
        ? ((parent as JsonObject)[name] as JsonValue)
        : undefined,
    object,
  );

/** In a form that depends on the position. */
function cursorAt(api: Api, position: number): PageValue {
  const digits = String(position).padStart(6, '0');
  if (isUrl(api)) return digits;
  const isInJson = api.next.from === 'body' && api.page.format === 'json';
  const odd = isInJson && targetOf(api).body !== undefined ? 'Łódź\t"\\/ ' : `a"b'\\<&>%2C,;+ `;
  if (position % 3 === 0 && isInJson) return 10n ** 29n + BigInt(position);
  return `${position % 3 === 1 ? odd : '+/='}${digits}`;
}

function positionOf(api: Api, cursor: PageValue, all: readonly Report[], pageSize: number): number {
  if (api.next.from === 'count') {
    return (Number(cursor) - firstOf(api.next)) * (api.next.step === 'reports' ? 1 : pageSize);
  }
  if (api.next.from === 'report') {
    const index = all.findIndex(({ id }) => id === cursor);
    if (index < 0) throw new Rejection('invalid_cursor', `No report has the ID ${cursor}`, { cursor: String(cursor) });
    return index + 1;
  }
  const position = Number(String(cursor).slice(-6));
  const expected = Number.isNaN(position) ? undefined : cursorAt(api, position);
  const isSame = typeof cursor === 'string' ? cursor === String(expected) : cursor === expected;
  if (!isSame) throw new Rejection('invalid_cursor', `${cursor} is unknown`, { cursor: String(cursor) });
  return position;
}

/** The URL of the next page: absolute, a path, or a query only. If only its parameters count, the host is another. */
function linkTo(api: Api, { target, headers }: ReceivedRequest, token: string, position: number): string {
  if (hasParameters(api)) return `http://inner.example/elsewhere?${linkParameter}=${encodeURIComponent(token)}`;
  const [path = '', search = ''] = target.split(/\?([^]*)/);
  const kept = search.split('&').filter((part) => part !== '' && !part.startsWith(`${linkParameter}=`));
  const query = `?${[...kept, `${linkParameter}=${token}`].join('&')}`;
  return [`http://${headers.host ?? ''}${path}${query}`, `${path}${query}`, query][position % 3] ?? query;
}

function nextHeaders(api: Api, { next: value, hasNext, total }: PageContent, position: number): Headers {
  if (api.next.from === 'count')
    return typeof api.next.total === 'object' ? [[api.next.total.header, String(total)]] : [];
  const { part, mark } = endOf(api);
  const marked = part.header === undefined ? undefined : mark(hasNext);
  const marks: Headers = marked === undefined || marked === null ? [] : [[part.header ?? '', String(marked)]];
  if (api.next.from !== 'header' && api.next.from !== 'link') return marks;
  const { from, at } = api.next;
  if (from === 'header') return [...marks, ...(value === undefined ? [] : [[at, String(value)] as const])];
  const parameters = part.parameter === undefined ? [] : [`; ${part.parameter}=${String(mark(hasNext))}`];
  const link = value === undefined ? [] : [`<${value}>${parameters.join('')}; rel="${at}"`];
  // A reader of commas alone, or of `rel=` anywhere, finds another link.
  const others = [`</help?a=1,2>; title="a, b; rel=${at}"; rel="help"`, '</>; rel=index'];
  const links = [link, [...link, ...others], [...others, ...link]][position % 3] ?? link;
  if (position % 2 === 1) return [...marks, ...links.map((one) => ['link', one] as const)];
  return links.length === 0 ? marks : [...marks, ['link', links.join(', ')]];
}

// Pages

interface PageContent {
  readonly reports: readonly Report[];
  /** The value in the place of the next page, also at the end; undefined: none. */
  readonly next: PageValue | undefined;
  readonly hasNext: boolean;
  readonly total: number;
  /** A document that is no page: no report matches at all. */
  readonly instead?: { readonly at: string; readonly is: string | null } | 'no content';
}

/** A report is an XML element. In XML it stays what it is; JSON, NDJSON and CSV contain it as text. */
function pageBody(api: Api, content: PageContent): string | Uint8Array {
  const { page } = api;
  const texts = content.reports.map(({ xml }) => xml);
  const items = content.reports.map(({ id, date, type, xml }) => ({ id, date: instantOf(date), type, xml }));
  switch (page.format) {
    case 'bytes':
      return texts.join('');
    case 'zip':
      return zipSync({ 'reports.xml': Buffer.from(texts.join('')) }, { level: 0 });
    case 'ndjson':
      return items.map((item) => `${JSON.stringify(item)}\n`).join('');
    case 'csv': {
      const columns = page.columns ?? 'id,date,type,xml';
      const count = columns.replace(/"[^"]*"/g, '').split(',').length;
      const rows = items.map((item) => Array.from({ length: count }, (_, at) => Object.values(item)[at] ?? ''));
      const lines = rows.map((row) => row.map((field) => `"${field.replaceAll('"', '""')}"`).join(','));
      return [...(reportsIn(page) === undefined ? [columns] : []), ...lines].map((line) => `${line}\r\n`).join('');
    }
    case 'json':
      return content.instead === undefined
        ? jsonDocument(page.reports, items, placedIn(api, content))
        : jsonDocument(undefined, [], placedWithoutList(api, content));
    case 'xml':
      return content.instead === undefined
        ? xmlDocument(page.reports, texts, placedIn(api, content))
        : xmlDocument(undefined, [], placedWithoutList(api, content));
  }
}

/** A path in the document, with the value there; undefined: nothing, but what would contain it. */
type Placed = readonly [path: string, value: PageValue | null | undefined];

function placedIn(api: Api, { next: value, hasNext, reports, total }: PageContent): readonly Placed[] {
  if (api.next.from === 'count') return typeof api.next.total === 'string' ? [[api.next.total, total]] : [];
  const { part, mark, absent } = endOf(api);
  const isAbsent = value === undefined;
  const isPartAbsent = isAbsent && absent !== undefined;
  // In JSON, null is as good as no field.
  const nothing = api.page.format === 'json' && reports.length % 2 === 0 ? null : undefined;
  const marked = part.at === undefined || part.at === '' ? undefined : mark(hasNext);
  return [
    ...(marked === undefined || part.at === undefined ? [] : [[part.at, marked === null ? nothing : marked] as const]),
    ...(api.next.from !== 'body'
      ? []
      : isPartAbsent
        ? [[absent, nothing] as const]
        : [[api.next.at, value ?? nothing] as const]),
  ];
}

/** A first page without a list has nothing else; a later one has the next page. */
function placedWithoutList(api: Api, content: PageContent): readonly Placed[] {
  const { instead, hasNext } = content;
  const own: readonly Placed[] = typeof instead === 'object' && instead.at !== '' ? [[instead.at, instead.is]] : [];
  return hasNext ? [...own, ...placedIn(api, content)] : own;
}

function jsonDocument(reports: string | undefined, items: readonly object[], placed: readonly Placed[]): string {
  if (reports === '/*') return JSON.stringify(items);
  const root = Object.create(null) as Record<string, unknown>;
  const put = (segments: readonly string[], value: unknown): void => {
    const [name = '', ...parents] = segments.toReversed();
    const parent = parents.reduceRight((object, segment) => {
      const [, list = segment, field, selected] = /^([^[]*)\[(.*)=(.*)\]$/.exec(segment) ?? [];
      object[list] ??= field === undefined ? Object.create(null) : [{ [field]: 'other', [name]: 'not this' }, 'x'];
      const child = object[list] as Record<string, unknown>;
      if (field === undefined) return child;
      // The only item that is selected, if it has a value: before or after the field by which it is.
      const item = value === undefined ? {} : { [name]: value, [field]: selected };
      (child as unknown as unknown[]).push(item);
      return item;
    }, root);
    if (value !== undefined) parent[name] = value;
  };
  for (const [path, value] of placed) put(segmentsOf(path), typeof value === 'bigint' ? rawJson(value) : value);
  if (reports !== undefined) put(segmentsOf(reports).slice(0, -1), items);
  return JSON.stringify(root);
}

const rawJson = (value: bigint): unknown => (JSON as JSON & { rawJSON(text: string): unknown }).rawJSON(String(value));

interface XmlElement {
  readonly name: string;
  /** Attributes. */
  where: string;
  readonly children: XmlElement[];
  text: string;
}

function xmlDocument(reports: string | undefined, texts: readonly string[], placed: readonly Placed[]): string {
  const top: XmlElement = { name: '', where: '', children: [], text: '' };
  const [first] = placed;
  const root = xmlSteps(reports ?? first?.[0] ?? '/reports')[0]?.name ?? '';
  const steps =
    reports === undefined
      ? [
          { name: root, where: '' },
          { name: '*', where: '' },
        ]
      : xmlSteps(reports);
  const named: [XmlElement, string][] = [];
  for (const [path, value] of placed) {
    const attribute = /\/@([^/]+)$/.exec(path)?.[1];
    const all = xmlSteps(path);
    const element = elementAt(top, value == null ? all.slice(0, Math.max(1, all.length - 1)) : all);
    if (value == null) continue;
    if (attribute === undefined) element.text = escapeXml(String(value));
    // Later, as elements are found by their attributes.
    else named.push([element, ` ${attribute}="${escapeXml(String(value))}"`]);
  }
  const { name, where } = steps.at(-1) ?? { name: '*', where: '' };
  const wrapped = texts.map((text) => (name === '*' ? text : `<${name}${where}>${text}</${name}>`));
  elementAt(top, steps.slice(0, -1)).text += wrapped.join('');
  for (const [element, attribute] of named) element.where += attribute;
  return `<?xml version="1.0" encoding="UTF-8"?>\n${top.children.map(serializeXml).join('')}`;
}

/** `/feed/link[@rel=next]/@href` is `feed` and `link`; `where` is the attribute of the second. */
const xmlSteps = (path: string) =>
  [...path.matchAll(/\/([^/@[]+)(?:\[@([^=]+)=["']?([^"'\]]*)["']?\])?/g)].map(([, name = '', by, value = '']) => ({
    name,
    where: by === undefined ? '' : ` ${by}="${escapeXml(value)}"`,
  }));

/** The element at the end of the steps. Missing ones are added; beside one with an attribute, one without it. */
const elementAt = (top: XmlElement, steps: ReturnType<typeof xmlSteps>): XmlElement =>
  steps.reduce<XmlElement>(({ children }, { name, where }) => {
    const found = children.find((one) => one.name === name && one.where === where);
    if (found !== undefined) return found;
    const child: XmlElement = { name, where, children: [], text: '' };
    children.push(...(where === '' ? [] : [{ name, where: '', children: [], text: '' }]), child);
    return child;
  }, top);

const serializeXml = ({ name, where, children, text }: XmlElement): string =>
  `<${name}${where}>${children.map(serializeXml).join('\n')}${text}</${name}>`;

const escapeXml = (text: string): string => text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
