/** The data flow of the states language as the definition uses it: JSONPath by names alone, templates, two intrinsics. */

export interface Context {
  readonly Execution: { readonly Id: string; readonly Name: string };
  readonly StateMachine: { readonly Id: string };
}

/** `path` of `data`. @throws where it leads nowhere: the real one would end the execution, uncaught */
export function pick(data: unknown, path: string): unknown {
  if (!/^\$(\.[A-Za-z_]+)*$/.test(path)) throw new Error(`the simulation does not know the path ${path}`);
  let value = data;
  for (const name of path.split('.').slice(1)) {
    if (typeof value !== 'object' || value === null || !(name in value)) throw new Error(`${path} leads nowhere`);
    value = (value as Record<string, unknown>)[name];
  }
  return value;
}

/** `data` with `result` put at `path`: undefined takes the place of the whole, null leaves it as it is. */
export function place(data: unknown, path: string | null | undefined, result: unknown): unknown {
  if (path === undefined) return result;
  if (path === null) return data;
  const [, name, ...deeper] = path.split('.');
  if (name === undefined || deeper.length > 0) throw new Error(`the simulation does not know the result path ${path}`);
  return { ...(data as object), [name]: result };
}

/** Names that end in `.$` are paths or intrinsics, all else is taken as it stands. */
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
  if (text.startsWith('$$')) return pick(context, text.slice(1));
  if (text.startsWith('$')) return pick(data, text);
  if (/^'.*'$/.test(text)) return text.slice(1, -1);
  if (/^-?\d+$/.test(text)) return Number(text);
  const [, name, inner] = /^(States\.[A-Za-z]+)\((.*)\)$/.exec(text) ?? [];
  const values = argumentsIn(inner ?? '').map((each) => evaluate(each, data, context));
  if (name === 'States.MathAdd') return Number(values[0]) + Number(values[1]);
  if (name === 'States.Format') {
    const [form, ...rest] = values;
    return String(form).replaceAll('{}', () => String(rest.shift()));
  }
  throw new Error(`the simulation does not know ${text}`);
}

/** Split at the commas that stand in no brackets and no quotes. */
function argumentsIn(text: string): string[] {
  const found = [''];
  let depth = 0;
  let quoted = false;
  for (const character of text) {
    if (character === "'") quoted = !quoted;
    if (!quoted && character === '(') depth += 1;
    if (!quoted && character === ')') depth -= 1;
    if (character === ',' && depth === 0 && !quoted) found.push('');
    else found[found.length - 1] += character;
  }
  return found;
}
