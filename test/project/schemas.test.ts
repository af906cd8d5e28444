/** The JSON Schemas in docs/schemas are generated from the code, and complete. */

import { readdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { describe, expect, it } from 'vitest';
import { jsonSchemaOf, publishedNames } from '../../lib/core/storage/published-schemas.ts';
import { problemsIn, schemaFile } from '../support/docs/published-schemas.ts';

/** Every field of a JSON Schema, at any depth, with its description. */
function fieldsOf(schema: unknown, path = ''): { path: string; description: unknown }[] {
  if (typeof schema !== 'object' || schema === null) return [];
  const { properties = {}, items, anyOf = [] } = schema as Record<string, never>;
  return [
    ...Object.entries<{ description?: unknown }>(properties).flatMap(([name, field]) => [
      { path: `${path}/${name}`, description: field.description },
      ...fieldsOf(field, `${path}/${name}`),
    ]),
    ...fieldsOf(items, `${path}/*`),
    ...(anyOf as unknown[]).flatMap((each) => fieldsOf(each, path)),
  ];
}

describe('docs/schemas', () => {
  const hint =
    'differs from lib/core/storage/published-schemas.ts. If the change is compatible for readers, regenerate it: ' +
    "npm exec -c 'vitest run test/project/schemas.test.ts -u'. Otherwise add a new version in a file of its own";

  it.each(publishedNames)('%s.schema.json matches the schema in the code', async (name) => {
    const file = schemaFile(name);
    await expect(`${JSON.stringify(jsonSchemaOf(name), null, 2)}\n`, `${file} ${hint}`).toMatchFileSnapshot(file);
  });

  it('holds no other files', () => {
    const files = readdirSync(dirname(schemaFile('latest.v1')));
    expect(files.sort()).toEqual(publishedNames.map((name) => `${name}.schema.json`).sort());
  });

  it.each(publishedNames)('%s describes itself and each of its fields', (name) => {
    expect(jsonSchemaOf(name)).toMatchObject({
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      $id: expect.stringMatching(/^urn:report-exporter:[a-z]+:v1$/),
      title: expect.any(String),
      description: expect.any(String),
    });
    expect(fieldsOf(jsonSchemaOf(name)).filter(({ description }) => typeof description !== 'string')).toEqual([]);
  });

  it.each(publishedNames)('%s is accepted by an independent validator, and rejects an empty object', (name) => {
    expect(problemsIn(name, {}).length).toBeGreaterThan(0);
  });
});
