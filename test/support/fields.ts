/** Enumerates the fields of a plain value, and replaces or removes one of them. */

export type Path = readonly (string | number)[];

export interface Field {
  readonly path: Path;
  readonly value: unknown;
}

/** All fields of `value`, at any depth. An object comes before its own fields. */
export function fieldsOf(value: unknown, path: Path = []): Field[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value)
    .filter(([, field]) => field !== undefined)
    .flatMap(([name, field]) => {
      const fieldPath = [...path, Array.isArray(value) ? Number(name) : name];
      return [{ path: fieldPath, value: field }, ...fieldsOf(field, fieldPath)];
    });
}

export function withField<Value>(value: Value, path: Path, field: unknown): Value {
  return changed(value, path, (parent, name) => {
    parent[name] = field;
  });
}

export function withoutField<Value>(value: Value, path: Path): Value {
  return changed(value, path, (parent, name) => {
    if (Array.isArray(parent)) parent.splice(Number(name), 1);
    else delete parent[name];
  });
}

type Parent = Record<string | number, unknown>;

function changed<Value>(value: Value, path: Path, change: (parent: Parent, name: string | number) => void): Value {
  const copy = structuredClone(value);
  let parent = copy as unknown as Parent;
  for (const name of path.slice(0, -1)) parent = parent[name] as Parent;
  change(parent, path.at(-1) ?? '');
  return copy;
}
