/** Every field of a plain value, and the value with one of them changed: for tests of what somebody may edit by hand. */

export type Path = readonly (string | number)[];

export interface Field {
  readonly path: Path;
  readonly value: unknown;
}

/** The fields of `value`, those of its fields among them; an object as a whole comes before what is in it. */
export function fieldsOf(value: unknown, path: Path = []): Field[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value)
    .filter(([, field]) => field !== undefined)
    .flatMap(([name, field]) => {
      const here = [...path, Array.isArray(value) ? Number(name) : name];
      return [{ path: here, value: field }, ...fieldsOf(field, here)];
    });
}

export function withField<Value>(value: Value, path: Path, field: unknown): Value {
  return changed(value, path, (holder, name) => {
    holder[name] = field;
  });
}

export function withoutField<Value>(value: Value, path: Path): Value {
  return changed(value, path, (holder, name) => {
    if (Array.isArray(holder)) holder.splice(Number(name), 1);
    else delete holder[name];
  });
}

type Holder = Record<string | number, unknown>;

function changed<Value>(value: Value, path: Path, change: (holder: Holder, name: string | number) => void): Value {
  const copy = structuredClone(value);
  let holder = copy as unknown as Holder;
  for (const name of path.slice(0, -1)) holder = holder[name] as Holder;
  change(holder, path.at(-1) ?? '');
  return copy;
}
