/**
 * Generates `lib/settings/props.ts`: an interface for each object in the settings, with doc comments that editors show.
 *
 * Not json-schema-to-typescript: it drops the description of a field that is an object, and default and example of all
 * fields, and its optional fields reject undefined. What corrects that is as long as this file.
 */

import { settingsFileSchema } from '../../../lib/settings/deployment-settings.ts';
import {
  nameOfRef,
  nameOfVariant,
  type Schema,
  toSchema,
  valueKind,
  variantsOf,
  withoutDefault,
} from './settings-page.ts';

const header = `/**
 * Generated from the schemas that validate the settings; do not edit. To generate it again:
 * \`npm test -- test/project/schemas.test.ts -u\`.
 *
 * The settings as they are written, in a settings file or in the props of a construct.
 */

import type { JsonObject } from '../core/model.ts';
`;

/** The source of the module. */
export function settingsProps(): string {
  const schema = toSchema(settingsFileSchema);
  return [
    header,
    ...interfacesOf('SettingsFile', { ...schema, description: 'The content of a settings file.' }),
    ...Object.entries(schema.$defs ?? {}).flatMap(([name, each]) => {
      const description = each.description ?? `The part \`${name}\` of the settings.`;
      return interfacesOf(interfaceOf(name), { ...each, description });
    }),
  ].join('\n');
}

/** `api.next` is ApiNextProps. */
const interfaceOf = (name: string): string => `${name.split('.').map(toPascalCase).join('')}Props`;

/** The interface of an object, or a union of those of its kinds or forms; and then those of the objects in it. */
function interfacesOf(name: string, schema: Schema): string[] {
  const variants = variantsOf(schema);
  if (variants !== undefined) {
    const types = variants.map((each) => name.replace(/Props$/, `${toPascalCase(nameOfVariant(each))}Props`));
    const others = (schema.anyOf ?? []).flatMap((each) =>
      each.properties === undefined ? [typeOf(each, '', [])] : [],
    );
    const { description = '' } = schema;
    const inner = variants.flatMap((each, index) => interfacesOf(types[index] ?? '', { ...each, description }));
    return [
      `${commentOf({ description: withoutDefault(description)[0] }, '')}export type ${name} = ${[...others, ...types].join(' | ')};\n`,
      ...new Set(inner),
    ];
  }
  const { description, properties = {}, required = [] } = schema;
  const inner: string[] = [];
  const fields = Object.entries(properties).map(([field, schema]) => {
    const type = typeOf(schema, field, inner);
    const isRequired = required.includes(field);
    return `${commentOf(schema, '  ')}  readonly ${field}${isRequired ? '' : '?'}: ${type}${isRequired ? '' : ' | undefined'};\n`;
  });
  return [
    `${commentOf({ description: withoutDefault(description ?? '')[0] }, '')}export interface ${name} {\n${fields.join('')}}\n`,
    ...inner,
  ];
}

/** The type of a field. Adds the interfaces of objects in it to `inner`. */
const typeOf = (schema: Schema, field: string, inner: string[]): string =>
  `${typeOfValue(schema, field, inner)}${schema.nullable === true ? ' | null' : ''}`;

function typeOfValue(schema: Schema, field: string, inner: string[]): string {
  if (schema.$ref !== undefined) return interfaceOf(nameOfRef(schema));
  const { type, anyOf, items, properties, additionalProperties } = schema;
  const item = field.replace(/s$/, '');
  const values = schema.enum ?? (schema.const === undefined ? undefined : [schema.const]);
  if (values !== undefined) return values.map(literal).join(' | ');
  if (properties !== undefined || variantsOf(schema) !== undefined) {
    const name = `${toPascalCase(field)}Props`;
    inner.push(...interfacesOf(name, schema));
    return name;
  }
  if (anyOf !== undefined) {
    const types = anyOf.map((each) => typeOf(each, field, inner));
    // Any text includes a certain one.
    return types.filter((one) => !(types.includes('string') && one.startsWith("'"))).join(' | ');
  }
  if (items !== undefined) return `readonly ${inParentheses(typeOf(items, item, inner))}[]`;
  if (typeof additionalProperties === 'object') {
    return `Readonly<Record<string, ${typeOf(additionalProperties, item, inner)}>>`;
  }
  if (type === 'object') return 'JsonObject';
  return type === 'integer' ? 'number' : (type ?? 'unknown');
}

const toPascalCase = (name: string) => `${name.charAt(0).toUpperCase()}${name.slice(1)}`;
const inParentheses = (type: string) => (type.includes(' | ') ? `(${type})` : type);
const literal = (value: unknown) => (typeof value === 'string' ? `'${value}'` : JSON.stringify(value));

function commentOf(schema: Schema, indent: string): string {
  const [text, without] = withoutDefault(schema.description ?? '');
  const { unit, example, page } = schema;
  const kind = valueKind(schema);
  const hasDefault = schema.default !== undefined && schema.properties === undefined;
  const tags = [
    ...(hasDefault
      ? [`@default ${code(schema.default)}`]
      : without === undefined
        ? []
        : [`@default ${toTag(without)}`]),
    ...(example === undefined ? [] : [`@example ${code(example)}`]),
    ...(page === undefined ? [] : [`@see \`docs/${page}\``]),
  ];
  const notes = [
    ...(kind === 'duration' ? ['An ISO 8601 duration.'] : kind === 'instant' ? ['An ISO 8601 instant in UTC.'] : []),
    ...(unit === undefined ? [] : [`Unit: ${unit}.`]),
  ];
  const lines = [[text, ...notes].join(' '), ...(tags.length === 0 ? [] : ['', ...tags])];
  const single = `${indent}/** ${lines[0]} */\n`;
  if (lines.length === 1 && single.length <= maxLength) return single;
  const wrapped = lines.flatMap((line) => wrap(line, maxLength - indent.length - 3));
  return `${indent}/**\n${wrapped.map((line) => `${indent} * ${line}`.trimEnd()).join('\n')}\n${indent} */\n`;
}

const maxLength = 120;

/** The text in lines of at most `length` characters. */
function wrap(text: string, length: number): string[] {
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines.pop() ?? '';
    const longer = line === '' ? word : `${line} ${word}`;
    lines.push(...(longer.length <= length || line === '' ? [longer] : [line, word]));
  }
  return lines;
}

/** A value, or after a hyphen what is not one. */
function toTag(without: string): string {
  const [, value] = /^`([^`]+)`$/.exec(without) ?? [];
  if (value === undefined) return `- ${without}`;
  return /^(true|false|\d+)$/.test(value) ? value : `'${value}'`;
}

/** As TypeScript is written here. */
const code = (value: unknown): string => JSON.stringify(value).replaceAll('"', "'");
