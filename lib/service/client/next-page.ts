/**
 * Reads where the next page is from a response: from a header, a link, or the body. For example
 *
 *     sforce-locator: Zmlyc3Q                               {"from": "header", "at": "sforce-locator", "to": {"query": "locator"}}
 *     link: </api/v1/logs?after=17>; rel="next"             {"from": "link"}
 *     {"data": […], "meta": {"next": "Zmlyc3Q"}}            {"from": "body", "at": "/meta/next", "to": {"query": "cursor"}}
 *     <NextContinuationToken>1/j</NextContinuationToken>    {"from": "body", "at": "/ListBucketResult/NextContinuationToken", …}
 *
 * That there is none is what ends a run, so it counts only on a document that proves to be a page. What is neither the next page nor
 * clearly its absence is an error.
 */

import { asCursor, type Cursor, maxCursorLength } from '../../core/model.ts';
import type { Api } from '../../settings/api-settings.ts';
import type { FormatCheck, PathValue } from '../formats/format-check.ts';
import { textIn } from '../formats/formats.ts';
import { containsKey, presentable } from '../redaction/withhold.ts';
import { contractError, failure, nameOf, type Subject } from './errors.ts';
import { isJsonText, isUrl } from './request.ts';
import { allValues, type Headers, isPrintableAscii, singleValue } from './response-headers.ts';

export interface NextPageContext {
  readonly subject: Subject;
  readonly api: Api;
  /** The address that was requested. */
  readonly requested: URL;
  /** The cursor that was sent; for the first page, what was sent in its place. */
  readonly sent: string | undefined;
}

/**
 * The cursor of the next page, null on the last page; undefined if the body has it.
 * @throws ContractError if it is empty, repeated or not printable ASCII, contains the API key, or leads to another server
 */
export function nextCursorInHeaders(context: NextPageContext, headers: Headers): Cursor | null | undefined {
  const { subject, api } = context;
  const { from, at = 'next' } = api.next;
  if (from === 'body') return undefined;
  if (from === 'link') return toCursor(context, linkTo(subject, at, allValues(headers.link)), 'link');
  const header = headers[at.toLowerCase()];
  const value = header === undefined ? undefined : singleValue(header);
  if (header !== undefined && value === undefined)
    throw contractError(subject, 'the cursor header occurs more than once');
  return toCursor(context, value, 'cursor header');
}

/** @throws ContractError if a response without content, which says that there are no reports, has a next page */
export function assertNoNextPage({ api, ...context }: NextPageContext, headers: Headers): void {
  // Without a next page, it need not have what a document has at its end.
  const next = { ...api.next, end: { ...api.next.end, absent: true as const } };
  const cursor = nextCursorInHeaders({ ...context, api: { ...api, next } }, headers) ?? null;
  if (cursor !== null) throw contractError(context.subject, 'it says that there are no reports, but has a next page');
}

/** The header that has it; empty if none has. */
export const nextHeader = ({ next: { from, at = '' } }: Api): string =>
  from === 'link' ? 'link' : from === 'header' ? at : '';

/**
 * The same of a body that has been read to its end.
 * @throws ContractError also if the body has no place for it, or if a flag contradicts it
 */
export function nextCursorInBody(
  context: NextPageContext,
  check: Pick<FormatCheck, 'value'>,
  { isEmpty = false } = {},
): Cursor | null {
  const { subject, api } = context;
  const { at = '', end } = api.next;
  const value = check.value(at);
  const text = textIn(api.page, value);
  const { literal, type } = value;
  if (type === 'object' || type === 'array')
    throw contractError(subject, `the value at ${at} is an ${type}, and no cursor`);
  // Sent back as text, `false` would select the first page again, or nothing.
  if (type === 'boolean' && text !== end?.value)
    throw contractError(subject, `the value at ${at} is a boolean, and no cursor`);
  const isThere = hasValue(value);
  const flag = end?.flag === undefined ? undefined : textIn(api.page, check.value(end.flag));
  const flagAtEnd = end?.is ?? false;
  /** What is absent on the last page: the value itself, or what contains it. */
  const absentPath = typeof end?.absent === 'string' ? end.absent : at;
  const part = check.value(absentPath);
  const isPartThere = absentPath !== at && hasValue(part);
  // A document that says that there are no reports may have no place for a next page.
  const saysMore = end?.flag === undefined ? isPartThere : flag === String(!flagAtEnd);
  if (isEmpty && !isThere && !saysMore) return null;
  if (end?.flag === undefined) {
    if (!part.parent) throw contractError(subject, withoutPlace(api, check, absentPath));
    if (isPartThere && !isThere) throw contractError(subject, `it has ${absentPath}, but no next page at ${at}`);
    return toCursor(context, isThere ? text : undefined, `value at ${at}`, literal);
  }
  if (flag !== 'true' && flag !== 'false') {
    throw contractError(subject, `the flag at ${end.flag} is neither true nor false`);
  }
  const hasNext = isThere && text !== '';
  if (hasNext === (flag === String(flagAtEnd))) {
    throw contractError(
      subject,
      `the flag at ${end.flag} is ${flag}, but there is ${hasNext ? 'a' : 'no'} next page at ${at}`,
    );
  }
  return hasNext ? toCursor(context, text, `value at ${at}`, literal) : null;
}

/** @throws CursorRejectedError if the document, the response to a request with a cursor, says that the cursor is not valid any more */
export function assertCursorAccepted({ subject, api }: NextPageContext, check: Pick<FormatCheck, 'value'>): void {
  const { rejected } = api.next;
  if (rejected === undefined || textIn(api.page, check.value(rejected.at)) !== rejected.is) return;
  const reason = `its response for ${subject.label} has ${rejected.is} at ${rejected.at}`;
  throw failure(subject, 'CursorRejectedError', `${nameOf(subject)} no longer accepts the cursor: ${reason}`);
}

const hasValue = ({ found, type }: PathValue): boolean => found && type !== 'null';

/** The problem, and its remedy if it is only the last page that is like this. */
function withoutPlace({ page, next: { end } }: Api, check: Pick<FormatCheck, 'value'>, path: string): string {
  const problem = `it has no place for a next page: nothing contains ${path}`;
  const parents = path.split('/').map((_, index, parts) => parts.slice(0, index).join('/'));
  // The topmost one that is missing. In XML, only the paths of the description are known.
  const missing = parents.slice(2).find((parent) => !hasValue(check.value(parent)));
  if (missing === undefined || end?.same === true) return problem;
  const remedy = page.format === 'json' ? `"${missing}"` : 'the path of what it lacks';
  return `${problem}. If the last page, and no other, is like this, set api.next.end.absent to ${remedy}`;
}

/** `what` is what the value is called in messages. `literal` is the value as JSON. */
function toCursor(context: NextPageContext, value: string | undefined, what: string, literal?: string): Cursor | null {
  const { subject, api, sent } = context;
  const { absent, value: last, flag, same } = api.next.end ?? { absent: true };
  if (value === undefined) {
    if (absent !== undefined) return null;
    throw contractError(
      subject,
      flag === undefined ? `it has no ${what}, and that is not how the last page is described` : `it has no ${what}`,
    );
  }
  if (value === last) return null;
  if (value === '') throw contractError(subject, `the ${what} is empty`);
  if (containsKey(value, subject.keys)) throw contractError(subject, 'the cursor contains the API key');
  // Node.js decodes headers as Latin-1, so that a URL with other characters would become another URL.
  if (api.next.from !== 'body' && !isPrintableAscii(value))
    throw contractError(subject, `the ${what} is not printable ASCII`);
  const cursor = isUrl(api) ? localPath(context, value, what) : isJsonText(api) ? (literal ?? value) : value;
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

/**
 * The target of the only link with the relation `relation` in a header `Link` (RFC 8288); undefined if there is none. A header that
 * cannot be read is an error, and so is a link that a reader may or may not take for it: one with an anchor (it leads on from
 * another resource), or with a relation such as `'next'` or `https://example.com/next`.
 */
function linkTo(subject: Subject, relation: string, header: string): string | undefined {
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
