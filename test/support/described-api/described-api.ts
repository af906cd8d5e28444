/**
 * Serves the API that a description in the settings describes (`services.<name>.api`), for tests. It finds cursors and writes pages; what
 * else a request has is not its concern. It keeps no state: a cursor contains its position.
 *
 * Cursors and links have several forms, so that a client meets numbers of many digits, characters that each format escapes, relative and
 * absolute URLs, and links beside the next one.
 */

import type { JsonObject, JsonValue } from '../../../lib/core/model.ts';
import { instantOf } from '../../../lib/core/timestamps.ts';
import type { Report, ReportSource } from '../../../lib/service/simulator/report-source.ts';
import { isFields, isSameSecret, type ReceivedRequest, Rejection } from '../../../lib/service/simulator/request.ts';
import type { Headers, PreparedResponse, Validate } from '../../../lib/service/simulator/response.ts';
import { type Api, isUrl, mediaTypesOf } from '../../../lib/settings/api-settings.ts';
import type { AnyOf } from '../../../lib/settings/fields.ts';

/** How the last page says that it is the last. Counted pages have no such place: their total says it. */
export const endOf = ({ next }: Pick<Api, 'next'>): AnyOf<NonNullable<AnyOf<Api['next']>['end']>> =>
  'end' in next ? (next.end ?? {}) : {};

/** The query parameter of a link to the next page. */
const linkParameter = 'continue-at';

/** A cursor, a URL or a flag. A BigInt is a JSON number. */
type PageValue = string | number | boolean | bigint;

interface ApiOptions {
  readonly apiKey: string;
  readonly reports: ReportSource;
  readonly pageSize?: number | undefined;
}

/** All reports match. */
export function describedApi(api: Api, { apiKey, reports, pageSize = 100 }: ApiOptions): Validate {
  const tokenPath = 'tokenUrl' in api.auth ? new URL(api.auth.tokenUrl).pathname : undefined;
  const { empty } = api.page;
  return (received, at) => {
    if (received.target === tokenPath)
      return { cursor: undefined, isForPage: false, answer: () => issueToken(api.auth, received) };
    assertAuthorized(api.auth, received, apiKey);
    const cursor = cursorIn(api, received);
    return {
      cursor: cursor === undefined ? undefined : String(cursor),
      isForPage: true,
      answer() {
        const all = [...reports.from({ date: 0, ordinal: 0 }, at)];
        const start = cursor === undefined ? 0 : positionOf(api, cursor, all, pageSize);
        const page = all.slice(start, start + pageSize);
        const end = start + page.length;
        if (page.length === 0 && cursor === undefined && empty !== undefined) {
          if ('status' in empty) return { status: 204, headers: [], body: () => [], reportIds: [] };
          return respond(api, { reports: [], next: undefined, hasNext: false, total: 0, instead: empty });
        }
        const { same, decides, without, link, empty: endsEmpty, value: last } = endOf(api);
        // Where an end is a cursor that stays the same, every page has one, and the last page, which has no reports, that of its request.
        const first = same === true && page.length === 0 && cursor === undefined ? initialCursor(api) : undefined;
        const hasNext = same === true || (endsEmpty === true ? page.length > 0 : end < all.length);
        const keepsCursor = decides ?? (without !== undefined || link !== undefined);
        const token = first ?? (hasNext || keepsCursor ? cursorAt(api, end) : undefined);
        const value = token !== undefined && isUrl(api) ? linkTo(received, String(token), end) : token;
        const content = { reports: page, next: value ?? last, hasNext, total: all.length };
        return respond(api, content, nextHeaders(api, content, end));
      },
    };
  };
}

function respond(api: Api, content: PageContent, nextHeaders: Headers = []): PreparedResponse {
  async function* body() {
    yield Buffer.from(pageBody(api, content, await Promise.all(content.reports.map(textOf))));
  }
  const headers: Headers = [...nextHeaders, ['content-type', mediaTypesOf(api.page)[0] ?? 'application/octet-stream']];
  return { status: 200, headers, body, reportIds: content.reports.map(({ id }) => id) };
}

// Authentication

const accessToken = 'an-access-token-of-the-described-api';

function assertAuthorized(auth: AnyOf<Api['auth']>, { headers }: ReceivedRequest, apiKey: string): void {
  const { kind = 'none', name = 'authorization', prefix = '' } = auth;
  const expected = {
    none: '',
    header: `${prefix}${apiKey}`,
    basic: `Basic ${Buffer.from(apiKey).toString('base64')}`,
    bearer: `Bearer ${apiKey}`,
    oauth2: `Bearer ${accessToken}`,
    jwt: `Bearer ${accessToken}`,
  }[kind];
  if (kind !== 'none' && !isSameSecret(String(headers[name.toLowerCase()]), expected)) {
    throw new Rejection('unauthorized', `The header ${name} is missing, or its key is invalid`);
  }
}

/** Replaces a refresh token, whatever it is. */
function issueToken({ grant }: AnyOf<Api['auth']>, { body: form }: ReceivedRequest): PreparedResponse {
  const sent = new URLSearchParams(form?.toString()).get('refresh_token');
  if ((grant === 'refresh_token') !== (sent !== null)) throw new Rejection('unauthorized', 'The grant is another one');
  const refreshToken = sent === null ? {} : { refresh_token: `${sent}+` };
  const issued = { access_token: accessToken, token_type: 'Bearer', expires_in: 120, ...refreshToken };
  const body = Buffer.from(JSON.stringify(issued));
  return { status: 200, headers: [['content-type', 'application/json']], body: () => [body], reportIds: [] };
}

// Cursors

/** Where requests have a cursor; nowhere for a URL. */
const targetOf = ({ next }: Api): AnyOf<Exclude<AnyOf<Api['next']>['to'], 'url' | undefined>> =>
  next.from === 'link' || next.to === 'url' ? {} : next.to;

/** The cursor that was sent; undefined if it requests the first page. */
function cursorIn(api: Api, { target, headers, body }: ReceivedRequest): PageValue | undefined {
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
    (parent, name) => (isFields(parent) && Object.hasOwn(parent, name) ? (parent[name] as JsonValue) : undefined),
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
    const { first, step } = api.next;
    return (Number(cursor) - first) * (step === 'reports' ? 1 : pageSize);
  }
  if (api.next.from === 'report') {
    const index = all.findIndex(({ id }) => id === cursor);
    if (index < 0) throw new Rejection('invalid_cursor', `No report has the ID ${cursor}`);
    return index + 1;
  }
  const position = Number(String(cursor).slice(-6));
  const expected = Number.isNaN(position) ? undefined : cursorAt(api, position);
  const isSame = typeof cursor === 'string' ? cursor === String(expected) : cursor === expected;
  if (!isSame) throw new Rejection('invalid_cursor', `This service did not issue the cursor ${cursor}`);
  return position;
}

/** The URL of the next page: absolute, with an absolute path, or with the query only. */
function linkTo({ target, headers }: ReceivedRequest, token: string, position: number): string {
  const [path = '', search = ''] = target.split(/\?([^]*)/);
  const kept = search.split('&').filter((part) => part !== '' && !part.startsWith(`${linkParameter}=`));
  const query = `?${[...kept, `${linkParameter}=${token}`].join('&')}`;
  return [`http://${headers.host ?? ''}${path}${query}`, `${path}${query}`, query][position % 3] ?? query;
}

function nextHeaders(api: Api, { next: value, hasNext, total }: PageContent, position: number): Headers {
  if (api.next.from === 'count')
    return typeof api.next.total === 'string' ? [] : [[api.next.total.header, String(total)]];
  const { from, at } = api.next;
  if (from === 'body' || from === 'report') return [];
  if (from === 'header') return value === undefined ? [] : [[at, String(value)]];
  const parameters = Object.entries(endOf(api).link ?? {}).map(
    ([name, last]) => `; ${name}=${hasNext ? 'more' : last}`,
  );
  const link = value === undefined ? [] : [`<${value}>${parameters.join('')}; rel="${at}"`];
  // A reader of commas alone, or of `rel=` anywhere, finds another link.
  const others = [`</help?a=1,2>; title="a, b; rel=${at}"; rel="help"`, '</>; rel=index'];
  const links = [link, [...link, ...others], [...others, ...link]][position % 3] ?? link;
  if (position % 2 === 1) return links.map((one) => ['link', one]);
  return links.length === 0 ? [] : [['link', links.join(', ')]];
}

// Pages

interface PageContent {
  readonly reports: readonly Report[];
  /** The value in the place of the next page, also at the end; undefined: none. */
  readonly next: PageValue | undefined;
  readonly hasNext: boolean;
  readonly total: number;
  /** A document that is no page: no report matches at all. */
  readonly instead?: { readonly at: string; readonly is: string };
}

/** A report is an XML element. In XML it stays what it is; JSON, NDJSON and CSV contain it as text. */
function pageBody(api: Api, content: PageContent, texts: readonly string[]): string {
  const { page } = api;
  const items = content.reports.map(({ id, date, type }, index) => ({
    id,
    date: instantOf(date),
    type,
    xml: texts[index] ?? '',
  }));
  switch (page.format) {
    case 'bytes':
      return texts.join('');
    case 'ndjson':
      return items.map((item) => `${JSON.stringify(item)}\n`).join('');
    case 'csv': {
      const columns = page.columns ?? 'id,date,type,xml';
      const count = columns.replace(/"[^"]*"/g, '').split(',').length;
      const rows = items.map((item) => Array.from({ length: count }, (_, at) => Object.values(item)[at] ?? ''));
      const lines = rows.map((row) => row.map((field) => `"${field.replaceAll('"', '""')}"`).join(','));
      return [...(page.reports === undefined ? [columns] : []), ...lines].map((line) => `${line}\r\n`).join('');
    }
    case 'json':
      return content.instead === undefined
        ? jsonDocument(page.reports, items, placedIn(api, content))
        : jsonDocument(undefined, [], [[content.instead.at, content.instead.is]]);
    case 'xml':
      return content.instead === undefined
        ? xmlDocument(page.reports, texts, placedIn(api, content))
        : xmlDocument(undefined, [], [[content.instead.at, content.instead.is]]);
  }
}

async function textOf(report: Report): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of report.body()) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

/** A path in the document, with the value there; undefined: nothing, but what would contain it. */
type Placed = readonly [path: string, value: PageValue | null | undefined];

function placedIn(api: Api, { next: value, hasNext, reports, total }: PageContent): readonly Placed[] {
  if (api.next.from === 'count') return typeof api.next.total === 'string' ? [[api.next.total, total]] : [];
  const { absent, flag, is = false, without } = endOf(api);
  const isAbsent = value === undefined || (without !== undefined && !hasNext && reports.length % 3 === 0);
  const isPartAbsent = isAbsent && typeof absent === 'string';
  // In JSON, null is as good as no field.
  const nothing = api.page.format === 'json' && reports.length % 2 === 0 ? null : undefined;
  return [
    ...(flag === undefined ? [] : [[flag, hasNext !== is] as const]),
    ...(without === undefined || isPartAbsent ? [] : [[without, hasNext ? 'more' : nothing] as const]),
    ...(api.next.from !== 'body'
      ? []
      : isPartAbsent
        ? [[absent, nothing] as const]
        : [[api.next.at, value ?? nothing] as const]),
  ];
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

/** The element at the end of the steps. Those that are missing are added; beside one with an attribute, one without it. */
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
