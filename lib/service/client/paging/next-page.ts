/**
 * Where a response has the next page: one codec per kind of `next.from`. A codec refuses what is neither the next page nor clearly its
 * absence: that there is none ends a run, so it counts only on a document that proves to be a page.
 */

import { asCursor, type Cursor, maxCursorLength } from '../../../core/model.ts';
import { type Api, isSentAsOffset, isUrl } from '../../../settings/api-settings.ts';
import type { AnyOf } from '../../../settings/fields.ts';
import type { PageContent, PathValue } from '../../formats/format-check.ts';
import { textIn } from '../../formats/formats.ts';
import { containsKey, presentable } from '../../redaction/redact.ts';
import { nextCounted, totalInHeaders } from './counted-pages.ts';
import { contractError, type ErrorContext } from '../errors.ts';
import type { Found, PageParts, RequestedPage } from './page-document.ts';
import { isJsonText } from '../request.ts';
import { allValues, type Headers, isPrintableAscii, singleValue } from '../response-headers.ts';

type Next = Api['next'];
type End = AnyOf<NonNullable<AnyOf<Next>['end']>>;
/** `header` is the name of the header that has it; `inHeaders` and `inBody` find it. Undefined: the page says that it is the last. */
type Codec<Kind extends Next> =
  | {
      readonly header: (next: Kind) => string;
      readonly inHeaders: (context: ErrorContext, next: Kind, headers: Headers) => Found | undefined;
    }
  | {
      /** Undefined also for a document that says that there are no reports: it need not have a place for it. */
      readonly inBody: (page: RequestedPage, next: Kind, parts: PageParts) => Found | undefined;
    };

const codecs: { readonly [From in Next['from']]: Codec<Extract<Next, { readonly from: From }>> } = {
  /**
   *     sforce-locator: Zmlyc3Q
   *     {"from": "header", "at": "Sforce-Locator", "to": {"query": "locator"}}
   *
   * Refused: a header that occurs twice.
   */
  header: {
    header: ({ at }) => at,
    inHeaders(context, { at }, headers) {
      const header = headers[at.toLowerCase()];
      const text = singleValue(header);
      if (header !== undefined && text === undefined)
        throw contractError(context, 'the cursor header occurs more than once');
      return { text, what: 'cursor header' };
    },
  },
  /**
   *     link: </api/v1/logs?after=17>; rel="next"
   *     {"from": "link"}
   *
   *     link: </api/0/events/?cursor=0:100:0>; rel="next"; results="false"
   *     {"from": "link", "end": {"link": {"results": "false"}}}
   *
   * Refused: a header that cannot be read, more than one link with the relation, and one that a reader may or may not take for it.
   */
  link: {
    header: () => 'link',
    inHeaders(context, { at, end: described }, headers) {
      const link = linkTo(context, at, allValues(headers.link));
      const found = { text: link?.target, what: 'link' };
      const end: End = described ?? {};
      const [parameter] = Object.entries(end.link ?? {});
      if (link === undefined || parameter === undefined) return found;
      const [name, last] = parameter;
      const value = link.parameters.get(name.toLowerCase());
      if (value === undefined) throw contractError(context, `the link to ${at} has no parameter ${name}`);
      return value === last ? undefined : found;
    },
  },
  /**
   *     {"data": […], "meta": {"next": "Zmlyc3Q"}}
   *     {"from": "body", "at": "/meta/next", "to": {"query": "cursor"}}
   *
   *     <ListBucketResult>…<NextContinuationToken>1/j</NextContinuationToken></ListBucketResult>
   *     {"from": "body", "at": "/ListBucketResult/NextContinuationToken", "to": {"query": "continuation-token"}}
   *
   *     {"data": […], "pageInfo": {"hasNextPage": false, "endCursor": "Y3Vyc29y"}}
   *     {"from": "body", "at": "/pageInfo/endCursor", "to": …, "end": {"flag": "/pageInfo/hasNextPage", "decides": true}}
   *
   *     {"data": […], "paging": {"cursors": {"after": "QVFI"}, "next": "https://…"}}
   *     {"from": "body", "at": "/paging/cursors/after", "to": …, "end": {"without": "/paging/next"}}
   *
   * Refused: an object, a boolean, a body without a place for it, and a flag that contradicts it.
   */
  body: {
    inBody(page, { at, end: described }, { content: check, isEmpty }) {
      const { context, api } = page;
      const end: End = described ?? {};
      const value = check.value(at);
      const isThere = hasValue(value);
      const more = saysMore(page, end, check, isEmpty && !isThere);
      const isDescribed = end.flag !== undefined || end.without !== undefined;
      if (isDescribed && more !== true && (end.flag === undefined || end.decides === true)) return undefined;
      const found = { text: textIn(api.page, value), what: `value at ${at}`, type: value.type };
      const none = { ...found, text: undefined };
      if (value.type === 'object' || value.type === 'array')
        throw contractError(context, `the value at ${at} is an ${value.type}, and no cursor`);
      // Sent back as text, `false` would select the first page again, or nothing.
      if (value.type === 'boolean' && found.text !== end.value)
        throw contractError(context, `the value at ${at} is a boolean, and no cursor`);
      if (isDescribed) {
        const hasNext = isThere && found.text !== '';
        if (more === undefined || (!more && !hasNext)) return undefined;
        if (more && hasNext) return found;
        const what =
          end.flag === undefined ? `it has ${end.without}` : `the flag at ${end.flag} is ${more !== (end.is ?? false)}`;
        throw contractError(context, `${what}, but there is ${hasNext ? 'a' : 'no'} next page at ${at}`);
      }
      /** What is absent on the last page: the value itself, or what contains it. */
      const absent = typeof end.absent === 'string' ? end.absent : at;
      const part = check.value(absent);
      const isPartThere = absent !== at && hasValue(part);
      if (isEmpty && !isThere && !isPartThere) return undefined;
      if (!part.parent) throw contractError(context, withoutPlace(api, end, check, absent));
      if (isPartThere && !isThere) throw contractError(context, `it has ${absent}, but no next page at ${at}`);
      return isThere ? found : none;
    },
  },
  /**
   *     {"data": [{"id": "ch_1"}, {"id": "ch_2"}], "has_more": true}
   *     {"from": "report", "at": "/id", "to": {"query": "starting_after"}, "end": {"flag": "/has_more"}}
   *
   * Refused: a last report without the field, and a page without reports of which the flag says that it is not the last.
   */
  report: {
    inBody(page, { at, end: described }, { content: check, isEmpty }) {
      const { context, api } = page;
      const end: End = described ?? {};
      const hasReports = !isEmpty && check.reports !== 0;
      const more = end.empty === true ? hasReports : saysMore(page, end, check, isEmpty);
      if (more !== true) return undefined;
      if (!hasReports) throw contractError(context, 'it says that there are more reports, but has none');
      const value = check.inLastReport ?? { parent: false };
      const text = textIn(api.page, value);
      if (text === undefined || value.type === 'boolean')
        throw contractError(context, `the last report has no text or number at ${at}, which is the cursor`);
      return { text, what: `value at ${at} in the last report`, type: value.type };
    },
  },
  /**
   *     {"data": [{"id": 1}, {"id": 2}], "total": 5}
   *     {"from": "count", "to": {"query": "page"}, "total": "/total"}
   *
   *     X-Total-Count: 5
   *     {"from": "count", "to": {"query": "offset"}, "first": 0, "step": "reports", "total": {"header": "X-Total-Count"}}
   *
   * The last page is the one with which the reports sum to the total, and the page after it must have none. Refused: a page without a total. The
   * walk starts over if the total changes, or if pages do not add up to it.
   */
  count: { inBody: (page, next, parts) => nextCounted(page, next, parts) },
};

const codecOf = (next: Next) => codecs[next.from] as Codec<Next>;

/**
 * The cursor of the next page, null on the last page; undefined if the body has it.
 * @throws ContractError if it is empty, repeated or not printable ASCII, contains the API key, or leads to another server
 */
export function nextCursorInHeaders(
  page: RequestedPage,
  headers: Headers,
  mayBeAbsent = false,
): Cursor | null | undefined {
  const { context, api } = page;
  const codec = codecOf(api.next);
  if (!('inHeaders' in codec)) return undefined;
  const found = codec.inHeaders(context, api.next, headers);
  return found === undefined ? null : toCursor(page, found, mayBeAbsent);
}

/** @throws ContractError if a response without content, which says that there are no reports, has a next page */
export function assertNoNextPage(page: RequestedPage, headers: Headers): void {
  // Without a next page, it need not have what a document has at its end.
  const cursor = nextCursorInHeaders(page, headers, true) ?? null;
  const { total }: AnyOf<Next> = page.api.next;
  const count = typeof total === 'object' ? (totalInHeaders(total, headers) ?? '0') : '0';
  if (cursor === null && count === '0') return;
  throw contractError(
    page.context,
    `it says that there are no reports, but has a ${cursor === null ? 'total' : 'next page'}`,
  );
}

/** The header that has it; empty if none has. */
export function nextHeader({ next }: Api): string {
  const codec = codecOf(next);
  return 'header' in codec ? codec.header(next) : '';
}

/**
 * The same of a body that has been read to its end.
 * @throws ContractError also if the body has no place for it, or if a flag contradicts it
 */
export function nextCursorInBody(page: RequestedPage, parts: PageParts): Cursor | null {
  const codec = codecOf(page.api.next);
  const found = 'inBody' in codec ? codec.inBody(page, page.api.next, parts) : undefined;
  return found === undefined ? null : toCursor(page, found);
}

/**
 * Whether a field other than the next page says that there is one. Undefined: no such field is described, or it is absent and
 * `mayBeAbsent`.
 */
function saysMore(
  { context, api }: RequestedPage,
  end: End,
  check: PageContent,
  mayBeAbsent: boolean,
): boolean | undefined {
  const { flag, is = false, without, absent } = end;
  if (flag !== undefined) {
    const text = textIn(api.page, check.value(flag));
    if (text === 'true' || text === 'false') return text !== String(is);
    if (mayBeAbsent) return undefined;
    throw contractError(context, `the flag at ${flag} is neither true nor false`);
  }
  if (without === undefined) return undefined;
  const field = check.value(without);
  if (hasValue(field)) return true;
  const part = typeof absent === 'string' ? check.value(absent) : field;
  if (mayBeAbsent || field.parent || (!hasValue(part) && part.parent)) return false;
  throw contractError(context, withoutPlace(api, end, check, without));
}

const hasValue = ({ type }: PathValue): boolean => type !== undefined && type !== 'null';

/** The problem, and its remedy if it is only the last page that is like this. */
function withoutPlace({ page }: Api, end: End, check: PageContent, path: string): string {
  const problem = `it has no place for a next page: nothing contains ${path}`;
  const parents = path.split('/').map((_, index, parts) => parts.slice(0, index).join('/'));
  // The topmost one that is missing. In XML, only the paths of the description are known.
  const missing = parents.slice(2).find((parent) => !hasValue(check.value(parent)));
  if (missing === undefined || end.same === true) return problem;
  const remedy = page.format === 'json' ? `"${missing}"` : 'the path of what it lacks';
  return `${problem}. If the last page, and no other, is like this, set api.next.end.absent to ${remedy}`;
}

function toCursor(page: RequestedPage, { text, what, type }: Found, mayBeAbsent = false): Cursor | null {
  const { context, api, sent } = page;
  const { end, to }: AnyOf<Next> = api.next;
  const { absent, value: last, flag, same }: End = end ?? { absent: true };
  if (text === undefined) {
    if (absent !== undefined || mayBeAbsent) return null;
    throw contractError(
      context,
      flag === undefined ? `it has no ${what}, and that is not how the last page is described` : `it has no ${what}`,
    );
  }
  if (text === last) return null;
  if (text === '') throw contractError(context, `the ${what} is empty`);
  if (containsKey(text, context.keys)) throw contractError(context, 'the cursor contains the API key');
  if (/^\d+$/.test(text) && isSentAsOffset(api.next))
    throw contractError(
      context,
      `the ${what} is a number, and is sent as an offset. When data changes during a run, pages shift`,
    );
  // Node.js decodes headers as Latin-1, so that a URL with other characters would become another URL.
  if ('inHeaders' in codecOf(api.next) && !isPrintableAscii(text))
    throw contractError(context, `the ${what} is not printable ASCII`);
  const cursor = isUrl(api)
    ? localPath(page, text, what)
    : isJsonText(api) && type === 'string'
      ? asciiLiteral(text)
      : text;
  if (!isPrintableAscii(cursor)) throw contractError(context, 'the cursor is not printable ASCII');
  // HTTP drops such a space, so that another cursor would arrive.
  if (cursor.trim() !== cursor && typeof to === 'object' && 'header' in to)
    throw contractError(
      context,
      `the ${what} begins or ends with a space, which the header in api.next.to cannot have`,
    );
  if (cursor.length > maxCursorLength)
    throw contractError(context, `the cursor is longer than ${maxCursorLength} characters, as it is stored`);
  if (same === true && cursor === (isUrl(api) ? pathOf(page.requested) : sent)) return null;
  return asCursor(cursor);
}

/** A JSON string that can be sent in an HTTP header and stored as an object's metadata. */
const asciiLiteral = (text: string): string =>
  JSON.stringify(text).replace(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** Path and query of a URL of the same server: to any other, the next request would send the API key. */
function localPath({ context, requested }: RequestedPage, value: string, what: string): string {
  const url = URL.parse(value, requested.href);
  if (url === null) throw contractError(context, `the ${what} is not a URL`);
  if (url.origin !== requested.origin || url.username !== '' || url.password !== '') {
    const shown = presentable(url.origin, context.keys, 100);
    throw contractError(context, `the ${what} leads to ${shown}, not to ${requested.origin}, which the API key is for`);
  }
  return pathOf(url);
}

const pathOf = ({ pathname, search }: URL): string => `${pathname}${search}`;

interface Link {
  readonly target: string;
  /** By lower-case name. */
  readonly parameters: ReadonlyMap<string, string>;
}

/**
 * The only link with the relation `relation` in a header `Link` (RFC 8288); undefined if there is none. A header that
 * cannot be read is an error, and so is a link that a reader may or may not take for it: one with an anchor (it leads on from
 * another resource), or with a relation such as `'next'` or `https://example.com/next`.
 */
function linkTo(context: ErrorContext, relation: string, header: string): Link | undefined {
  const links: Link[] = [];
  const wanted = relation.toLowerCase();
  let position = 0;
  // In steps, each of which is over after a single pass: a pattern of all links takes exponential time for some headers.
  const read = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = position;
    const match = pattern.exec(header);
    if (match !== null) position = pattern.lastIndex;
    return match;
  };
  while (position < header.length) {
    const start = position;
    // A list may have empty elements (RFC 9110, section 5.6.1).
    const target = read(/[\s,]*<([^>]*)>/y)?.[1];
    const relations: (readonly string[])[] = [];
    const parameters = new Map<string, string>();
    for (
      let match;
      (match = read(/\s*;\s*([\w!#$&+.^`|~-]+\*?)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",;]*)))?/y)) !== null;
    ) {
      const [, name = '', quoted, token = ''] = match;
      const value = quoted?.replaceAll(/\\(.)/g, '$1') ?? token;
      parameters.set(name.toLowerCase(), value);
      if (name.toLowerCase() === 'rel') relations.push(value.toLowerCase().split(/\s+/));
    }
    if (target === undefined || read(/\s*(?:,|$)/y) === null)
      throw contractError(context, 'the header Link is not valid');
    // The first one counts (RFC 8288, section 3.3), but not for every reader.
    const [first = [], ...others] = relations;
    const isWanted = first.includes(wanted);
    const isUnclear =
      parameters.has('rel*') ||
      (isWanted
        ? parameters.has('anchor')
        : others.flat().includes(wanted) || relations.flat().some((one) => resembles(one, wanted)));
    if (isUnclear) {
      const shown = presentable(header.slice(start, position).replace(/,$/, '').trim(), context.keys, 150);
      throw contractError(context, `the header Link has a link that may lead to ${relation}, or not: ${shown}`);
    }
    if (isWanted) links.push({ target, parameters });
  }
  if (links.length > 1) throw contractError(context, `there is more than one link to ${relation}`);
  return links[0];
}

/** Whether it is the wanted relation in quotes, in a list, or at the end of a URI. */
const resembles = (relation: string, wanted: string): boolean =>
  relation !== wanted && (relation.replaceAll(/['"]/g, '') === wanted || relation.split(/[^\w.-]+/).includes(wanted));
