/** Where the next request sends what a response has: a cursor, or the URL of the next page. Several kinds share it. */

import * as z from 'zod/mini';
import type { JsonObject } from '../../../core/model.ts';
import { oneTypeOf, exactlyOne, field, flag, optionalField, type Rule, text } from '../../../core/schema/fields.ts';
import { cursorHeaderName } from '../header-names.ts';
import {
  furtherRequestSchema,
  keysOf,
  type Parameter,
  parametersIn,
  type Request,
  requestRules,
  type RequestParts,
  uses,
  withoutParameters,
} from '../request.ts';
import { decodeText, parseExactly } from './cursor-text.ts';
import type { CursorForm, Described } from './kind.ts';

export const fromField = <Place extends string>(place: Place) =>
  field(
    'Where a response has the next page. With `count`, pages are counted; with `none`, there is only one.',
    z.literal(place),
  );

const parameterName = text(/^[\x21-\x7e]{1,100}$/, 'must be printable ASCII, without spaces');

const places = {
  query: field(
    'The name of the parameter. With `*`, the parameters of the URL of the next page, or the fields of an object, replace those of the request.',
    parameterName,
    { example: 'cursor' },
  ),
  header: field('The name of the header.', cursorHeaderName, { example: 'X-Continuation' }),
  body: field(
    'The JSON Pointer of a field of the body.',
    text(/^(\/([^~/]|~[01])+)+$/, 'must be a JSON Pointer, such as /cursor'),
    { example: '/cursor' },
  ),
  form: field('The name of the field of `request.form`.', parameterName, { example: 'cursor' }),
};
const target = oneTypeOf(
  [z.literal('url'), exactlyOne(places).check(z.meta({ id: 'api.next.to' }))],
  'must have one of query, header, body and form, for a cursor, or be "url"',
);

export const targetFields = {
  to: optionalField(
    'Where the next request sends the cursor; or `url`, if it is the URL of the next page, with the origin of the service. Without it, `request` has `{cursor}`.',
    target,
    { example: { query: 'cursor' } },
  ),
  request: optionalField(
    'Fields that further requests have in place of those of `request`. `{cursor}` in them takes the place of `to`. For a POST whose next page is a URL, `method` is required.',
    furtherRequestSchema,
    { example: { path: '/v2/items/continue', body: { cursor: '{cursor}' } } },
  ),
};

export const alsoOnLast = optionalField(
  'Whether the last page may have a next page, which is ignored. Without it, false.',
  flag(),
);

/** Only in a query whose name is the number, which counts pages. */
export const countedTarget = optionalField(
  'Where requests send the number. Without it, `request` has `{cursor}`.',
  exactlyOne({ query: places.query, body: places.body, form: places.form }),
  { example: { query: 'page' } },
);

/** The same for every kind that has a target. */
export interface WithTarget {
  readonly to?: z.infer<typeof target> | undefined;
  readonly request?: z.infer<typeof furtherRequestSchema> | undefined;
}

/** The place in a request: its fields are those that `to` may have. */
export const placeOf = ({ to }: Pick<WithTarget, 'to'>): { readonly [Name in keyof typeof places]?: string } =>
  typeof to === 'object' ? to : {};

/** How a text is kept that is the next page. */
export function formOfCursor({ to }: Pick<WithTarget, 'to'>): CursorForm {
  if (to === 'url') return 'url';
  return placeOf({ to }).query === '*' ? 'parameters' : 'text';
}

/** The same for a value of a body: in JSON, it keeps its type if it is sent in a body. */
export function formOfValue({ next, page }: Pick<Described<WithTarget>, 'next' | 'page'>): CursorForm {
  const isInBody = placeOf(next).body !== undefined || wholeValues(next.request?.body).includes('{cursor}');
  return page.format === 'json' && isInBody ? 'json' : formOfCursor(next);
}

const wholeValues = (value: unknown): readonly unknown[] =>
  typeof value === 'object' && value !== null ? Object.values(value).flatMap(wholeValues) : [value];

/** The request for a further page, as a template. GET sends no body. */
export function furtherRequest({ request, next }: { readonly request: Request; readonly next: object }): Request {
  const { request: changes }: Pick<WithTarget, 'request'> = next;
  if (changes === undefined) return request;
  const { body, form, ...rest } = { ...request, ...changes };
  if (rest.method === 'GET') return { ...rest, ...changes };
  if (changes.form !== undefined) return { ...rest, form };
  return changes.body === undefined ? { ...rest, body, form } : { ...rest, body };
}

export function targetRules(api: Described<WithTarget>): readonly Rule[] {
  const { request, next } = api;
  const { query, body, form } = placeOf(next);
  const further = furtherRequest(api);
  const hasCursor = next.request !== undefined && uses(next.request, 'cursor');
  const isUrl = next.to === 'url';
  const sent = [...Object.keys(further.query ?? {}), ...(query === '*' ? [] : [query])];
  return [
    [['next', 'to'], next.to === undefined && !hasCursor, 'is required, unless next.request has {cursor}'],
    [
      ['next', 'to'],
      next.to !== undefined && hasCursor,
      'must not be set: next.request has {cursor}, which takes its place',
    ],
    [
      ['next', 'request'],
      isUrl && request.method === 'POST' && next.request?.method === undefined,
      'must have the method for the URL of the next page: GET sends no body, and POST the same one',
    ],
    ...requestRules(further).map(([path, isBroken, message]): Rule => [
      ['next', 'request', ...path],
      isBroken,
      message,
    ]),
    [['next', 'to', 'body'], body !== undefined && further.method === 'GET', 'needs the method POST'],
    [
      ['next', 'to', 'body'],
      body !== undefined && further.form !== undefined,
      'must be form: the request has no JSON body',
    ],
    [['next', 'to', 'form'], form !== undefined && further.form === undefined, 'needs request.form'],
    ...parametersIn(further.path).map(([name]): Rule => [
      ['request', 'path'],
      sent.includes(name),
      `must not have ${name}, which is sent, too`,
    ]),
  ];
}

/** Whether the cursor is part of a text with quotes, where a quote in it would change what the text says. */
export const isInQuotes = ({ request }: Pick<WithTarget, 'request'>): boolean =>
  wholeValues(request).some(
    (each) => each !== '{cursor}' && /\{cursor\}/.test(String(each)) && /['"`]/.test(String(each)),
  );

export function writeCursor(
  parts: RequestParts,
  cursor: string | null,
  { next, form }: { readonly next: WithTarget; readonly form: CursorForm },
): RequestParts {
  if (cursor === null) return parts;
  switch (form) {
    case 'url':
      // Path and query of a link, as the service wrote them.
      return { ...parts, path: cursor, query: [] };
    case 'parameters':
      return withParameters(parts, cursor);
    case 'json':
      return writeAt(parts, placeOf(next), parseExactly(cursor));
    case 'text':
      return writeAt(parts, placeOf(next), decodeText(cursor));
  }
}

/** `value` is a text, except in a body. */
export function writeAt(parts: RequestParts, place: ReturnType<typeof placeOf>, value: unknown): RequestParts {
  const { query, header, form, body } = place;
  const replace = (parameters: readonly Parameter[], name: string): readonly Parameter[] => [
    ...parameters.filter(([each]) => each !== name),
    [name, String(value)],
  ];
  if (query !== undefined) return { ...parts, query: replace(parts.query, query) };
  if (form !== undefined) return { ...parts, form: replace(parts.form ?? [], form) };
  if (header !== undefined) return { ...parts, headers: { ...parts.headers, [header]: String(value) } };
  return body === undefined ? parts : { ...parts, body: withValueAt(parts.body, keysOf(body), value) as JsonObject };
}

/** The parameters lie over those of the request, also of its path, in the order and the encoding of the service. */
function withParameters(parts: RequestParts, parameters: string): RequestParts {
  const names = [...new URLSearchParams(parameters).keys()];
  return {
    ...parts,
    path: withoutParameters(parts.path, names),
    query: parts.query.filter(([name]) => !names.includes(name)),
    rawQuery: parameters,
  };
}

/** `parent` with `value` at `path`. What else it has stays; what is neither an object nor an array is replaced. */
function withValueAt(parent: unknown, [key = '', ...rest]: readonly string[], value: unknown): object {
  const children: Readonly<Record<string, unknown>> =
    typeof parent === 'object' && parent !== null ? { ...parent } : {};
  const child = rest.length === 0 ? value : withValueAt(Object.hasOwn(children, key) ? children[key] : {}, rest, value);
  const changed = { ...children, [key]: child };
  return Array.isArray(parent) ? Object.values(changed) : changed;
}

/** What the request for the first page has in the place of a cursor: `*`, for example. */
export function valueInPlace({ query, body, form = [] }: RequestParts, next: WithTarget): string | undefined {
  const place = placeOf(next);
  if (place.form !== undefined) return form.find(([name]) => name === place.form)?.[1];
  if (place.query !== undefined) return query.find(([name]) => name === place.query)?.[1];
  const value = keysOf(place.body ?? '').reduce<unknown>(
    (parent, key) => (typeof parent === 'object' ? (parent as JsonObject | null)?.[key] : undefined),
    place.body === undefined ? undefined : body,
  );
  return value === undefined || value === null || typeof value === 'object' ? undefined : String(value as string);
}
