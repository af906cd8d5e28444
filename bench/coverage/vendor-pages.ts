/**
 * A response whose page the paginator of a manifest reads as it should: its templates are evaluated on candidates,
 * until they find the next page, or the end.
 */

import { partOf, scopeWith, splitAtList } from './requests.ts';
import {
  evaluate,
  evaluateText,
  expressionOf,
  isPlain,
  type Plain,
  type Scope,
  textOf,
  type Tree,
  treeOf,
  truthOf,
} from './templates.ts';

export interface Ending {
  readonly document: unknown;
  readonly headers: Readonly<Record<string, string>>;
  readonly records: readonly Plain[];
  /** What the next request has; undefined on the last page. */
  readonly token: unknown;
  /** The URL of this page, if the page before had it. */
  readonly url: string | undefined;
}

type Path = readonly (string | number)[];

/** Which parts of a response the templates of a paginator read. */
export interface PageFields {
  readonly scope: Scope;
  readonly cursor: string | undefined;
  readonly stop: string | undefined;
  /** Paths in the body. Those of the cursor come first. */
  readonly body: readonly { readonly path: Path; readonly isCursor: boolean }[];
  readonly headers: readonly string[];
  /** Objects that contain other places. */
  readonly containers: readonly Path[];
  readonly recordFields: readonly (readonly string[])[];
  /** Texts and numbers that templates compare with. */
  readonly constants: readonly unknown[];
}

export function pageFields(stream: Plain, outer: Scope): PageFields {
  const strategy = partOf(partOf(stream.retriever, 'paginator'), 'pagination_strategy');
  const cursor = typeof strategy.cursor_value === 'string' ? strategy.cursor_value : undefined;
  const stop = strategy.stop_condition === undefined ? undefined : textOf(strategy.stop_condition);
  const found = [
    ...(cursor === undefined ? [] : placesIn(withoutConditions(cursor)).map((place) => ({ ...place, isCursor: true }))),
    ...[cursor, stop].flatMap((text) =>
      text === undefined ? [] : placesIn(treeOf(text)).map((place) => ({ ...place, isCursor: false })),
    ),
  ];
  const of = (base: string) => found.filter((each) => each.base === base && each.path.length > 0);
  const body = of('response').filter(
    ({ path }, index, all) => all.findIndex((each) => each.path.join('/') === path.join('/')) === index,
  );
  const isContainer = (path: Path) =>
    body.some((each) => each.path.length > path.length && path.every((part, index) => part === each.path[index]));
  return {
    scope: scopeWith(strategy, outer),
    cursor,
    stop,
    body: body.filter(({ path }) => !isContainer(path)),
    headers: [...new Set(of('headers').map(({ path }) => String(path[0])))],
    containers: (stop === undefined ? [] : placesIn(treeOf(stop))).map(({ path }) => path),
    recordFields: [
      ...of('last_record').map(({ path }) => path),
      // The last item of the list of records is the last record.
      ...body.filter(({ path }) => path.includes(-1)).map(({ path }) => path.slice(path.indexOf(-1) + 1)),
    ].map((path) => path.map(String)),
    constants: [cursor, stop].flatMap((text) => (text === undefined ? [] : constantsIn(text))),
  };
}

function* nodesOf(value: unknown): Generator<Tree> {
  if (Array.isArray(value)) for (const each of value) yield* nodesOf(each);
  else if (value instanceof Map) for (const pair of value) yield* nodesOf(pair);
  else if (typeof value === 'object' && value !== null) {
    if ('type' in value) yield value as Tree;
    for (const each of Object.values(value)) yield* nodesOf(each);
  }
}

/** What a conditional template has for the cursor, without the condition. */
const withoutConditions = (text: string): readonly Tree[] =>
  treeOf(text).flatMap((tree) => (tree.type === 'Ternary' ? [tree.trueExpr as Tree, tree.falseExpr as Tree] : tree));

interface Place {
  readonly base: string;
  readonly path: Path;
}

/** Each `response.a.b`, not also `response.a`. */
function placesIn(value: unknown): readonly Place[] {
  if (Array.isArray(value)) return value.flatMap(placesIn);
  if (value instanceof Map) return [...value].flatMap(placesIn);
  if (typeof value !== 'object' || value === null) return [];
  const tree = value as Tree;
  const { value: operator } = (tree.operator ?? {}) as { readonly value?: string };
  const { value: name } = (tree.left ?? {}) as { readonly value?: unknown };
  if ((operator === 'in' || operator === 'not in') && typeof name === 'string') {
    const place = placeOf(tree.right as Tree);
    const isText = place?.base === 'headers' && place.path.length > 0;
    return place === undefined ? placesIn(tree.right) : [isText ? place : { ...place, path: [...place.path, name] }];
  }
  const place = placeOf(tree);
  if (place !== undefined) return place.path.length === 0 ? [] : [place];
  // A method of a place.
  const callee = tree.type === 'CallExpression' ? (tree.callee as Tree) : undefined;
  if (callee?.type === 'MemberExpression') return [...placesIn(callee.object), ...placesIn(tree.args)];
  return Object.values(tree).flatMap(placesIn);
}

/** `response.a['b'].get('c')` */
function placeOf(tree: Tree): Place | undefined {
  if (tree.type === 'Identifier') return { base: tree.value as string, path: [] };
  if (tree.type === 'MemberExpression') {
    const object = placeOf(tree.object as Tree);
    const { type, value, argument } = tree.property as Tree;
    if (type === 'UnaryExpression' && object !== undefined)
      return { ...object, path: [...object.path, -1 * ((argument as Tree).value as number)] };
    const isName = type === 'StringLiteral' || type === 'IntegerLiteral' || type === 'Identifier';
    return object && isName && (typeof value === 'string' || typeof value === 'number')
      ? { ...object, path: [...object.path, value] }
      : object;
  }
  if (tree.type !== 'CallExpression') return undefined;
  const { type, object, property } = tree.callee as Tree;
  const [first] = tree.args as readonly Tree[];
  if (type !== 'MemberExpression') return undefined;
  const place = placeOf(object as Tree);
  const isGet = (property as Tree).value === 'get' && typeof first?.value === 'string';
  return place && isGet ? { ...place, path: [...place.path, first.value as string] } : undefined;
}

const constantsIn = (text: string): readonly unknown[] =>
  [...nodesOf(treeOf(text))]
    .flatMap((tree) => (tree.type === 'BinaryExpression' ? [tree.left as Tree, tree.right as Tree] : []))
    .filter(({ type }) => type === 'StringLiteral' || type === 'IntegerLiteral')
    .map(({ value }) => value);

/** A field that is not there. */
const absent = Symbol('absent');
/** Nor is the object that would contain it. */
const withoutPlace = Symbol('without its place');

export interface Wanted {
  readonly fields: PageFields;
  readonly records: readonly Plain[];
  readonly recordPath: readonly string[];
  readonly token: string;
  readonly url: string | undefined;
  readonly kind: 'middle' | 'last' | 'quiet';
  readonly tokenName: string;
  /** Where the page begins, the size of pages, and the number of all records, if the cursor is an offset and a size. */
  readonly counted?: Counted | undefined;
}

interface Counted {
  readonly start: number;
  readonly size: number;
  readonly total: number;
}

/** @throws if no candidate is read as it should be */
export function buildPage(wanted: Wanted): Ending {
  const { fields, records, recordPath, token, url, kind, tokenName, counted } = wanted;
  const { body, headers } = fields;
  const digits = token.replaceAll(/\D/g, '');
  const withDigits = `http://127.0.0.1/other?${tokenName}=${digits}`;
  const withToken = `http://127.0.0.1/other?${tokenName}=${token}`;
  const own = body.filter(
    ({ path }) => !path.some((part) => typeof part === 'number' && part < 0) && !isRecords(path, recordPath),
  );
  const isMiddle = kind === 'middle';
  const leaf = kind === 'quiet' ? [absent, null, ''] : [null, '', absent];
  const choices = own.slice(0, 4).map(({ path, isCursor }, index): readonly unknown[] => {
    if (counted !== undefined && isCursor) return [index === 0 ? counted.start : counted.size];
    if (counted !== undefined) return isMiddle ? [false, counted.total] : [true, counted.total, 0];
    const nothing = endsWithPlace(fields, path) ? [withoutPlace, ...leaf] : [...leaf, withoutPlace];
    if (isCursor)
      return isMiddle ? [token, withToken, withDigits, true] : [...nothing, false, 0, ...fields.constants, token];
    return isMiddle
      ? [true, false, 'more', 5, 0, null, absent, ...fields.constants, token]
      : [false, true, ...fields.constants, ...nothing, 0, 1];
  });
  const link = isMiddle ? [`<${token}>; rel="next"`, `<${withToken}>; rel="next"`, token] : [absent];
  const headerChoices = headers
    .slice(0, 2)
    .map((): readonly unknown[] => (headers.length === 0 ? [absent] : [...link, absent, 'false', 'true']));
  for (const values of combinations([...choices, ...headerChoices])) {
    const document = documentWith(
      own.slice(0, 4).map(({ path }, index) => [path, values[index]] as const),
      records,
      recordPath,
    );
    const sent = Object.fromEntries(
      headers.slice(0, 2).flatMap((name, index) => {
        const value = values[choices.length + index];
        return typeof value === 'symbol' ? [] : [[name, String(value)]];
      }),
    );
    const next = nextOf(fields, document, sent, records);
    const isEnd = next === undefined && saysStop(fields, document, sent, records) !== false;
    const isRight = counted === undefined ? isNext(next, token, fields) : next === counted.start + counted.size;
    if (isMiddle ? isRight : isEnd) {
      const carried = isMiddle ? next : undefined;
      return {
        document,
        headers: Object.fromEntries(Object.entries(sent).map(([name, value]) => [name.toLowerCase(), value])),
        records,
        token: carried,
        url,
      };
    }
  }
  throw new Error('No response is read as it should be');
}

/** Whether the end is that the object is missing which contains the cursor. */
const endsWithPlace = ({ containers }: PageFields, path: Path): boolean => {
  const has = (place: Path) => place.length > 0 && containers.some((each) => each.join('/') === place.join('/'));
  return has(path.slice(0, -1)) && !has(path);
};

/** A token that is in the last record is another one. */
const isNext = (next: unknown, token: string, { recordFields, body }: PageFields): boolean =>
  next !== undefined &&
  ([token, token.replaceAll(/\D/g, '')].some((text) => JSON.stringify(next).includes(text)) ||
    recordFields.length > 0 ||
    body.some(({ path }) => path.includes(-1)));

const isRecords = (path: Path, recordPath: readonly string[]): boolean =>
  path.every((part, index) => part === recordPath[index]) ||
  (path.length > recordPath.length &&
    recordPath.length > 0 &&
    recordPath.every((part, index) => part === path[index]) &&
    typeof path[recordPath.length] === 'number');

function* combinations(choices: readonly (readonly unknown[])[]): Generator<readonly unknown[]> {
  const [first, ...others] = choices;
  if (first === undefined) yield [];
  else for (const rest of combinations(others)) for (const value of first) yield [value, ...rest];
}

function documentWith(
  fields: readonly (readonly [Path, unknown])[],
  records: readonly Plain[],
  recordPath: readonly string[],
): unknown {
  const { list, inner } = splitAtList(recordPath);
  const items = records.map((record) => inner.reduceRight<unknown>((item, name) => ({ [name]: item }), record));
  if (list.length === 0) return items;
  const root: Record<string, unknown> = {};
  put(root, list, items);
  for (const [path, value] of fields) put(root, path, value);
  return root;
}

function put(root: Record<string, unknown>, whole: Path, value: unknown): void {
  let object = root;
  const path = value === withoutPlace ? whole.slice(0, -1) : whole;
  for (const part of path.slice(0, -1)) {
    object[part] ??= {};
    if (!isPlain(object[part])) return;
    object = object[part] as Record<string, unknown>;
  }
  const [name = ''] = path.slice(-1);
  if (typeof value !== 'symbol') object[name] = value;
}

const scopeOf = (
  { scope }: PageFields,
  document: unknown,
  headers: Readonly<Record<string, string>>,
  records: readonly Plain[],
): Scope => ({
  ...scope,
  response: document,
  headers: { ...headers, link: linksIn(headers) },
  last_record: records.at(-1),
  last_page_size: records.length,
});

/** Whether the paginator has a condition for the end, and it holds; undefined without one. */
function saysStop(
  fields: PageFields,
  ...response: readonly [unknown, Readonly<Record<string, string>>, readonly Plain[]]
): boolean | undefined {
  const { stop } = fields;
  return stop === undefined || !stop.includes('{{') ? undefined : isTrue(stop, scopeOf(fields, ...response));
}

/** What the paginator makes of a response: the token of the next page, or undefined at the end. */
function nextOf(
  fields: PageFields,
  ...response: readonly [unknown, Readonly<Record<string, string>>, readonly Plain[]]
): unknown {
  const { cursor, stop } = fields;
  if (cursor === undefined) return undefined;
  const scope = scopeOf(fields, ...response);
  try {
    if (stop !== undefined && stop !== '' && isTrue(stop, scope)) return undefined;
    const value = evaluateText(cursor, scope);
    return value === null || value === undefined || value === '' || !truthOf(value) ? undefined : value;
  } catch {
    return undefined;
  }
}

const isTrue = (stop: string, scope: Scope): boolean =>
  stop.includes('{{') ? truthOf(evaluate(expressionOf(stop), scope)) : ['true', 'True'].includes(textOf(stop).trim());

/** The header `Link` as the HTTP library of the interpreter reads it. */
function linksIn(headers: Readonly<Record<string, string>>): Plain {
  const text = headers.link ?? headers.Link ?? '';
  const links = [...text.matchAll(/<([^>]*)>\s*;\s*rel="?([^",]*)"?/g)];
  return Object.fromEntries(links.map(([, url = '', rel = '']) => [rel, { url, rel }]));
}
