/**
 * Where a response has the next page, and how the next request asks for it: one codec per kind of `next.from`. A codec refuses what is
 * neither the next page nor clearly its absence: that there is none ends a run, so it counts only on a document that proves to be a page.
 */

import { asCursor, type Cursor, type JsonObject, maxCursorLength } from '../../core/model.ts';
import { type Api, isUrl } from '../../settings/api-settings.ts';
import type { AnyOf } from '../../settings/fields.ts';
import type { FormatCheck, PathValue } from '../formats/format-check.ts';
import { textIn } from '../formats/formats.ts';
import { containsKey, presentable } from '../redaction/redact.ts';
import { contractError, failure, nameOf, type ErrorContext } from './errors.ts';
import { allValues, type Headers, isPrintableAscii, singleValue } from './response-headers.ts';

export interface NextPageContext {
  readonly subject: ErrorContext;
  readonly api: Api;
  /** The address that was requested. */
  readonly requested: URL;
  /** The cursor that was sent; for the first page, what was sent in its place. */
  readonly sent: string | undefined;
}

type Next = Api['next'];
type End = AnyOf<NonNullable<Next['end']>>;
type Document = Pick<FormatCheck, 'value'>;

/** What a response has at `next.at`. Without `text`: nothing. */
interface Found {
  readonly text: string | undefined;
  /** What it is called in messages. */
  readonly what: string;
  /** The text as JSON. */
  readonly literal?: string;
}

/** `header` is the name of the header that has it; `inHeaders` and `inBody` find it. */
type Codec<Kind extends Next> =
  | {
      readonly header: (next: Kind) => string;
      readonly inHeaders: (subject: ErrorContext, next: Kind, headers: Headers) => Found;
    }
  | {
      /** Undefined: a document that says that there are no reports need not have a place for it. */
      readonly inBody: (context: NextPageContext, next: Kind, check: Document, isEmpty: boolean) => Found | undefined;
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
    inHeaders(subject, { at }, headers) {
      const header = headers[at.toLowerCase()];
      const text = singleValue(header);
      if (header !== undefined && text === undefined)
        throw contractError(subject, 'the cursor header occurs more than once');
      return { text, what: 'cursor header' };
    },
  },
  /**
   *     link: </api/v1/logs?after=17>; rel="next"
   *     {"from": "link"}
   *
   * Refused: a header that cannot be read, more than one link with the relation, and one that a reader may or may not take for it.
   */
  link: {
    header: () => 'link',
    inHeaders: (subject, { at }, headers) => ({ text: linkTo(subject, at, allValues(headers.link)), what: 'link' }),
  },
  /**
   *     {"data": […], "meta": {"next": "Zmlyc3Q"}}
   *     {"from": "body", "at": "/meta/next", "to": {"query": "cursor"}}
   *
   *     <ListBucketResult>…<NextContinuationToken>1/j</NextContinuationToken></ListBucketResult>
   *     {"from": "body", "at": "/ListBucketResult/NextContinuationToken", "to": {"query": "continuation-token"}}
   *
   * Refused: an object, a boolean, a body without a place for it, and a flag that contradicts it.
   */
  body: {
    inBody({ subject, api }, { at, end: described }, check, isEmpty) {
      const end: End = described ?? {};
      const value = check.value(at);
      const found = { text: textIn(api.page, value), what: `value at ${at}`, literal: value.literal };
      const none = { ...found, text: undefined };
      if (value.type === 'object' || value.type === 'array')
        throw contractError(subject, `the value at ${at} is an ${value.type}, and no cursor`);
      // Sent back as text, `false` would select the first page again, or nothing.
      if (value.type === 'boolean' && found.text !== end.value)
        throw contractError(subject, `the value at ${at} is a boolean, and no cursor`);
      const isThere = hasValue(value);
      if (end.flag !== undefined) {
        const flag = textIn(api.page, check.value(end.flag));
        const isLast = flag === String(end.is ?? false);
        if (isEmpty && !isThere && flag !== String(!(end.is ?? false))) return undefined;
        if (flag !== 'true' && flag !== 'false') {
          throw contractError(subject, `the flag at ${end.flag} is neither true nor false`);
        }
        const hasNext = isThere && found.text !== '';
        if (hasNext === isLast) {
          const problem = `the flag at ${end.flag} is ${flag}, but there is ${hasNext ? 'a' : 'no'} next page at ${at}`;
          throw contractError(subject, problem);
        }
        return hasNext ? found : undefined;
      }
      /** What is absent on the last page: the value itself, or what contains it. */
      const absent = typeof end.absent === 'string' ? end.absent : at;
      const part = check.value(absent);
      const isPartThere = absent !== at && hasValue(part);
      if (isEmpty && !isThere && !isPartThere) return undefined;
      if (!part.parent) throw contractError(subject, withoutPlace(api, end, check, absent));
      if (isPartThere && !isThere) throw contractError(subject, `it has ${absent}, but no next page at ${at}`);
      return isThere ? found : none;
    },
  },
};

const codecOf = (next: Next) => codecs[next.from] as Codec<Next>;

/**
 * The cursor of the next page, null on the last page; undefined if the body has it.
 * @throws ContractError if it is empty, repeated or not printable ASCII, contains the API key, or leads to another server
 */
export function nextCursorInHeaders(
  context: NextPageContext,
  headers: Headers,
  { mayBeAbsent = false } = {},
): Cursor | null | undefined {
  const { subject, api } = context;
  const codec = codecOf(api.next);
  return 'inHeaders' in codec ? toCursor(context, codec.inHeaders(subject, api.next, headers), mayBeAbsent) : undefined;
}

/** @throws ContractError if a response without content, which says that there are no reports, has a next page */
export function assertNoNextPage(context: NextPageContext, headers: Headers): void {
  // Without a next page, it need not have what a document has at its end.
  const cursor = nextCursorInHeaders(context, headers, { mayBeAbsent: true }) ?? null;
  if (cursor !== null) throw contractError(context.subject, 'it says that there are no reports, but has a next page');
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
export function nextCursorInBody(context: NextPageContext, check: Document, { isEmpty = false } = {}): Cursor | null {
  const codec = codecOf(context.api.next);
  const found = 'inBody' in codec ? codec.inBody(context, context.api.next, check, isEmpty) : undefined;
  return found === undefined ? null : toCursor(context, found);
}

/** @throws CursorRejectedError if the document, the response to a request with a cursor, says that the cursor is not valid any more */
export function assertCursorAccepted({ subject, api }: NextPageContext, check: Document): void {
  const { rejected } = api.next;
  if (rejected === undefined || textIn(api.page, check.value(rejected.at)) !== rejected.is) return;
  const reason = `its response for ${subject.label} has ${rejected.is} at ${rejected.at}`;
  throw failure(subject, 'CursorRejectedError', `${nameOf(subject)} no longer accepts the cursor: ${reason}`);
}

const hasValue = ({ found, type }: PathValue): boolean => found && type !== 'null';

/** The problem, and its remedy if it is only the last page that is like this. */
function withoutPlace({ page }: Api, end: End, check: Document, path: string): string {
  const problem = `it has no place for a next page: nothing contains ${path}`;
  const parents = path.split('/').map((_, index, parts) => parts.slice(0, index).join('/'));
  // The topmost one that is missing. In XML, only the paths of the description are known.
  const missing = parents.slice(2).find((parent) => !hasValue(check.value(parent)));
  if (missing === undefined || end.same === true) return problem;
  const remedy = page.format === 'json' ? `"${missing}"` : 'the path of what it lacks';
  return `${problem}. If the last page, and no other, is like this, set api.next.end.absent to ${remedy}`;
}

function toCursor(context: NextPageContext, { text, what, literal }: Found, mayBeAbsent = false): Cursor | null {
  const { subject, api, sent } = context;
  const { absent, value: last, flag, same }: End = api.next.end ?? { absent: true };
  if (text === undefined) {
    if (absent !== undefined || mayBeAbsent) return null;
    throw contractError(
      subject,
      flag === undefined ? `it has no ${what}, and that is not how the last page is described` : `it has no ${what}`,
    );
  }
  if (text === last) return null;
  if (text === '') throw contractError(subject, `the ${what} is empty`);
  if (containsKey(text, subject.keys)) throw contractError(subject, 'the cursor contains the API key');
  // Node.js decodes headers as Latin-1, so that a URL with other characters would become another URL.
  if (api.next.from !== 'body' && !isPrintableAscii(text))
    throw contractError(subject, `the ${what} is not printable ASCII`);
  const cursor = isUrl(api) ? localPath(context, text, what) : isJsonText(api) ? (literal ?? text) : text;
  if (!isPrintableAscii(cursor)) throw contractError(subject, 'the cursor is not printable ASCII');
  if (cursor.length > maxCursorLength)
    throw contractError(subject, `the cursor is longer than ${maxCursorLength} characters, as it is stored`);
  if (same === true && cursor === (isUrl(api) ? pathOf(context.requested) : sent)) return null;
  return asCursor(cursor);
}

/** Path and query of a URL of the same server: to any other, the next request would send the API key. */
function localPath({ subject, requested }: NextPageContext, value: string, what: string): string {
  const url = URL.parse(value, requested.href);
  if (url === null) throw contractError(subject, `the ${what} is not a URL`);
  if (url.origin !== requested.origin || url.username !== '' || url.password !== '') {
    const shown = presentable(url.origin, subject.keys, 100);
    throw contractError(subject, `the ${what} leads to ${shown}, not to ${requested.origin}, which the API key is for`);
  }
  return pathOf(url);
}

const pathOf = ({ pathname, search }: URL): string => `${pathname}${search}`;

/** A request before it is encoded. */
export interface RequestParts {
  /** With the fixed part of the query. */
  readonly path: string;
  readonly query: readonly (readonly [name: string, value: string])[];
  readonly headers: Readonly<Record<string, string>>;
  /** Undefined: GET. */
  readonly body?: JsonObject;
}

type CursorTarget = AnyOf<Exclude<AnyOf<Next>['to'], 'url' | undefined>>;

const targetOf = (next: AnyOf<Next>): CursorTarget => (typeof next.to === 'object' ? next.to : {});

/** The request for the page of a cursor, from `first`, that for the first page. */
export function withCursor(api: Api, first: RequestParts, cursor: Cursor): RequestParts {
  // The path and query of a link, as the service wrote them.
  if (isUrl(api)) return { ...first, path: cursor, query: [] };
  const { query, header, body, alone = false } = targetOf(api.next);
  const parts = alone ? { ...first, query: [], body: first.body && {} } : first;
  if (query !== undefined) {
    return { ...parts, query: [...parts.query.filter(([name]) => name !== query), [query, cursor]] };
  }
  if (header !== undefined) return { ...parts, headers: { ...parts.headers, [header]: cursor } };
  const value = isJsonText(api) ? (JSON as JsonWithRawValues).rawJSON(cursor) : cursor;
  return { ...parts, body: withValueAt(parts.body, keysOf(body ?? ''), value) as JsonObject };
}

/** What the request for the first page has in the place of a cursor: `*`, for example. */
export function cursorOfFirst(api: Api, { query, body }: RequestParts): string | undefined {
  const target = targetOf(api.next);
  if (target.body === undefined) return query.find(([name]) => name === target.query)?.[1];
  const value = keysOf(target.body).reduce<unknown>(
    (parent, key) => (typeof parent === 'object' ? (parent as JsonObject | null)?.[key] : undefined),
    body,
  );
  return value === undefined || (typeof value === 'string' && !isJsonText(api))
    ? (value as string | undefined)
    : JSON.stringify(value);
}

/** A cursor from JSON is the text of a JSON value, so that a number with twenty digits is sent back as it was received. */
const isJsonText = ({ next, page }: Pick<Api, 'next' | 'page'>): boolean =>
  next.from === 'body' && page.format === 'json' && targetOf(next).body !== undefined;

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
  const isArray = Array.isArray(parent);
  const children: Readonly<Record<string, unknown>> =
    typeof parent === 'object' && parent !== null ? { ...parent } : {};
  const child = rest.length === 0 ? value : withValueAt(Object.hasOwn(children, key) ? children[key] : {}, rest, value);
  const changed = { ...children, [key]: child };
  return isArray ? Object.values(changed) : changed;
}

/**
 * The target of the only link with the relation `relation` in a header `Link` (RFC 8288); undefined if there is none. A header that
 * cannot be read is an error, and so is a link that a reader may or may not take for it: one with an anchor (it leads on from
 * another resource), or with a relation such as `'next'` or `https://example.com/next`.
 */
function linkTo(subject: ErrorContext, relation: string, header: string): string | undefined {
  const targets: string[] = [];
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
    const names = new Set<string>();
    for (
      let match;
      (match = read(/\s*;\s*([\w!#$&+.^`|~-]+\*?)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",;]*)))?/y)) !== null;
    ) {
      const [, name = '', quoted, token = ''] = match;
      names.add(name.toLowerCase());
      const value = quoted?.replaceAll(/\\(.)/g, '$1') ?? token;
      if (name.toLowerCase() === 'rel') relations.push(value.toLowerCase().split(/\s+/));
    }
    if (target === undefined || read(/\s*(?:,|$)/y) === null)
      throw contractError(subject, 'the header Link is not valid');
    // The first one counts (RFC 8288, section 3.3), but not for every reader.
    const [first = [], ...others] = relations;
    const isWanted = first.includes(wanted);
    const isUnclear =
      names.has('rel*') ||
      (isWanted
        ? names.has('anchor')
        : others.flat().includes(wanted) || relations.flat().some((one) => resembles(one, wanted)));
    if (isUnclear) {
      const shown = presentable(header.slice(start, position).replace(/,$/, '').trim(), subject.keys, 150);
      throw contractError(subject, `the header Link has a link that may lead to ${relation}, or not: ${shown}`);
    }
    if (isWanted) targets.push(target);
  }
  if (targets.length > 1) throw contractError(subject, `there is more than one link to ${relation}`);
  return targets[0];
}

/** Whether it is the wanted relation in quotes, in a list, or at the end of a URI. */
const resembles = (relation: string, wanted: string): boolean =>
  relation !== wanted && (relation.replaceAll(/['"]/g, '') === wanted || relation.split(/[^\w.-]+/).includes(wanted));
