/** Generates docs/settings.md from the schema of the settings file: a table for each object. */

import * as z from 'zod';
import { durationSchema, instantSchema } from '../../../lib/core/timestamps.ts';
import { settingsFileSchema } from '../../../lib/settings/deployment-settings.ts';

/** What the page needs of a JSON Schema. */
export interface Schema {
  readonly type?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly example?: unknown;
  readonly unit?: string;
  readonly page?: string;
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: Schema | false;
  /** `#/$defs/condition`. */
  readonly $ref?: string;
  readonly $defs?: Readonly<Record<string, Schema>>;
  /** Whether it may also be null. */
  readonly nullable?: boolean;
}

export const toSchema = (schema: z.core.$ZodType): Schema =>
  withoutNull(z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })) as Schema;

/** The schema with `nullable` in place of alternatives that are null. */
function withoutNull(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withoutNull);
  if (typeof schema !== 'object' || schema === null) return schema;
  const fields = Object.fromEntries(Object.entries(schema).map(([name, field]) => [name, withoutNull(field)]));
  const { anyOf, ...rest } = fields as Schema;
  const others = anyOf?.filter(({ type }) => type !== 'null');
  if (anyOf === undefined || others?.length !== 1 || anyOf.length !== 2) return fields;
  return { ...others[0], ...rest, nullable: true };
}

/** The name of a schema that stands in several places. */
export const nameOfRef = ({ $ref = '' }: Schema): string => $ref.replace('#/$defs/', '');

/** The kinds or forms of an object; undefined for any other schema. */
export function variantsOf({ anyOf, oneOf }: Schema): readonly Schema[] | undefined {
  const objects = (oneOf ?? anyOf)?.filter(({ properties }) => properties !== undefined) ?? [];
  return objects.length === 0 ? undefined : objects;
}

/** What distinguishes a variant: its kind, or a field that it has. */
export function nameOfVariant({ properties = {}, required = [] }: Schema): string {
  const fields = Object.entries(properties);
  const [kind] = fields.flatMap(([, field]) => (typeof field.const === 'string' ? [field.const] : []));
  return kind ?? required[0] ?? fields[0]?.[0] ?? '';
}

const durationPattern = toSchema(durationSchema).pattern;
const instantPattern = toSchema(instantSchema).pattern;

/** The page, as Markdown. */
export function settingsPage(): string {
  const schema = toSchema(settingsFileSchema);
  return `${[
    '# Settings',
    'Every setting of a settings file, generated from the schemas that check it. [On AWS](aws.md#settings) has an example and ' +
      'says where the file is named. In `services.*`, the `*` stands for the name of a service; `exports[]` stands for each export. A duration is in ISO 8601 (`PT15M`, ' +
      '`P1D`), with weeks, days, hours, minutes and seconds, to the millisecond. An instant is in ISO 8601 and UTC.',
    ...tablesOf(schema, '', 2),
    '## Conditions and other parts',
    'Parts that several settings have. `api` is that of a service or of an export.',
    ...Object.entries(schema.$defs ?? {}).flatMap(([name, each]) => tablesOf(each, name, 3)),
  ].join('\n\n')}\n`;
}

/** The fields of an object in a table, and then each object in it. */
function tablesOf(schema: Schema, path: string, level: number): string[] {
  const fields = fieldsOf(schema);
  const rows = fields.map((each, index) => rowOf(each, pathOf(path, each.name), fields[index - 1]?.name !== each.name));
  const inner = fields.flatMap(({ name, field }) => {
    const [item, itemPath] = itemOf(field, pathOf(path, name));
    // The description of an object is in its row; that of an item of a list is not.
    const shown = item === field ? { ...item, description: undefined } : item;
    return isObject(item) ? tablesOf(shown, itemPath, path === '' ? 2 : 3) : [];
  });
  const heading = `${'#'.repeat(level)} ${path === '' ? 'The file' : `\`${path}\``}`;
  return [
    level > 2 ? `${anchor(path)}\n\n${heading}` : heading,
    ...(schema.description === undefined || path === '' ? [] : [schema.description]),
    ['| Setting | Type | Default | Example | Meaning |', '|---|---|---|---|---|', ...rows].join('\n'),
    ...new Set(inner),
  ];
}

interface Field {
  readonly name: string;
  readonly field: Schema;
  readonly isRequired: boolean;
  /** The kinds that have it; empty if all have. */
  readonly kinds: readonly string[];
}

/** The fields of an object, of all its kinds and forms: those that are the same in several appear once. */
function fieldsOf(schema: Schema): readonly Field[] {
  const variants = variantsOf(schema) ?? [schema];
  const all = variants.flatMap((variant) =>
    Object.entries(variant.properties ?? {}).map(([name, field]) => ({
      name,
      field,
      isRequired: variant.required?.includes(name) === true && schema.anyOf === undefined,
      kind: nameOfVariant(variant),
    })),
  );
  const names = [...new Set(all.map(({ name }) => name))].filter((name) => name !== '$schema');
  return names.flatMap((name) => {
    const same = all.filter((each) => each.name === name);
    const groups = Map.groupBy(same, ({ field, isRequired }) => JSON.stringify([isRequired, { ...field, const: 0 }]));
    return [...groups.values()].map((group) => {
      const [{ field, isRequired }] = group as [(typeof group)[number]];
      const values = new Set(group.flatMap((each) => each.field.const ?? []));
      return {
        name,
        field: values.size > 1 ? { ...field, const: undefined, enum: [...values] } : field,
        isRequired,
        kinds: schema.oneOf === undefined || group.length === variants.length ? [] : group.map(({ kind }) => kind),
      };
    });
  });
}

const isObject = (schema: Schema) => schema.properties !== undefined || variantsOf(schema) !== undefined;

const pathOf = (path: string, name: string) => (path === '' ? name : `${path}.${name}`);

/** The elements of a list or a map, and their path. Anything else is itself. */
function itemOf(schema: Schema, path: string): readonly [Schema, string] {
  if (schema.items !== undefined) return itemOf(schema.items, `${path}[]`);
  if (typeof schema.additionalProperties === 'object') return itemOf(schema.additionalProperties, `${path}.*`);
  return [schema, path];
}

function rowOf({ field: schema, isRequired, kinds }: Field, path: string, isFirst: boolean): string {
  const { description = '', page, example } = schema;
  const [meaning, without = 'none'] = withoutDefault(description);
  const [item, itemPath] = itemOf(schema, path);
  const hasTable = isObject(item);
  const of = kinds.length === 0 ? '' : `${kinds.map((kind) => `\`${kind}\``).join(', ')}: `;
  const written = schema.default === undefined ? without : hasTable ? '' : code(schema.default);
  const cells = [
    `${hasTable || !isFirst ? '' : anchor(path)}\`${path}\``,
    hasTable ? `[${typeOf(schema)}](#${anchorOf(itemPath)})` : typeOf(schema),
    isRequired ? 'required' : written,
    example === undefined ? '' : code(example),
    `${of}${meaning}${page === undefined ? '' : ` [More](${page})`}`,
  ];
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}

/** A description without its last sentence, and what that says of the default. */
export function withoutDefault(description: string): readonly [text: string, without: string | undefined] {
  const [, text = description, without] = /^(.*?) Without it, (.*)\.$/.exec(description) ?? [];
  return [text, without];
}

const code = (value: unknown): string => `\`${JSON.stringify(value)}\``;
/** `exports[].since.initial` → `exports-since-initial`. */
const anchorOf = (path: string) => (path.match(/[a-z]+/gi) ?? []).join('-').toLowerCase();
const anchor = (path: string) => `<a id="${anchorOf(path)}"></a>`;

function typeOf(schema: Schema): string {
  const { type, anyOf, items, additionalProperties, $ref } = schema;
  if ($ref !== undefined) return `[object](#${anchorOf(nameOfRef(schema))})`;
  const values = schema.enum ?? (schema.const === undefined ? undefined : [schema.const]);
  if (values !== undefined) return values.map(code).join(', ') + unitOf(schema);
  if (variantsOf(schema) !== undefined) {
    const others = (anyOf ?? []).filter(({ properties }) => properties === undefined);
    return ['object', ...others.map(typeOf)].join(' or ');
  }
  if (anyOf !== undefined) return anyOf.map(typeOf).join(' or ');
  if (items !== undefined) return `list of ${isObject(items) || items.$ref !== undefined ? 'objects' : typeOf(items)}`;
  if (typeof additionalProperties === 'object') {
    return isObject(additionalProperties) ? 'object by name' : `object of ${typeOf(additionalProperties)}`;
  }
  if (type === 'string') return valueKind(schema) ?? 'text';
  if (type === 'integer' || type === 'number') {
    return `${type === 'integer' ? 'whole number' : 'number'}${rangeOf(schema)}${unitOf(schema)}`;
  }
  return type ?? 'any';
}

export function valueKind({ pattern, anyOf = [] }: Schema): 'duration' | 'instant' | undefined {
  if (pattern === undefined) return anyOf.map(valueKind).find((kind) => kind !== undefined);
  return pattern === durationPattern ? 'duration' : pattern === instantPattern ? 'instant' : undefined;
}

const unitOf = ({ unit }: Schema) => (unit === undefined ? '' : ` (${unit})`);

function rangeOf({ minimum, maximum = Number.MAX_SAFE_INTEGER }: Schema): string {
  if (minimum === undefined) return '';
  return maximum === Number.MAX_SAFE_INTEGER ? ` from ${minimum}` : ` from ${minimum} to ${maximum}`;
}
