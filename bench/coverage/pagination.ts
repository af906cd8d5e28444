/** Paginators of manifests as `next` and `last` of our language. */

import {
  type CountedPages,
  countedPagesOf,
  customName,
  partOf,
  primaryKeyOf,
  scopeWith,
  splitAtList,
} from './requests.ts';
import {
  evaluate,
  evaluateText,
  expressionOf,
  Joined,
  type Plain,
  Ref,
  type Scope,
  type Tree,
  Untranslatable,
} from './templates.ts';

export interface TranslatedPages {
  /** Without `to`. */
  readonly next: Plain;
  readonly last: unknown;
  /** What a request has for the cursor: the placeholder, or what contains it. */
  readonly token: unknown;
  /** The number of the first page, if pages are counted. */
  readonly number?: number;
}

export function translatePages(stream: Plain, outer: Scope, recordPath: readonly string[]): TranslatedPages {
  const paginator = partOf(stream.retriever, 'paginator');
  const { type } = paginator;
  if (type === undefined || type === 'NoPagination')
    return { next: { from: 'none' }, last: undefined, token: undefined };
  const strategy = partOf(paginator, 'pagination_strategy');
  const counted = countedPagesOf(stream, outer);
  if (counted !== undefined) return provedTwice(counted, primaryKeyOf(stream), recordPath);
  const custom = customName(strategy);
  if (custom !== undefined) throw new Untranslatable(`custom Python component: ${custom}`);
  if (strategy.type !== 'CursorPagination') throw new Untranslatable(`the pagination ${String(strategy.type)}`);
  const scope: Scope = {
    ...scopeWith(strategy, outer),
    response: new Ref('response'),
    headers: new Ref('headers'),
    last_record: new Ref('last_record'),
    last_page_size: new Ref('last_page_size'),
  };
  const cursorTree = expressionOf(String(strategy.cursor_value));
  const guards: Fact[] = [];
  const { place: cursor, token } = placeOf(cursorTree, scope, recordPath, guards);
  const stop = strategy.stop_condition;
  const facts =
    stop === undefined || stop === '' ? [] : factsOf(conditionOf(stop, scope), false, { scope, recordPath });
  const { inner } = splitAtList(recordPath);
  const place = cursor.base === 'last_record' ? new Ref(cursor.base, [...inner, ...cursor.path]) : cursor;
  return { ...pagesOf(place, [...guards, ...facts]), token };
}

/** Airbyte ends at a short page, and we at one without records: a manifest knows of no total. */
function provedTwice(
  { first, step }: CountedPages,
  keys: readonly (readonly string[])[],
  recordPath: readonly string[],
): TranslatedPages {
  const { inner } = splitAtList(recordPath);
  // Without a key, a record identifies itself.
  const paths = keys.length === 0 ? [''] : keys.map((key) => pathOf([...inner, ...key]));
  const next = {
    from: 'count',
    ...(first === 1 ? {} : { first }),
    ...(step === 1 ? {} : { step }),
    proof: 'twice',
    by: paths.length === 1 ? paths[0] : paths,
  };
  return { next, last: undefined, token: new Ref('cursor'), number: first };
}

function conditionOf(stop: unknown, scope: Scope): Tree {
  if (typeof stop === 'boolean') return { type: 'Identifier', value: String(stop) };
  const text = String(stop);
  if (!text.includes('{{')) return { type: 'Identifier', value: String(evaluateText(text, scope)) };
  return expressionOf(text);
}

/** Where the cursor is. A condition in its template says when there is none. */
function placeOf(
  tree: Tree,
  scope: Scope,
  recordPath: readonly string[],
  guards: Fact[],
): { readonly place: Ref; readonly token: unknown } {
  if (tree.type === 'Ternary') {
    const { condition, trueExpr, falseExpr } = tree as unknown as Record<string, Tree>;
    const place = placeOf(trueExpr as Tree, scope, recordPath, guards);
    const otherwise = evaluate(falseExpr as Tree, scope);
    if (otherwise !== undefined && otherwise !== null && otherwise !== '')
      throw new Untranslatable('a cursor that is calculated');
    guards.push(...factsOf(condition as Tree, true, { scope, recordPath }));
    return place;
  }
  const value = evaluateCursor(tree, scope);
  if (value instanceof Joined) {
    const places = value.parts.filter((part) => part instanceof Ref);
    const [place] = places;
    if (place === undefined || places.length > 1) throw new Untranslatable('a cursor that is put together');
    return { place, token: tokenAround(value) };
  }
  if (!(value instanceof Ref)) throw new Untranslatable('a cursor that is calculated');
  const { base, path } = value;
  const token = new Ref('cursor');
  const isLastRecord = base === 'response' && path.length > recordPath.length && path[recordPath.length] === -1;
  if (isLastRecord && recordPath.every((part, index) => part === path[index]))
    return { place: new Ref('last_record', path.slice(recordPath.length + 1)), token };
  return { place: value, token };
}

/** A text with the cursor, or, if it is JSON, the object. */
function tokenAround({ parts }: Joined): unknown {
  const cursor = new Ref('cursor');
  const around = parts.map((part) => (typeof part === 'string' ? part : '{cursor}')).join('');
  try {
    return JSON.parse(around, (_, value: unknown) => (value === '{cursor}' ? cursor : value)) as unknown;
  } catch {
    return new Joined(parts.map((part) => (typeof part === 'string' ? part : cursor)));
  }
}

function evaluateCursor(tree: Tree, scope: Scope): unknown {
  try {
    return evaluate(tree, scope);
  } catch (error) {
    if (error instanceof Untranslatable && /calculates|depends/.test(error.message))
      throw new Untranslatable('a cursor that is calculated');
    throw error;
  }
}

// Conditions

/** What a response says if it is the last one. */
type Fact =
  | { readonly ref: Ref; readonly is: 'nothing' | 'something'; readonly isFlag?: boolean }
  | { readonly ref: Ref; readonly value: unknown; readonly not: boolean }
  | { readonly noRecords: true }
  /** What every response says. */
  | { readonly always: true };

interface FactScope {
  readonly scope: Scope;
  readonly recordPath: readonly string[];
}

/** Any of the facts means that the condition holds, or, negated, that it does not hold. */
function factsOf(tree: Tree, isNegated: boolean, of: FactScope): readonly Fact[] {
  const operator = (tree.operator as { readonly value: string } | undefined)?.value;
  const side = (field: string) => tree[field] as Tree;
  if (tree.type === 'UnaryExpression' && operator === 'not') return factsOf(side('argument'), !isNegated, of);
  if (tree.type === 'BinaryExpression' && (operator === 'and' || operator === 'or')) {
    const sides = [factsOf(side('left'), isNegated, of), factsOf(side('right'), isNegated, of)] as const;
    return (operator === 'or') !== isNegated ? sides.flat() : both(sides);
  }
  if (tree.type === 'TestExpression') {
    const isTrue = isNegated === (tree.negate === true);
    const name = (tree.test as Tree).value as string;
    const ref = refOf(evaluate(side('operand'), of.scope));
    if (name === 'none' || name === 'undefined') return [nothing(ref, isTrue, of)];
    if (name === 'defined') return [nothing(ref, !isTrue, of)];
    if (name === 'true' || name === 'false') return [{ ref, value: name === 'true', not: !isTrue }];
    throw new Untranslatable('an end with another test');
  }
  if (tree.type === 'BinaryExpression') return [comparison(tree, isNegated, of)];
  const value = evaluate(tree, of.scope);
  if (typeof value === 'boolean' || value === undefined || value === null) {
    if (Boolean(value) !== isNegated) throw new Untranslatable('an end after every page');
    return [];
  }
  return [{ ...nothing(refOf(value), isNegated, of), isFlag: true }];
}

/** Both hold. What every response says needs no mention. */
function both([left, right]: readonly [readonly Fact[], readonly Fact[]]): readonly Fact[] {
  const real = [left, right].map((side) =>
    side.filter((fact) => !('is' in fact && fact.is === 'something') && !('always' in fact)),
  );
  const [a = [], b = []] = real;
  if (a.length > 0 && b.length > 0) throw new Untranslatable('an end that needs two conditions');
  return [...a, ...b];
}

function refOf(value: unknown): Ref {
  if (value instanceof Ref) return value;
  throw new Untranslatable('an end that is calculated');
}

function nothing(ref: Ref, isNothing: boolean, { recordPath }: FactScope): Fact {
  const { base, path } = ref;
  const isLength = path.at(-1) === '|length';
  const place = isLength ? path.slice(0, -1) : path;
  const isRecords =
    base === 'last_page_size' ||
    (base === 'response' &&
      place.length === recordPath.length &&
      place.every((part, index) => part === recordPath[index]));
  if (isRecords && isNothing) return { noRecords: true };
  if (isRecords) return { always: true };
  return { ref: isLength ? new Ref(base, place) : ref, is: isNothing ? 'nothing' : 'something' };
}

function comparison(tree: Tree, isNegated: boolean, of: FactScope): Fact {
  const operator = (tree.operator as { readonly value: string }).value;
  const left = evaluate(tree.left as Tree, of.scope);
  const right = evaluate(tree.right as Tree, of.scope);
  if (operator === 'in' || operator === 'not in') {
    if (!(right instanceof Ref) || typeof left !== 'string') throw new Untranslatable('an end that searches a text');
    if (right.base === 'headers' && right.path.length === 1 && right.path[0] !== 'link')
      return {
        ref: new Ref('headers', ['link', 'next']),
        is: (operator === 'in') !== isNegated ? 'something' : 'nothing',
      };
    return nothing(new Ref(right.base, [...right.path, left]), (operator === 'not in') !== isNegated, of);
  }
  const [ref, value] = left instanceof Ref ? [left, right] : [right, left];
  if (!(ref instanceof Ref)) throw new Untranslatable('an end that is calculated');
  if (ref.base === 'last_page_size' && operator === '<') throw new Untranslatable('an end at a short page');
  if (value instanceof Ref || value instanceof Joined)
    throw new Untranslatable('an end that compares two values of a response');
  if (operator !== '==' && operator !== '!=') {
    const isCount = ref.base === 'last_page_size' || ref.path.at(-1) === '|length';
    throw new Untranslatable(isCount ? 'an end at a short page' : 'an end that compares numbers');
  }
  const isEqual = (operator === '==') !== isNegated;
  const isEmpty =
    value === undefined ||
    value === null ||
    value === '' ||
    (value === 0 && (ref.base === 'last_page_size' || ref.path.at(-1) === '|length'));
  if (isEmpty) return nothing(ref, isEqual, of);
  return { ref, value, not: !isEqual };
}

// In our language

function pagesOf(cursor: Ref, facts: readonly Fact[]): Omit<TranslatedPages, 'token'> {
  const next = nextOf(cursor);
  // If the cursor alone may be missing, that is the end.
  const endsAtCursor = facts.some(
    (fact) => 'ref' in fact && isAboutNext(fact.ref, cursor) && !isContainer(fact.ref, cursor),
  );
  const relevant = facts.filter(
    (fact) => !(endsAtCursor && 'ref' in fact && isAboutNext(fact.ref, cursor) && isContainer(fact.ref, cursor)),
  );
  const conditions = relevant.flatMap((fact) => lastOf(fact, cursor));
  const flags = conditions.filter((condition) => !('reports' in condition));
  const endsWithoutNext = facts.some((fact) => 'ref' in fact && isAboutNext(fact.ref, cursor)) || facts.length === 0;
  // A record has its field on every page.
  if (next.from === 'report') return { next, last: oneOf(conditions.length > 0 ? conditions : [{ reports: 0 }]) };
  if (flags.length > 0) return { next, last: oneOf(flags) };
  return { next, last: endsWithoutNext ? undefined : oneOf(conditions) };
}

const oneOf = (conditions: readonly Plain[]): unknown => (conditions.length > 1 ? conditions : conditions[0]);

function nextOf({ base, path }: Ref): Plain {
  const isCut = path.at(-1) === '|cut';
  const names = isCut ? path.slice(0, -1) : path;
  const [first, second, third] = names;
  if (names.some((name) => String(name).startsWith('|'))) throw new Untranslatable('a cursor that is calculated');
  if (base === 'headers') {
    if (String(first).toLowerCase() !== 'link') return { from: 'header', at: String(first) };
    const isUrl = third === 'url' || names.length === 1;
    if (!isUrl) throw new Untranslatable('a cursor in a parameter of a link');
    return {
      from: 'link',
      ...(second === undefined || second === 'next' ? {} : { at: String(second) }),
      ...(isCut && names.length > 1 ? { to: { query: '*' } } : {}),
    };
  }
  if (base === 'last_record') return { from: 'report', at: pathOf(names) };
  if (base !== 'response') throw new Untranslatable(`a cursor from ${base}`);
  if (names.length === 0) throw new Untranslatable('a cursor that is calculated');
  // The part that is cut out of a URL is one of its parameters.
  return { from: 'body', at: pathOf(names), ...(isCut ? { to: { query: '*' } } : {}) };
}

function pathOf(names: readonly (string | number)[]): string {
  if (names.some((name) => name === -1)) throw new Untranslatable('a cursor in the last of a list');
  return names.map((name) => `/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

/** Whether a place is that of the cursor, or contains it. */
function isAboutNext(ref: Ref, cursor: Ref): boolean {
  const same = ref.base === cursor.base && ref.path.every((part, index) => String(part) === String(cursor.path[index]));
  return (
    same ||
    (ref.base === 'headers' &&
      cursor.base === 'headers' &&
      String(ref.path[0]).toLowerCase() === 'link' &&
      ref.path[2] === undefined)
  );
}

/** Whether the place is an object of the body that contains the cursor. */
const isContainer = ({ base, path }: Ref, cursor: Ref): boolean =>
  base === 'response' && path.length < cursor.path.filter((part) => part !== '|cut').length;

function lastOf(fact: Fact, cursor: Ref): readonly Plain[] {
  if ('always' in fact) return [];
  if ('noRecords' in fact) return [{ reports: 0 }];
  const place = placeIn(fact.ref);
  if ('is' in fact) {
    if (isAboutNext(fact.ref, cursor)) {
      if (fact.is === 'nothing') return isContainer(fact.ref, cursor) ? [{ ...place, is: null }] : [];
      throw new Untranslatable('an end with a cursor');
    }
    // A flag is false or true; a header is there or not.
    if ('header' in place) return [fact.is === 'something' ? place : { ...place, is: null }];
    if (fact.isFlag === true) return [{ ...place, is: fact.is === 'something' }];
    return [fact.is === 'something' ? place : { ...place, is: null }];
  }
  return [{ ...place, [fact.not ? 'not' : 'is']: fact.value }];
}

function placeIn({ base, path }: Ref): Plain {
  if (path.some((part) => String(part).startsWith('|'))) throw new Untranslatable('an end that is calculated');
  if (base === 'response') return { at: pathOf(path) };
  if (base === 'headers') {
    if (path[0] === 'link' && path[2] !== undefined) return { parameter: String(path[2]) };
    return { header: String(path[0]) };
  }
  if (base === 'last_record') throw new Untranslatable('an end that the last record says');
  throw new Untranslatable('an end that is calculated');
}
