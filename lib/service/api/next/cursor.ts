/** The cursor of the next page: what it must be, and how it is stored. */

import { asCursor, type Cursor, maxCursorLength } from '../../../core/model.ts';
import { isOffset, isOffsetPath } from '../request.ts';
import { isSomething, type PathValue } from '../response-facts.ts';
import { asciiJson, asciiLiteral, encodeText, parseExactly } from './cursor-text.ts';
import { type CursorForm, InvalidDescription, InvalidPage, type PageFacts } from './kind.ts';
import { isInQuotes, placeOf, type WithTarget } from './target.ts';

/** The value of a response at the place of the next page. */
export interface Found {
  readonly value: PathValue;
  /** Its name in messages. */
  readonly what: string;
  readonly form: CursorForm;
  /** The condition part that names the same place. */
  readonly place?: { readonly at?: string; readonly header?: string };
}

/**
 * The cursor of the next page, as it is stored.
 * @throws InvalidPage if it cannot be sent back, contains a secret, or leads to another server
 */
export function cursorOf(found: Found, page: PageFacts, { next }: { readonly next: WithTarget }): Cursor {
  const { value, what, form } = found;
  const { text: given = value.json ?? '' } = value;
  const isUrl = form === 'url' || form === 'parameters';
  const text = isUrl ? urlWithoutKeys({ ...found, text: given }, page) : given;
  const problem = page.hasSecret(text)
    ? 'the cursor contains the API key'
    : (problemOfType(value, what, form) ?? problemOfText(text, found, next));
  if (problem !== undefined) throw new InvalidPage(problem);
  const stored = stateAs[form]({ ...found, text }, page);
  if (stored.length > maxCursorLength)
    throw new InvalidPage(`the cursor is longer than ${maxCursorLength} characters, as it is stored`);
  return asCursor(stored);
}

/** Services repeat the query of the request, with the key, which is added again when the next request is sent. */
function urlWithoutKeys({ value, text, what, form }: Stated, page: PageFacts): string {
  const isQuery = form === 'parameters' && value.type === 'object';
  // A parser of URLs ignores these characters, also within a name.
  return page.withoutKeys(isQuery ? `?${fieldsAsQuery(text, what)}` : text.replace(/[\t\n\r]/g, ''));
}

function problemOfType({ type, text }: PathValue, what: string, form: CursorForm): string | undefined {
  if ((type === 'object' || type === 'array') && form !== 'json' && form !== 'parameters')
    return `the ${what} is an ${type}, and no cursor`;
  if (type !== 'boolean') return undefined;
  // Sent back as text, `false` would select the first page again, or nothing.
  const remedy = `If the last page has ${text} there, set api.last to {"at": "…", "is": ${text}}`;
  return `the ${what} is a boolean, and no cursor. ${remedy}`;
}

/** Why a text cannot be sent back where the description says. */
function problemOfText(text: string, { what, place }: Found, next: WithTarget): string | undefined {
  const toHeader = placeOf(next).header !== undefined;
  if (/^\d+$/.test(text) && isSentAsOffset(next)) {
    const problem = `the ${what} is a number, and is sent as an offset. When data changes during a run, pages shift`;
    const remedy = 'Use a cursor or a URL of the response, or next.from: count, if every response has a total';
    throw new InvalidDescription(`${problem}. ${remedy}`);
  }
  if (isInQuotes(next) && /['"`\\]/.test(text))
    return `the ${what} has a quote or a backslash, which would change the query that it is part of`;
  // A header carries no other characters, and those of URLs in headers have no certain encoding.
  const isHeader = place?.header !== undefined || toHeader;
  if (isHeader && !/^[\x20-\x7e]*$/.test(text)) return `the ${what} is not printable ASCII`;
  // HTTP drops such a space, so that another cursor would arrive.
  return toHeader && text.trim() !== text
    ? `the ${what} begins or ends with a space, which the header in api.next.to cannot have`
    : undefined;
}

type Stated = Found & { readonly text: string };

const stateAs = {
  url: ({ text, what }: Stated, page: PageFacts) => localPath(page, text, what),
  parameters: (found: Stated, page: PageFacts) => parametersOf(found, page),
  json: ({ value, text }: Stated) => (value.type === 'string' ? asciiLiteral(text) : asciiJson(value.json ?? text)),
  text: ({ text }: Stated) => encodeText(text),
};

/** Whether the cursor is sent in a place named like an offset. Some APIs call a cursor so; a number counts reports. */
function isSentAsOffset(next: WithTarget): boolean {
  const { query, body = '', form } = placeOf(next);
  return isOffset(query ?? form ?? '') || isOffsetPath(body.split('/').slice(1));
}

/** Path and query of a URL of the same server: to any other, the next request would send the API key. */
function localPath({ requested, quote }: PageFacts, value: string, what: string): string {
  const url = URL.parse(value, requested.href);
  if (url === null) throw new InvalidPage(`the ${what} is not a URL`);
  if (url.origin !== requested.origin || url.username !== '' || url.password !== '') {
    const problem = `the ${what} leads to ${quote(url.origin, 100)}, not to ${requested.origin}, which the API key is for`;
    throw new InvalidPage(`${problem}. If its parameters suffice, set next.to to {"query": "*"}`);
  }
  return `${url.pathname}${url.search}`;
}

/** The query of a URL, or the fields of an object as a query. The host of the URL is never contacted. */
function parametersOf({ value, what, text }: Stated, page: PageFacts): string {
  if (value.type === 'array') throw new InvalidPage(`the ${what} is an array, which has no parameters`);
  const query = value.type === 'object' ? text : URL.parse(text, page.requested.href)?.search;
  const parameters = query?.replace(/^\?/, '') ?? '';
  if (parameters === '') throw new InvalidPage(`the ${what} is no URL with a query`);
  return parameters;
}

function fieldsAsQuery(json: string, what: string): string {
  const fields = Object.entries(parseExactly(json) as Readonly<Record<string, unknown>>);
  return fields
    .map(([name, value]) => {
      const text = typeof value === 'string' ? value : JSON.stringify(value);
      if (/^[[{]/.test(text) && typeof value !== 'string')
        throw new InvalidPage(`the ${what} has a field ${JSON.stringify(name)} that is no text and no number`);
      return `${encodeURIComponent(name)}=${encodeURIComponent(text)}`;
    })
    .join('&');
}

export const hasNextPage = ({ value }: Found): boolean => isSomething(value);
