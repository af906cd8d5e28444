/**
 * The Jinja templates of manifests, evaluated on the syntax tree of a library. A value that only a run knows is a
 * `Ref`: the translator evaluates with Refs, and learns where a value goes; the server evaluates with the values.
 */

import { parse, tokenize } from '@huggingface/jinja';

/** A reason why a stream cannot be described. */
export class Untranslatable extends Error {}

/** A value that only a run knows: a place in a response, or a placeholder of our language. */
export class Ref {
  readonly base: string;
  readonly path: readonly (string | number)[];
  constructor(base: string, path: readonly (string | number)[] = []) {
    this.base = base;
    this.path = path;
  }
}

/** Texts and Refs, one after the other. */
export class Joined {
  readonly parts: readonly (string | Ref)[];
  constructor(parts: readonly (string | Ref)[]) {
    this.parts = parts;
  }
}

/** An instant, for `now_utc().strftime(…)`. */
class Moment {
  readonly ms: number;
  constructor(ms: number) {
    this.ms = ms;
  }
}

export type Scope = Readonly<Record<string, unknown>>;
export type Plain = { readonly [name: string]: unknown };

export const isPlain = (value: unknown): value is Plain =>
  typeof value === 'object' &&
  value !== null &&
  !Array.isArray(value) &&
  ![Ref, Joined, Moment].some((kind) => value instanceof kind);

/** Evaluates every template in a value: texts, and the names and values of objects. */
export function evaluateAll(value: unknown, scope: Scope): unknown {
  if (typeof value === 'string') return evaluateText(value, scope);
  if (Array.isArray(value)) return value.map((each) => evaluateAll(each, scope));
  if (!isPlain(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name]) => name !== '$parameters')
      .map(([name, each]) => [textOf(evaluateText(name, scope)), evaluateAll(each, scope)]),
  );
}

/** A text with one expression keeps the type of its value, as texts that look like Python literals become values. */
export function evaluateText(template: string, scope: Scope): unknown {
  if (!template.includes('{{') && !template.includes('{%')) return template;
  const values = render(treeOf(template.trim()), scope);
  if (values.length === 1) {
    const [value] = values;
    return typeof value === 'string' ? literalOf(value) : value instanceof Moment ? isoOf(value) : value;
  }
  const joined = join(values);
  return joined instanceof Joined ? withoutQuotes(joined) : literalOf(joined as string);
}

/** A text in quotes is the text. */
function withoutQuotes({ parts }: Joined): Joined {
  const [first, last] = [parts[0], parts.at(-1)];
  const isQuoted =
    typeof first === 'string' && typeof last === 'string' && /^['"]/.test(first) && last.endsWith(first.charAt(0));
  if (!isQuoted) return new Joined(parts);
  return new Joined(
    parts.map((part, index) =>
      typeof part !== 'string' ? part : part.slice(index === 0 ? 1 : 0, index === parts.length - 1 ? -1 : undefined),
    ),
  );
}

function literalOf(text: string): unknown {
  const trimmed = text.trim();
  if (/^-?(0|[1-9]\d{0,14})(\.\d+)?$/.test(trimmed)) return Number(trimmed);
  if (trimmed === 'True' || trimmed === 'False') return trimmed === 'True';
  if (trimmed === 'None' || trimmed === '') return trimmed === '' ? text : null;
  if (/^"[^"\\]*"$|^'[^'\\]*'$/.test(trimmed)) return trimmed.slice(1, -1);
  if (!/^[[{][^]*[\]}]$/.test(trimmed)) return text;
  try {
    return JSON.parse(trimmed.replaceAll("'", '"')) as unknown;
  } catch {
    return text;
  }
}

export interface Tree {
  readonly type: string;
  readonly [field: string]: unknown;
}

const trees = new Map<string, readonly Tree[]>();

/** The statements of a template. @throws Untranslatable if it is no Jinja */
export function treeOf(template: string): readonly Tree[] {
  const known = trees.get(template);
  if (known !== undefined) return known;
  try {
    // Python keeps a backslash before other characters.
    const { body } = parse(tokenize(template.replaceAll(/\\(?![nrtbfv'"\\])/g, '\\\\')));
    trees.set(template, body as unknown as readonly Tree[]);
    return body as unknown as readonly Tree[];
  } catch {
    throw new Untranslatable('a template that cannot be parsed');
  }
}

/** The only expression of a template, or of a condition, which may have no braces. */
export function expressionOf(template: string): Tree {
  const text = template.includes('{{') ? template.trim() : `{{ ${template} }}`;
  const [tree, ...others] = treeOf(text);
  if (tree === undefined || others.length > 0) throw new Untranslatable('a template with several expressions');
  return tree;
}

function render(body: readonly Tree[], outer: Scope): unknown[] {
  const scope = { ...outer };
  return body.flatMap((tree) => {
    if (tree.type === 'Comment' || (tree.type === 'StringLiteral' && body.length > 1 && !/\S/.test(String(tree.value))))
      return [];
    if (tree.type === 'Set' && (tree.assignee as Tree).type === 'Identifier' && tree.value !== null) {
      scope[(tree.assignee as Tree).value as string] = evaluate(tree.value as Tree, scope);
      return [];
    }
    if (tree.type !== 'If') return [evaluate(tree, scope)];
    const holds = truthOf(evaluate(tree.test as Tree, scope));
    return render((holds ? tree.body : tree.alternate) as readonly Tree[], scope);
  });
}

/** The bases of Refs to places in a response. All others stand for placeholders. */
const ofResponse: ReadonlySet<string> = new Set(['response', 'headers', 'last_record', 'last_page_size']);

/** @throws Untranslatable for what depends on a Ref in another way than by containing it */
export function truthOf(value: unknown): boolean {
  if (value instanceof Ref) {
    // A placeholder has a value.
    if (!ofResponse.has(value.base)) return true;
    throw new Untranslatable(`a template that depends on ${value.base}`);
  }
  if (value instanceof Joined) return true;
  if (Array.isArray(value)) return value.length > 0;
  if (isPlain(value)) return Object.keys(value).length > 0;
  return Boolean(value);
}

function join(values: readonly unknown[]): unknown {
  const parts = values.flatMap((value): readonly (string | Ref)[] =>
    value instanceof Joined ? value.parts : value instanceof Ref ? [value] : [textOf(value)],
  );
  if (parts.every((part) => typeof part === 'string')) return parts.join('');
  return new Joined(parts.filter((part) => part !== ''));
}

export function textOf(value: unknown): string {
  if (value === undefined) return '';
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (value instanceof Moment) return isoOf(value);
  return typeof value === 'string' ? value : JSON.stringify(value);
}

const constants: Scope = { true: true, True: true, false: false, False: false, none: null, None: null };

export function evaluate(tree: Tree, scope: Scope): unknown {
  const value = (field: string) => evaluate(tree[field] as Tree, scope);
  switch (tree.type) {
    case 'StringLiteral':
    case 'IntegerLiteral':
    case 'FloatLiteral':
      return tree.value;
    case 'ArrayLiteral':
    case 'TupleLiteral':
      return (tree.value as readonly Tree[]).map((each) => evaluate(each, scope));
    case 'ObjectLiteral':
      return Object.fromEntries(
        [...(tree.value as ReadonlyMap<Tree, Tree>)].map(([name, each]) => [
          String(evaluate(name, scope)),
          evaluate(each, scope),
        ]),
      );
    case 'Identifier': {
      const name = tree.value as string;
      return Object.hasOwn(scope, name) ? scope[name] : constants[name];
    }
    case 'MemberExpression':
      return memberOf(value('object'), tree, scope);
    case 'CallExpression':
      return call(tree, scope);
    case 'FilterExpression':
      return filter(tree, scope);
    case 'TestExpression':
      return test(value('operand'), tree);
    case 'UnaryExpression': {
      const { value: operator } = tree.operator as { readonly value: string };
      return operator === 'not' ? !truthOf(value('argument')) : -(value('argument') as number);
    }
    case 'BinaryExpression':
      return binary(tree, scope);
    case 'Ternary':
      return truthOf(value('condition')) ? value('trueExpr') : value('falseExpr');
    case 'SelectExpression':
      return truthOf(value('test')) ? value('lhs') : undefined;
    default:
      throw new Untranslatable(`a template with ${tree.type}`);
  }
}

function memberOf(object: unknown, { property, computed }: Tree, scope: Scope): unknown {
  const index = property as Tree;
  if (index.type === 'SliceExpression') {
    const [start, stop] = [index.start, index.stop].map((end) =>
      end === undefined ? undefined : (evaluate(end as Tree, scope) as number),
    );
    if (typeof object === 'string' || Array.isArray(object)) return object.slice(start, stop);
    if (object instanceof Ref && object.path.at(-1) === '|cut') return object;
    const form = object instanceof Ref ? String(object.path.at(-1)) : '';
    // The end of a date with the offset of UTC, which is `+0000`, and what is before it.
    if (form.endsWith('%z') && start === -2 && stop === undefined) return '00';
    if (object instanceof Ref && form.endsWith('%z') && start === undefined && stop === -2)
      return new Ref(object.base, [...object.path.slice(0, -1), form.replace(/%z$/, '+00')]);
    throw new Untranslatable('a template that cuts a value');
  }
  const name = computed === true ? evaluate(index, scope) : (index.value as string);
  return fieldOf(object, name);
}

function fieldOf(object: unknown, name: unknown): unknown {
  if (object instanceof Ref) {
    if (object.path.at(-1) === '|cut') return object;
    if (typeof name === 'object') throw new Untranslatable('a template with a computed path');
    return new Ref(object.base, [...object.path, name as string | number]);
  }
  if (Array.isArray(object) && typeof name === 'number') return object.at(name);
  if (isPlain(object) && typeof name !== 'object' && Object.hasOwn(object, `${name as string}`))
    return object[`${name as string}`];
  return undefined;
}

const dayMs = 86_400_000;

/** The functions of the manifests' interpreter. `named` are the keyword arguments. */
function call(tree: Tree, scope: Scope): unknown {
  const callee = tree.callee as Tree;
  const given = tree.args as readonly Tree[];
  const args = given.filter(({ type }) => type !== 'KeywordArgumentExpression').map((each) => evaluate(each, scope));
  const named = Object.fromEntries(
    given
      .filter(({ type }) => type === 'KeywordArgumentExpression')
      .map(({ key, value }) => [(key as Tree).value as string, evaluate(value as Tree, scope)]),
  );
  if (callee.type === 'MemberExpression') {
    const object = evaluate(callee.object as Tree, scope);
    return method(object, (callee.property as Tree).value as string, args);
  }
  const name = callee.value as string;
  const now = scope.now as number;
  switch (name) {
    case 'now_utc':
      return new Moment(now);
    case 'today_utc':
    case 'today_with_timezone':
      return new Moment(now - (now % dayMs));
    case 'day_delta': {
      const format = (args[1] ?? named.format ?? '%Y-%m-%dT%H:%M:%S.%f%z') as string;
      return formatDate(now + Number(args[0] ?? named.num_days) * dayMs, format);
    }
    case 'duration':
      return durationMs(args[0] as string);
    case 'max':
    case 'min':
      return args.flat().reduce((a, b) => (orderOf(a) < orderOf(b) === (name === 'max') ? b : a));
    case 'str_to_datetime':
      return args[0] instanceof Ref ? args[0] : momentOf(args[0]);
    case 'timestamp':
      return args[0] instanceof Ref ? refWith(args[0], '%s') : Math.floor(momentOf(args[0]).ms / 1_000);
    case 'format_datetime':
      return args[0] instanceof Ref
        ? refWith(args[0], args[1] as string)
        : formatDate(momentOf(args[0], (args[2] ?? named.input_format) as string | undefined).ms, args[1] as string);
    case 'sanitize_url':
      return args[0] instanceof Ref ? args[0] : encodeURIComponent(textOf(args[0]));
    default:
      throw new Untranslatable(`a template with ${name}()`);
  }
}

/** What is made of the value of a Ref: a date in another form, its length, or a part that is cut out. */
const refWith = (ref: Ref, format: string): Ref => new Ref(ref.base, [...ref.path, `|${format}`]);

function method(object: unknown, name: string, args: readonly unknown[]): unknown {
  if (name === 'get') return fieldOf(object, args[0]) ?? args[1];
  if (object instanceof Ref && name === 'split') return refWith(object, 'cut');
  if (object instanceof Ref && name === 'strftime') return refWith(object, args[0] as string);
  if (object instanceof Moment) {
    if (name === 'strftime') return formatDate(object.ms, args[0] as string);
    if (name === 'isoformat') return isoOf(object);
    if (name === 'timestamp') return object.ms / 1_000;
  }
  if (object === undefined || object === null) return undefined;
  const [first, second] = args.map(String);
  if (typeof object === 'string') {
    if (name === 'split') return object.split(first ?? ' ');
    if (name === 'replace') return object.replaceAll(first ?? '', second ?? '');
    if (name === 'strip') return object.trim();
    if (name === 'rstrip') return first === undefined ? object.trimEnd() : object.replace(/\/+$/, '');
    if (name === 'join' && Array.isArray(args[0])) return args[0].map(textOf).join(object);
    if (name === 'format') return args.reduce<string>((text, arg) => text.replace('{}', textOf(arg)), object);
    if (name === 'lower') return object.toLowerCase();
    if (name === 'upper') return object.toUpperCase();
    if (name === 'startswith') return object.startsWith(first ?? '');
    if (name === 'endswith') return object.endsWith(first ?? '');
  }
  if (isPlain(object) && name === 'items') return Object.entries(object);
  if (isPlain(object) && name === 'keys') return Object.keys(object);
  throw new Untranslatable(`a template with .${name}()`);
}

function filter(tree: Tree, scope: Scope): unknown {
  const operand = evaluate(tree.operand as Tree, scope);
  const given = tree.filter as Tree;
  const name = (given.type === 'CallExpression' ? (given.callee as Tree).value : given.value) as string;
  const args = ((given.args ?? []) as readonly Tree[])
    .filter(({ type }) => type !== 'KeywordArgumentExpression')
    .map((each) => evaluate(each, scope));
  if (name === 'regex_search') {
    if (operand instanceof Ref) return refWith(operand, 'cut');
    return new RegExp(textOf(args[0])).exec(textOf(operand))?.[1] ?? '';
  }
  if (name === 'default') return operand === undefined ? args[0] : operand;
  // A value of a run is sent as it is.
  if (operand instanceof Ref && ['string', 'int', 'trim', 'urlencode', 'tojson'].includes(name)) return operand;
  if (operand instanceof Joined && ['string', 'trim'].includes(name)) return operand;
  if (operand instanceof Ref && (name === 'length' || name === 'count')) return refWith(operand, 'length');
  if (operand instanceof Ref || operand instanceof Joined) throw new Untranslatable(`a template with | ${name}`);
  switch (name) {
    case 'string':
      return textOf(operand);
    case 'int':
      return Math.trunc(Number(operand)) || 0;
    case 'float':
      return Number(operand);
    case 'trim':
      return textOf(operand).trim();
    case 'lower':
      return textOf(operand).toLowerCase();
    case 'upper':
      return textOf(operand).toUpperCase();
    case 'replace':
      return textOf(operand).replaceAll(String(args[0]), String(args[1]));
    case 'length':
    case 'count':
      return typeof operand === 'string' || Array.isArray(operand) ? operand.length : Object.keys(operand ?? {}).length;
    case 'first':
      return (operand as readonly unknown[])[0];
    case 'last':
      return (operand as readonly unknown[]).at(-1);
    case 'join':
      return (operand as readonly unknown[]).map(textOf).join(textOf(args[0]));
    case 'list':
      return operand;
    case 'map': {
      const attribute = (given.args as readonly Tree[]).find(({ type }) => type === 'KeywordArgumentExpression');
      if (attribute === undefined || !Array.isArray(operand)) throw new Untranslatable('a template with | map');
      const field = evaluate(attribute.value as Tree, scope);
      return operand.map((each) => fieldOf(each, field));
    }
    case 'tojson':
      return JSON.stringify(operand);
    case 'urlencode':
      return encodeURIComponent(textOf(operand));
    case 'base64encode':
      return Buffer.from(textOf(operand)).toString('base64');
    default:
      throw new Untranslatable(`a template with | ${name}`);
  }
}

function test(operand: unknown, tree: Tree): boolean {
  const name = (tree.test as Tree).value as string;
  const holds = (): boolean => {
    // What a placeholder stands for is there.
    if (operand instanceof Ref || operand instanceof Joined) {
      if (name === 'defined' || name === 'string') return true;
      if (name === 'none' || name === 'undefined') return false;
      throw new Untranslatable('a template that tests a value of the run');
    }
    switch (name) {
      case 'defined':
        return operand !== undefined;
      case 'undefined':
        return operand === undefined;
      case 'none':
        return operand === null || operand === undefined;
      case 'true':
      case 'false':
        return operand === (name === 'true');
      case 'string':
        return typeof operand === 'string';
      case 'mapping':
        return isPlain(operand);
      case 'iterable':
        return Array.isArray(operand);
      default:
        throw new Untranslatable(`a template with the test ${name}`);
    }
  };
  return holds() !== (tree.negate === true);
}

function binary(tree: Tree, scope: Scope): unknown {
  const { value: operator } = tree.operator as { readonly value: string };
  const left = evaluate(tree.left as Tree, scope);
  if (operator === 'and' || operator === 'or') {
    // A place that a value of the run goes to is preferred to its default.
    if (operator === 'or' && left instanceof Ref) return left;
    return truthOf(left) === (operator === 'or') ? left : evaluate(tree.right as Tree, scope);
  }
  const right = evaluate(tree.right as Tree, scope);
  const hasRef = [left, right].some((value) => value instanceof Ref || value instanceof Joined);
  if (operator === '~' || (operator === '+' && (hasRef || typeof left === 'string'))) return joinSum(left, right);
  if (hasRef) throw new Untranslatable(`a template that calculates with a value of the run`);
  return calculate(operator, left, right);
}

/** A number may be added to a number only, which a Ref may be: that of a page is. */
function joinSum(left: unknown, right: unknown): unknown {
  if (left instanceof Ref && left.base === 'cursor' && typeof right === 'number')
    return new Ref('cursor', [right + Number(left.path[0] ?? 0)]);
  if ([left, right].some((value) => typeof value === 'number'))
    throw new Untranslatable('a template that calculates with a value of the run');
  return join([left, right]);
}

function calculate(operator: string, left: unknown, right: unknown): unknown {
  const [a, b] = [orderOf(left), orderOf(right)] as [number, number];
  switch (operator) {
    case '==':
      return left === right || ((left ?? null) === null && (right ?? null) === null);
    case '!=':
      return !(calculate('==', left, right) as boolean);
    case 'in':
    case 'not in': {
      const isIn =
        typeof right === 'string'
          ? right.includes(String(left))
          : isPlain(right)
            ? Object.hasOwn(right, String(left))
            : Array.isArray(right) && right.includes(left);
      return isIn === (operator === 'in');
    }
    case '<':
      return a < b;
    case '<=':
      return a <= b;
    case '>':
      return a > b;
    case '>=':
      return a >= b;
    case '+':
    case '-': {
      const result = operator === '+' ? a + b : a - b;
      return left instanceof Moment ? new Moment(result) : result;
    }
    case '*':
      return a * b;
    case '/':
      return a / b;
    case '//':
      return Math.floor(a / b);
    case '%':
      return a % b;
    default:
      throw new Untranslatable(`a template with ${operator}`);
  }
}

/** A duration is in milliseconds here, and so is a Moment. */
const orderOf = (value: unknown): number | string =>
  value instanceof Moment ? value.ms : typeof value === 'string' ? value : Number(value ?? 0);

// Dates

const isoOf = ({ ms }: Moment): string => new Date(ms).toISOString().replace('.000Z', '+00:00');

export function durationMs(text: string): number {
  const match = /^P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?)?$/.exec(text);
  if (match === null) throw new Untranslatable(`a duration that is none: ${text}`);
  const units = [365 * dayMs, 30 * dayMs, 7 * dayMs, dayMs, 3_600_000, 60_000, 1_000];
  return units.reduce((sum, unit, index) => sum + unit * Number(match[index + 1] ?? 0), 0);
}

function momentOf(value: unknown, format?: string): Moment {
  if (value instanceof Moment) return value;
  const ms = parseDate(textOf(value), format);
  if (Number.isNaN(ms)) throw new Untranslatable('a date that cannot be read');
  return new Moment(ms);
}

/** Milliseconds since the epoch, in UTC; NaN for what is no date. */
export function parseDate(text: string, format?: string): number {
  if (format === '%s' || /^\d{9,10}(\.\d+)?$/.test(text)) return Number(text) * 1_000;
  if (format === '%ms' || /^\d{12,13}$/.test(text)) return Number(text);
  if (format === '%d/%m/%Y %H:%M' || format === '%d-%m-%Y')
    return parseDate(text.replace(/^(\d\d).(\d\d).(\d{4})/, '$3-$2-$1'));
  const [, date = '', time = '00:00:00', zone = 'Z'] =
    /(\d{4}-?\d\d(?:-?\d\d)?)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?))?\s*(Z|[+-]\d\d:?\d\d)?/.exec(text) ?? [];
  const [year, month, day = '01'] = [date.slice(0, 4), ...(date.slice(4).match(/\d\d/g) ?? [])];
  const offset = zone.replace(/^([+-]\d\d)(\d\d)$/, '$1:$2');
  return Date.parse(`${year}-${month}-${day}T${time.replace(/(\.\d{3})\d+/, '$1')}${offset}`);
}

export function formatDate(ms: number, format: string): string {
  const iso = new Date(ms).toISOString();
  const parts: Record<string, string> = {
    '%Y': iso.slice(0, 4),
    '%m': iso.slice(5, 7),
    '%d': iso.slice(8, 10),
    '%H': iso.slice(11, 13),
    '%M': iso.slice(14, 16),
    '%S': iso.slice(17, 19),
    '%f': `${iso.slice(20, 23)}000`,
    '%_ms': iso.slice(20, 23),
    '%z': '+0000',
    '%s': String(Math.floor(ms / 1_000)),
    '%ms': String(ms),
    '%s_as_float': `${ms / 1_000}.0`,
    '%epoch_microseconds': `${ms}000`,
  };
  return format.replace(/%(epoch_microseconds|s_as_float|_ms|ms|[A-Za-z])/g, (directive) => {
    const part = parts[directive];
    if (part === undefined) throw new Untranslatable(`dates with ${directive}`);
    return part;
  });
}
