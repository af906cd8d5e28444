/**
 * The URL of the next page is in the header `Link` (RFC 8288):
 *
 *     link: </api/v1/logs?after=17>; rel="next"
 *     {"from": "link"}
 *
 *     link: </api/0/events/?cursor=0:100:0>; rel="next"; results="false"
 *     {"from": "link", "alsoOnLast": true} with "last": {"parameter": "results", "is": "false"}
 *
 * Without `last`, the last page has no such link. Refused: a header that cannot be read, more than one link with the
 * relation, and one that a reader may or may not take for it: with an anchor (it leads on from another resource), or
 * with a relation such as `'next'` or
 * `https://example.com/next`.
 */

import * as z from 'zod/mini';
import { oneTypeOf, exactlyOne, field, object, text } from '../../../core/schema/fields.ts';
import { readWithLast } from './agreement.ts';
import { InvalidPage, type NextKind } from './kind.ts';
import { alsoOnLast, formOfCursor, fromField, targetFields, targetRules, writeCursor } from './target.ts';

export const linkSchema = object({
  from: fromField('link'),
  at: field(
    'The relation of the link to the next page.',
    z._default(text(/^([a-z][\w.-]*|[a-z]+:[^\s"<>]+)$/i, 'must be a relation, such as next'), 'next'),
  ),
  to: field(
    'How the URL is requested: as it is (`url`), or its parameters over those of the request.',
    z._default(
      oneTypeOf(
        [
          z.literal('url'),
          exactlyOne({ query: field('The parameters of the URL: `*`.', z.literal('*', 'must be *')) }).check(
            z.meta({ id: 'api.next.to.link' }),
          ),
        ],
        'must be "url" or {"query": "*"}: a link is a URL, no cursor',
      ),
      'url',
    ),
  ),
  request: targetFields.request,
  alsoOnLast,
});

export const linkKind: NextKind<z.infer<typeof linkSchema>> = {
  rules: targetRules,
  paths: () => [],
  place: ({ at }) => `link with the relation ${at}`,
  header: () => 'link',
  parameters: ({ at }, { header, quote }) => linkTo(at, header('link') ?? '', quote)?.parameters,
  read(page, api) {
    const target = linkTo(api.next.at, page.header('link') ?? '', page.quote)?.target;
    const value = { parent: true, text: target, ...(target !== undefined && ({ type: 'string' } as const)) };
    const found = { value, what: 'link', place: { header: 'link' }, form: formOfCursor(api.next) };
    return readWithLast(found, page, api);
  },
  write: writeCursor,
};

interface Link {
  readonly target: string;
  /** By lower-case name. */
  readonly parameters: ReadonlyMap<string, string>;
}

/** The only link with the relation in a header; undefined if there is none. @throws InvalidPage */
function linkTo(relation: string, header: string, quote: (text: string, max: number) => string): Link | undefined {
  const links: Link[] = [];
  const wanted = relation.toLowerCase();
  for (const { text, isUnclear, isWanted, ...link } of linksIn(header, wanted)) {
    if (isUnclear)
      throw new InvalidPage(`the header Link has a link that may lead to ${relation}, or not: ${quote(text, 150)}`);
    if (isWanted) links.push(link);
  }
  if (links.length > 1) throw new InvalidPage(`there is more than one link to ${relation}`);
  return links[0];
}

/** The links of a header, in steps of a single pass each: one pattern would take exponential time for some headers. */
function* linksIn(header: string, wanted: string) {
  let position = 0;
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
    if (target === undefined || read(/\s*(?:,|$)/y) === null) throw new InvalidPage('the header Link is not valid');
    const text = header.slice(start, position).replace(/,$/, '').trim();
    yield { target, parameters, text, ...meaningOf(relations, parameters, wanted) };
  }
}

function meaningOf(
  [first = [], ...others]: readonly (readonly string[])[],
  parameters: ReadonlyMap<string, string>,
  wanted: string,
) {
  // The first relation counts (RFC 8288, section 3.3), but not for every reader.
  const isWanted = first.includes(wanted);
  const mayBeWanted = others.flat().includes(wanted) || [first, ...others].flat().some((one) => resembles(one, wanted));
  const isUnclear = parameters.has('rel*') || (isWanted ? parameters.has('anchor') : mayBeWanted);
  return { isWanted, isUnclear };
}

/** Whether it is the wanted relation in quotes, in a list, or at the end of a URI. */
const resembles = (relation: string, wanted: string): boolean =>
  relation !== wanted && (relation.replaceAll(/['"]/g, '') === wanted || relation.split(/[^\w.-]+/).includes(wanted));
