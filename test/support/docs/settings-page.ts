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
  readonly minProperties?: number;
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
  const definitions = Object.entries(schema.$defs ?? {}).flatMap(([name, each]) => tablesOf(each, name, 3));
  const settings = tablesOf(schema, '', 2);
  return `${[
    '# Settings',
    'Every setting of a settings file, generated from the schemas that check it. [On AWS](aws.md#settings) has an example. ' +
      'In `services.*`, the `*` is the name of a service. A duration is in ISO 8601 (`PT15M`, `P1D`), with weeks, days, ' +
      'hours, minutes and seconds. An instant is in ISO 8601 and UTC. A setting without a type is a text.',
    ...sectionsOf(settings, []),
    '## Parts of `api`',
    'Of a service or of an export. [Other APIs](apis.md) explains them.',
    ...sectionsOf(largestOfEach(definitions), settings),
  ].join('\n\n')}\n`;
}

interface Table {
  readonly path: string;
  readonly level: number;
  readonly description: string | undefined;
  readonly rows: readonly Row[];
}

interface Row {
  readonly name: string;
  readonly meaning: string;
  readonly written: string;
  /** Without the meaning: for a table that names another one with a field of this name and meaning. */
  readonly writtenShort: string;
}

/** The table of an object, and then that of each object in it. */
function tablesOf(schema: Schema, path: string, level: number): readonly Table[] {
  const fields = fieldsOf(schema);
  const inner = fields.flatMap(({ name, field }) => {
    const [item, itemPath] = itemOf(field, pathOf(path, name));
    // The description of an object is in its row; that of an item of a list is not.
    const shown = item === field ? { ...item, description: undefined } : item;
    return hasTable(item) ? tablesOf(shown, itemPath, path === '' ? 2 : 3) : [];
  });
  const rows = fields.map((each) => rowOf(each, path));
  return [{ path, level, description: path === '' ? undefined : schema.description, rows }, ...inner];
}

/** A part that differs between the kinds of an object once, with all of its fields. */
function largestOfEach(tables: readonly Table[]): readonly Table[] {
  const sizeOf = ({ rows }: Table) => rows.length;
  const byPath = Map.groupBy(tables, ({ path }) => path);
  return [...byPath.values()].flatMap((same) => same.toSorted((one, other) => sizeOf(other) - sizeOf(one)).slice(0, 1));
}

/** The tables as Markdown. One that repeats an earlier one, also of `before`, names that in place of its rows. */
function sectionsOf(tables: readonly Table[], before: readonly Table[]): string[] {
  return tables.flatMap(({ path, level, description, rows }, index) => {
    const heading = `${'#'.repeat(level)} ${path === '' ? 'The file' : `\`${path}\``}`;
    const known = [...before, ...tables.slice(0, index)].find((earlier) => sharedRows(earlier.rows, rows).length > 2);
    const shared = known === undefined ? [] : sharedRows(known.rows, rows);
    const missing = known?.rows
      .filter(({ name }) => !rows.some((each) => each.name === name))
      .map(({ name }) => quoted(name));
    const without = missing?.length ? `, without ${missing.join(' and ')}` : '';
    const repeatsMeaning = (row: Row) =>
      known?.rows.some(({ name, meaning }) => name === row.name && meaning === row.meaning) === true;
    const own = rows
      .filter((row) => !shared.includes(row))
      .map((row) => (repeatsMeaning(row) ? row.writtenShort : row.written));
    return [
      heading,
      ...(description === undefined ? [] : [description]),
      ...(known === undefined
        ? []
        : [`The fields of [\`${known.path}\`](#${anchorOf(known.path)})${without}${own.length > 0 ? ', and:' : '.'}`]),
      ...(own.length === 0 ? [] : [own.join('\n')]),
    ];
  });
}

/** The rows that another table has, too. */
const sharedRows = (others: Table['rows'], rows: Table['rows']): Table['rows'] =>
  rows.filter(({ written }) => others.some((other) => other.written === written));

interface Field {
  readonly name: string;
  readonly field: Schema;
  /** What stands for the default, of each kind of the object. */
  readonly defaults: readonly (readonly [kind: string, written: string])[];
  /** The kinds that have it; empty if all have. */
  readonly kinds: readonly string[];
}

/** The fields of an object, of all its kinds and forms: those that mean the same in several appear once. */
function fieldsOf(schema: Schema): readonly Field[] {
  const variants = variantsOf(schema) ?? [schema];
  const all = variants.flatMap((variant) =>
    Object.entries(variant.properties ?? {}).map(([name, field]) => ({
      name,
      field,
      default: variant.required?.includes(name) === true && schema.anyOf === undefined ? 'required' : defaultOf(field),
      kind: nameOfVariant(variant),
    })),
  );
  const names = [...new Set(all.map(({ name }) => name))].filter((name) => name !== '$schema');
  return names.flatMap((name) => {
    const same = all.filter((each) => each.name === name);
    const groups = Map.groupBy(same, ({ field }) => `${typeOf({ ...field, const: undefined })} ${meaningOf(field)}`);
    return [...groups.values()].map((group) => {
      const [{ field }] = group as [(typeof group)[number]];
      const values = new Set(group.flatMap((each) => each.field.const ?? []));
      return {
        name,
        field: values.size > 1 ? { ...field, const: undefined, enum: [...values] } : field,
        defaults: group.map((each) => [each.kind, each.default] as const),
        kinds: schema.oneOf === undefined || group.length === variants.length ? [] : group.map(({ kind }) => kind),
      };
    });
  });
}

const isObject = (schema: Schema) => schema.properties !== undefined || variantsOf(schema) !== undefined;

/** `{"header": text}`: an object that always has the same field. */
const isWrapper = ({ properties = {}, minProperties }: Schema) =>
  minProperties === 1 && Object.keys(properties).length === 1;

const hasTable = (schema: Schema): boolean =>
  isObject(schema) && !isWrapper(schema) && !(variantsOf(schema) ?? []).some(isWrapper);

const pathOf = (path: string, name: string) => (path === '' ? name : `${path}.${name}`);

/** The elements of a list or a map, and their path. Anything else is itself. */
function itemOf(schema: Schema, path: string): readonly [Schema, string] {
  if (schema.items !== undefined) return itemOf(schema.items, `${path}[]`);
  if (typeof schema.additionalProperties === 'object') return itemOf(schema.additionalProperties, `${path}.*`);
  return [schema, path];
}

function rowOf({ name, field, defaults, kinds }: Field, path: string): Row {
  const { page } = field;
  const [item, itemPath] = itemOf(field, pathOf(path, name));
  const isOneDefault = new Set(defaults.map(([, written]) => written)).size === 1;
  const [[, first]] = defaults as [(typeof defaults)[number]];
  const without = isOneDefault ? first : defaultsByKind(defaults);
  const type = hasTable(item) ? `[${typeOf(field)}](#${anchorOf(itemPath)})` : typeOf(field);
  const isShort = /^(required|default .*|)$/.test(without);
  const of = kinds.length === 0 || !isOneDefault ? '' : `${kinds.map(quoted).join(', ')}; `;
  const meaning = meaningOf(field);
  const further = [
    ...(isShort ? [] : [isOneDefault ? `Without it, ${without}.` : `${without}.`]),
    ...(page === undefined ? [] : [`[More](${page})`]),
  ];
  const written = [...(type === 'text' ? [] : [type]), ...(isShort && without !== '' ? [without] : [])].join(', ');
  const kindsAndType = `${of}${written}`.replace(/; $/, '');
  const begin = `- ${quoted(name)}${kindsAndType === '' ? '' : ` (${kindsAndType})`}`;
  const rowWith = (sentences: readonly string[]) =>
    [begin, sentences.join(' ')].filter((part) => part !== '').join(': ');
  return { name, meaning, written: rowWith([meaning, ...further]), writtenShort: rowWith(further) };
}

/** `Required for a; without it, b for c, d for e`: what holds without a field that several kinds have. */
function defaultsByKind(defaults: Field['defaults']): string {
  const groups = Map.groupBy(defaults, ([, written]) => written);
  const kindsWith = (written: string) => (groups.get(written) ?? []).map(([kind]) => quoted(kind)).join(', ');
  const others = [...groups.keys()].filter((written) => written !== 'required');
  const without = `ithout it, ${others.map((written) => `${written} for ${kindsWith(written)}`).join('; ')}`;
  return groups.has('required') ? `Required for ${kindsWith('required')}; w${without}` : `W${without}`;
}

const quoted = (name: string): string => `\`${name}\``;
const meaningOf = ({ description = '' }: Schema): string => withoutDefault(description)[0];

/** What holds without the field. */
function defaultOf(schema: Schema): string {
  if (schema.default === undefined) return withoutDefault(schema.description ?? '')[1] ?? '';
  return hasTable(itemOf(schema, '')[0]) ? '' : `default ${code(schema.default)}`;
}

/** A description without its last sentence, and what that says of the default. */
export function withoutDefault(description: string): readonly [text: string, without: string | undefined] {
  const [, text = description, without] = /^(.*?) Without it, (.*)\.$/.exec(description) ?? [];
  return [text, without];
}

const code = (value: unknown): string => `\`${JSON.stringify(value)}\``;
/** The anchor that Markdown derives from a heading: `exports[].since` → `exportssince`. */
const anchorOf = (path: string) => (path.match(/[a-z]+/gi) ?? []).join('').toLowerCase();

function typeOf(schema: Schema): string {
  const { type, anyOf, items, additionalProperties, $ref } = schema;
  if ($ref !== undefined) return `[object](#${anchorOf(nameOfRef(schema))})`;
  if (isWrapper(schema))
    return Object.entries(schema.properties ?? {})
      .map(wrapped)
      .join('');
  const values = schema.enum ?? (schema.const === undefined ? undefined : [schema.const]);
  if (values !== undefined) return listOf(values) + unitOf(schema);
  if (variantsOf(schema) !== undefined) {
    const others = (anyOf ?? []).filter(({ properties }) => properties === undefined);
    const objects = variantsOf(schema) ?? [];
    return [...others.map(typeOf), objects.every(isWrapper) ? objects.map(typeOf).join(' or ') : 'object'].join(' or ');
  }
  if (anyOf !== undefined) return alternativesOf(anyOf.map(typeOf));
  if (items !== undefined) return `list of ${isObject(items) ? 'objects' : typeOf(items)}`;
  if (typeof additionalProperties === 'object') {
    return isObject(additionalProperties) ? 'object by name' : `object of ${typeOf(additionalProperties)}`;
  }
  if (type === 'string') return valueKind(schema) ?? 'text';
  if (type === 'integer' || type === 'number') {
    return [schema.unit ?? type, ...rangeOf(schema)].join(', ');
  }
  return type ?? 'any';
}

/** The values. Of many, the first and the last: editors and messages have the others. */
const listOf = (values: readonly unknown[]): string => {
  const codes = values.map(code);
  return codes.length <= 12 ? codes.join(', ') : `${codes.slice(0, 3).join(', ')} … ${codes.at(-1)}`;
};

/** A list of what may also stand alone is called a list, and anything but an object or a list is a scalar. */
function alternativesOf(types: readonly string[]): string {
  const isRepeated = (list: string) => types.some((one) => list === `list of ${one}`);
  return types.includes('boolean') ? 'scalar' : types.map((each) => (isRepeated(each) ? 'list' : each)).join(' or ');
}

const wrapped = ([name, field]: readonly [string, Schema]) => `{${code(name).slice(1, -1)}: ${typeOf(field)}}`;

export function valueKind({ pattern, anyOf = [] }: Schema): 'duration' | 'instant' | undefined {
  if (pattern === undefined) return anyOf.map(valueKind).find((kind) => kind !== undefined);
  return pattern === durationPattern ? 'duration' : pattern === instantPattern ? 'instant' : undefined;
}

const unitOf = ({ unit }: Schema) => (unit === undefined ? '' : ` (${unit})`);

function rangeOf({ minimum, maximum = Number.MAX_SAFE_INTEGER }: Schema): string[] {
  if (minimum === undefined) return [];
  return [maximum === Number.MAX_SAFE_INTEGER ? `from ${minimum}` : `${minimum} to ${maximum}`];
}
