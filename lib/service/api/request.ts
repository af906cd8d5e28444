/** The request for a page, as the description of an API has it: texts with placeholders. */

import * as z from 'zod/mini';
import type { JsonObject, JsonValue } from '../../core/model.ts';
import {
  checkedText,
  jsonObject,
  object,
  optionalField,
  type Rule,
  type SettingsProblem,
  validEntries,
  withoutProblems,
} from '../../core/schema/fields.ts';
import { headerValuePattern, headerValueProblem, problemOfRequestHeader } from './header-names.ts';

type Path = SettingsProblem['path'];

/** The placeholders of a template. `{filter.NAME}` is a field of the filter, and `{filter}` the whole filter. */
const placeholders =
  '{since}, {since-1}, {until}, {until-1}, {size}, {parent}, {parent.NAME}, {job}, {filter} and {filter.NAME}';
/** `{poll:/path}` is a value in the response to the last poll of a job. */
export const placeholderPattern = /\{(\+?[A-Za-z][\w.-]*|poll:\/[^{}]+)\}/g;

/** The names in a text: `since` and `filter.type`. */
export const placeholdersIn = (template: string): readonly string[] =>
  // Most texts have none, and each request looks.
  !template.includes('{') ? [] : [...template.matchAll(placeholderPattern)].map(([, name = '']) => name);

export const vendorAdvice = 'Ask the vendor for a cursor, which the response contains and the next request sends back';
export const countAdvice =
  'offsets and page numbers are described by next.from: count, and sent by it, the first one, too. It needs a total in every response, as pages shift when data changes. Without a total, set its proof to "twice", or ask the vendor for a cursor';
const keyAdvice = 'a key belongs in auth: in its send, for a header, or if the vendor takes none, in its query';

/** Also what is nearly a placeholder: `{ since }`, `${since}` or `{{since}}`, which would be sent as it is. */
const likelyPlaceholder =
  /(?:\$\{|\{\{?)\s*(?:(?:since|until)(?:\s*-\s*1)?|\+?\s*parent(?:\.[^{}]*)?|filter(?:\.[^{}]*)?)\s*(?:(?<=\{\{[^}]*)\}\}|\})/gi;

/** A placeholder of Jinja, and of many others. Its value would be sent in braces. */
const doubledBraces = /\{\{\s*(\+?[A-Za-z][\w.-]*|poll:\/[^{}]+?)\s*\}\}/;

/** Where a template stands: in a body, a value may be an object, and only a path has slashes. */
interface TemplatePlace {
  readonly inBody?: boolean;
  readonly inPath?: boolean;
  /** The placeholders that only this request has. */
  readonly own: RegExp;
}

/** The placeholders that only some requests have. */
const noOwn = /^$/;
const ofPages = /^cursor$/;
const ofResults = /^(item|poll:\/.+)$/;

function findTemplateProblem(
  template: string,
  { inBody = false, inPath = false, own }: TemplatePlace,
): string | undefined {
  const isFound = (name: string) =>
    valuePattern.test(name) || own.test(name) || (/^\+(parent|job)$/.test(name) && inPath);
  const [doubled, single = ''] = doubledBraces.exec(template) ?? [];
  if (doubled !== undefined && isFound(single)) return `${doubled} is no placeholder. Write {${single}}`;
  const [wrong] = (template.match(likelyPlaceholder) ?? []).filter((one) => !/^\{\+?[A-Za-z][\w.-]*\}$/.test(one));
  if (wrong !== undefined) return `${wrong} is no placeholder. There are ${placeholders}`;
  for (const name of placeholdersIn(template)) {
    if (isFound(name) || (name === 'filter' && inBody && template === '{filter}')) continue;
    return problemOfName(name);
  }
  return undefined;
}

const valuePattern = /^((since|until)(-1)?|size|job|parent(\.[A-Za-z0-9_-]+)?|filter\.[A-Za-z0-9_.-]+)$/;

function problemOfName(name: string): string {
  if (/^\+(parent|job)$/.test(name)) return `{${name}} keeps slashes, which only a path has. Send {${name.slice(1)}}`;
  if (name === 'filter')
    return '{filter} is an object, so it can only be a whole value in the body. {filter.NAME} is one of its fields';
  if (/^(offset|page|pageNumber|skip|start)$/i.test(name)) return `{${name}}: ${countAdvice}`;
  if (/(key|token|secret|password)$/i.test(name)) return `{${name}}: ${keyAdvice}`;
  return `{${name}} is unknown; there are ${placeholders}. The cursor is described in next`;
}

const keyName = /^(api[-_]?key|(access[-_]?)?token|key|secret|password|sig|signature)$/i;
const offsetName = /^(offset|page|page[-_[]?(number|num|no|index|offset)\]?|skip|\$skip|start[-_]?(at|index))$/i;

export const isOffset = (name: string): boolean => offsetName.test(name);

/** Whether the field of a body at this path has the name of an offset: `skip`, or `number` in `page`. */
export const isOffsetPath = (path: Path): boolean =>
  [path.slice(-1), path.slice(-2)].some((names) => isOffset(names.join('_')));

function findParameterProblem(name: string, value: string): string | undefined {
  if (keyName.test(name) && value !== '{job}') return keyAdvice;
  return isOffset(name) && placeholdersIn(value).length === 0 ? countAdvice : undefined;
}

export const parametersIn = (path: string): readonly (readonly [name: string, value: string])[] =>
  path.includes('?') ? [...new URLSearchParams(path.slice(path.indexOf('?')))] : [];

const nameIn = (parameter: string): string => [...new URLSearchParams(parameter).keys()][0] ?? '';

/** A URL, or a path with a query, without these parameters; the others in the encoding that they have. */
export function withoutParameters(url: string, names: readonly string[]): string {
  const [, path = '', query = '', fragment = ''] = /^([^?#]*)\?([^#]*)([^]*)$/.exec(url) ?? [];
  if (query === '' || names.length === 0) return url;
  const kept = query.split('&').filter((each) => each !== '' && !names.includes(nameIn(each)));
  return `${path}${kept.length === 0 ? '' : `?${kept.join('&')}`}${fragment}`;
}

/** Whether the body is a request of GraphQL: its `query` has braces, which are no placeholders. */
export const isGraphql = ({ query, variables }: JsonObject): boolean =>
  typeof query === 'string' && typeof variables === 'object' && variables !== null;

/** The texts and values in a body that may have placeholders. */
const templatesIn = (body: JsonObject) => scalarsIn(isGraphql(body) ? { ...body, query: null } : body, []);

const bodyProblems =
  (own: RegExp) =>
  (body: JsonObject): readonly SettingsProblem[] =>
    templatesIn(body).flatMap(({ path, value }) => {
      const isCounted = isOffsetPath(path) && /^\d+$/.test(String(value));
      const place = { inBody: true, own };
      const message = isCounted
        ? countAdvice
        : typeof value === 'string'
          ? findTemplateProblem(value, place)
          : undefined;
      return message === undefined ? [] : [{ path, message }];
    });

type Scalar = Exclude<JsonValue, object>;

function scalarsIn(value: JsonValue, path: Path): readonly { readonly path: Path; readonly value: Scalar }[] {
  if (typeof value !== 'object' || value === null) return [{ path, value }];
  const entries: (readonly [string | number, JsonValue])[] = Array.isArray(value)
    ? [...(value as readonly JsonValue[]).entries()]
    : Object.entries(value);
  return entries.flatMap(([key, item]) => scalarsIn(item, [...path, key]));
}

/** The fields of a request with placeholders of its own. All are optional: a service has defaults. */
function requestFieldsWith(own: RegExp) {
  const template = checkedText((value) => findTemplateProblem(value, { own }));
  const parameters = z.record(z.string(), template).check(validEntries(findParameterProblem));
  const path = checkedText((value) => findTemplateProblem(value, { inPath: true, own })).check(
    z.regex(/^\/[\x21-\x22\x24-\x7e]*$/, 'must begin with a slash, and have no spaces and no fragment'),
    withoutProblems((value) =>
      parametersIn(value).flatMap(([name, each]) => {
        const message = findParameterProblem(name, each);
        return message === undefined ? [] : [{ path: [], message: `${name}: ${message}` }];
      }),
    ),
  );
  const headers = z
    .record(z.string(), template.check(z.regex(headerValuePattern, headerValueProblem)))
    .check(validEntries(problemOfRequestHeader));
  return {
    method: optionalField('The method. Without it, `GET`.', z.enum(['GET', 'POST'], 'must be GET or POST')),
    path: optionalField(
      'The path, after that of `baseUrl`. Its query is sent with every request, and may repeat a parameter.',
      path,
      {
        example: '/api/v1/logs',
      },
    ),
    query: optionalField('The query, by name. A parameter whose placeholder has no value is left out.', parameters, {
      example: { since: '{since}', until: '{until}', limit: '{size}' },
    }),
    headers: optionalField('Headers, by name. Without it, `Accept` has the content types of pages.', headers, {
      example: { Accept: 'application/json; version=2' },
    }),
    body: optionalField(
      'The JSON body of a POST. A field whose placeholder has no value is left out.',
      jsonObject(bodyProblems(own)),
      { example: { from: '{since}', type: '{filter.type}' } },
    ),
    form: optionalField('In place of `body`: the fields of a form, by name.', parameters, {
      example: { oldest: '{since}', latest: '{until}' },
    }),
  };
}

export const requestFields = requestFieldsWith(ofPages);
export const jobRequestFields = requestFieldsWith(noOwn);
export const resultRequestFields = requestFieldsWith(ofResults);

export const requestSchema = object({
  ...requestFields,
  method: z._default(z.enum(['GET', 'POST'], 'must be GET or POST'), 'GET'),
  path: z.nonoptional(requestFields.path),
});
export type Request = z.infer<typeof requestSchema>;

/** What further requests have in place of fields of `request`. */
export const furtherRequestSchema = object(requestFieldsWith(ofPages)).check(z.meta({ id: 'api.next.request' }));
export type FurtherRequest = z.infer<typeof furtherRequestSchema>;

export const requestRules = ({ method, body, form }: Request): readonly Rule[] => [
  [['body'], method !== 'POST' && body !== undefined, 'needs the method POST: servers ignore the body of a GET'],
  [['form'], method !== 'POST' && form !== undefined, 'needs the method POST: servers ignore the body of a GET'],
  [['form'], body !== undefined && form !== undefined, 'takes the place of body: set only one of them'],
];

/** The placeholders in the path, the query, the headers and the body of a request. */
const placeholdersOf = ({ body, ...rest }: FurtherRequest): readonly string[] =>
  [...templatesIn(body ?? {}), ...scalarsIn(rest, [])].flatMap(({ value }) => placeholdersIn(String(value)));

/** Whether a request has the placeholder. */
export const uses = (request: FurtherRequest, name: string): boolean => placeholdersOf(request).includes(name);

/** The placeholders of a request for values of the parent: `parent`, `+parent`, `parent.NAME`. */
export const parentsIn = (request: FurtherRequest): readonly string[] =>
  placeholdersOf(request).filter((name) => /^\+?parent(\.|$)/.test(name));

/** Whether a request has the bound, as it is or one unit before. */
export const usesBound = (request: FurtherRequest, bound: 'since' | 'until'): boolean =>
  uses(request, bound) || uses(request, `${bound}-1`);

/** A request whose placeholders have their values, before it is encoded. */
export interface RequestParts {
  /** With the fixed part of the query. */
  readonly path: string;
  readonly query: readonly Parameter[];
  /** What follows the query, encoded already. */
  readonly rawQuery?: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Undefined: GET, or a form. */
  readonly body?: JsonObject;
  readonly form?: readonly Parameter[];
}

export type Parameter = readonly [name: string, value: string];

export const keysOf = (pointer: string): readonly string[] =>
  pointer
    .split('/')
    .slice(1)
    .map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));
