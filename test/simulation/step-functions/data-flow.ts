/** JSONPath data flow as far as the definition uses it: paths of names, templates, and four intrinsic functions. */

/** The part of the context object that templates can refer to with `$$`. */
export interface Context {
  readonly Execution: { readonly Id: string; readonly Name: string; readonly Input: unknown };
  readonly StateMachine: { readonly Id: string };
  readonly State: { readonly EnteredTime: string; readonly RetryCount: number };
}

/** The value of `data` at `path`. @throws Error if there is none; the real service would fail the execution */
export function getPath(data: unknown, path: string): unknown {
  if (!/^\$(\.[A-Za-z_]+)*$/.test(path)) throw new Error(`The simulation does not support the path ${path}`);
  let value = data;
  for (const name of path.split('.').slice(1)) {
    if (typeof value !== 'object' || value === null || !(name in value)) throw new Error(`No value at ${path}`);
    value = (value as Record<string, unknown>)[name];
  }
  return value;
}

/** Whether `data` has a value at `path`, a field of its own. */

/** `data` with `result` at a ResultPath; undefined: the result replaces the data; null: it is discarded. */
export function setPath(data: unknown, path: string | null | undefined, result: unknown): unknown {
  if (path === undefined) return result;
  if (path === null) return data;
  const [, name, ...deeper] = path.split('.');
  if (name === undefined || deeper.length > 0) {
    throw new Error(`The simulation does not support the result path ${path}`);
  }
  return { ...(data as object), [name]: result };
}

/** Evaluates the fields whose names end in `.$`; all others stay as they are. */
export function resolveTemplate(template: unknown, data: unknown, context: Context): unknown {
  if (Array.isArray(template)) return template.map((each) => resolveTemplate(each, data, context));
  if (typeof template !== 'object' || template === null) return template;
  return Object.fromEntries(
    Object.entries(template).map(([name, value]) =>
      name.endsWith('.$')
        ? [name.slice(0, -2), evaluate(String(value), data, context)]
        : [name, resolveTemplate(value, data, context)],
    ),
  );
}

function evaluate(expression: string, data: unknown, context: Context): unknown {
  const text = expression.trim();
  if (text.startsWith('$$')) return getPath(context, text.slice(1));
  if (text.startsWith('$')) return getPath(data, text);
  if (/^'.*'$/.test(text)) return text.slice(1, -1);
  if (/^-?\d+$/.test(text)) return Number(text);
  const [, name, argumentList] = /^(States\.[A-Za-z]+)\((.*)\)$/.exec(text) ?? [];
  const values = splitArguments(argumentList ?? '').map((each) => evaluate(each, data, context));
  if (name === 'States.MathAdd') return Number(values[0]) + Number(values[1]);
  if (name === 'States.Format') {
    const [format, ...rest] = values;
    return String(format).replaceAll('{}', () => String(rest.shift()));
  }
  if (name === 'States.StringSplit') return String(values[0]).split(String(values[1]));
  if (name === 'States.ArrayGetItem') return (values[0] as readonly unknown[])[Number(values[1])];
  throw new Error(`The simulation does not support ${text}`);
}

/** Splits at commas outside parentheses and quotes. */
function splitArguments(text: string): string[] {
  const parts = [''];
  let depth = 0;
  let isQuoted = false;
  for (const character of text) {
    if (character === "'") isQuoted = !isQuoted;
    if (!isQuoted && character === '(') depth += 1;
    if (!isQuoted && character === ')') depth -= 1;
    if (character === ',' && depth === 0 && !isQuoted) parts.push('');
    else parts[parts.length - 1] += character;
  }
  return parts;
}
