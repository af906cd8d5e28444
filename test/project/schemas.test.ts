/** The JSON Schemas in docs/schemas and the tables of docs/settings.md are generated from the code, and complete. */

import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, expectTypeOf, it } from 'vitest';
import type * as z from 'zod/mini';
import { settingsFileSchema } from '../../lib/settings/deployment-settings.ts';
import type { SettingsFile } from '../../lib/settings/props.ts';
import { settingsJsonSchema, settingsSchemaName } from '../../lib/api/settings-schema.ts';
import { jsonSchemaOf, publishedNames } from '../../lib/core/storage/published-schemas.ts';
import { problemsIn, type SchemaName, schemaFile } from '../support/docs/published-schemas.ts';
import { fieldsOf, withField } from '../support/fields.ts';
import { settingsPage } from '../support/docs/settings-page.ts';
import { settingsProps } from '../support/docs/settings-props.ts';

const names: readonly SchemaName[] = [...publishedNames, settingsSchemaName];
const schemaOf = (name: SchemaName) => (name === settingsSchemaName ? settingsJsonSchema() : jsonSchemaOf(name));

/** Every field of a JSON Schema, at any depth, with its description. */
function fieldsOfSchema(schema: unknown, path = ''): { path: string; description: unknown }[] {
  if (typeof schema !== 'object' || schema === null) return [];
  const { properties = {}, items, additionalProperties, anyOf = [], oneOf = [] } = schema as Record<string, never>;
  return [
    ...Object.entries<{ description?: unknown }>(properties).flatMap(([name, field]) => [
      { path: `${path}/${name}`, description: field.description },
      ...fieldsOfSchema(field, `${path}/${name}`),
    ]),
    ...fieldsOfSchema(items, `${path}/*`),
    ...fieldsOfSchema(additionalProperties, `${path}/*`),
    ...[...(anyOf as unknown[]), ...(oneOf as unknown[])].flatMap((each) => fieldsOfSchema(each, path)),
  ];
}

describe('docs/schemas', () => {
  const hint =
    'differs from the schema in lib/core. If the change is compatible for readers, regenerate it: ' +
    "npm exec -c 'vitest run test/project/schemas.test.ts -u'. Otherwise add a new version in a file of its own";

  it.each(names)('%s.schema.json matches the schema in the code', async (name) => {
    const file = schemaFile(name);
    await expect(`${JSON.stringify(schemaOf(name), null, 2)}\n`, `${file} ${hint}`).toMatchFileSnapshot(file);
  });

  it('holds no other files', () => {
    const files = readdirSync(dirname(schemaFile('latest.v1')));
    expect(files.sort()).toEqual(names.map((name) => `${name}.schema.json`).sort());
  });

  it.each(names)('%s describes itself and each of its fields', (name) => {
    expect(schemaOf(name)).toMatchObject({
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      $id: expect.stringMatching(/^urn:report-exporter:[a-z]+:v1$/),
      title: expect.any(String),
      description: expect.any(String),
    });
    expect(fieldsOfSchema(schemaOf(name)).filter(({ description }) => typeof description !== 'string')).toEqual([]);
  });

  it.each(names)('%s is accepted by an independent validator, and rejects an empty object', (name) => {
    expect(problemsIn(name, {}).length).toBeGreaterThan(0);
  });
});

describe('docs/settings.md', () => {
  it('matches the schemas of the settings', async () => {
    const file = join(dirname(schemaFile('latest.v1')), '../settings.md');
    const hint = "differs from the schemas. Write it again: npm exec -c 'vitest run test/project/schemas.test.ts -u'";
    await expect(settingsPage(), `${file} ${hint}`).toMatchFileSnapshot(file);
  });
});

describe('lib/settings/props.ts', () => {
  it('matches the schemas of the settings', async () => {
    const file = join(import.meta.dirname, '../../lib/settings/props.ts');
    const hint = "differs from the schemas. Write it again: npm exec -c 'vitest run test/project/schemas.test.ts -u'";
    await expect(settingsProps(), `${file} ${hint}`).toMatchFileSnapshot(file);
  });

  it('has the types of the schemas', () => {
    expectTypeOf<z.input<typeof settingsFileSchema>>().toExtend<SettingsFile>();
  });
});

describe('the schema of the settings file', () => {
  const root = join(import.meta.dirname, '../..');
  const read = (file: string): unknown => JSON.parse(readFileSync(join(root, file), 'utf8'));

  it('accepts the file in the repository, which names it', () => {
    const file = read('report-exporter.json') as { $schema: string };
    expect(problemsIn(settingsSchemaName, file)).toEqual([]);
    expect(join(root, file.$schema)).toBe(schemaFile(settingsSchemaName));
  });

  const valid = {
    services: { acme: { baseUrl: 'https://a.example', apiKeySecret: {}, apiKeyEnv: 'KEY' } },
    exports: [{ name: 'a', service: 'acme', filter: { type: 'daily' }, schedule: { expression: 'rate(1 hour)' } }],
    bucket: { prefix: 'all/' },
    alarms: { email: 'a@example.com' },
    logRetentionDays: 14,
  };
  const isValid = (value: unknown): boolean => settingsFileSchema.safeParse(value).success;

  it('accepts what the parser accepts', () => {
    expect(problemsIn(settingsSchemaName, valid)).toEqual([]);
    expect(isValid(valid)).toBe(true);
  });

  /** What only the parser checks. */
  const checkedByCode = new Set(['expression', 'baseUrl']);
  const fields = [{ path: [], value: valid }, ...fieldsOf(valid)];
  const mistakes = fields.flatMap(({ path, value }) => [
    ...[null, true, 1.5, [1], { unknown: 1 }].map((to) => ({ path, to })),
    ...(checkedByCode.has(String(path.at(-1))) ? [] : [{ path, to: 'a b' }]),
    ...(path.length === 0 ? [] : [{ path, to: undefined }]),
    ...(typeof value === 'object' ? [{ path: [...path, 'unknown'], to: 1 }] : []),
  ]);
  it.each(mistakes)('rejects what the parser rejects: $to at $path', ({ path, to }) => {
    const value: unknown = JSON.parse(JSON.stringify(path.length === 0 ? to : withField(valid, path, to)));
    expect(problemsIn(settingsSchemaName, value).length === 0).toBe(isValid(value));
  });
});
