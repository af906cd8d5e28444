import { readdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { describe, expect, it } from 'vitest';
import { jsonSchemaOf, publishedNames } from '../../lib/core/storage/published-schemas.ts';
import { problemsIn, schemaFile } from '../support/published-schemas.ts';

/** Every part of a JSON Schema that speaks of a field. */
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
  const anew =
    'is not what lib/core/published-schemas.ts says. If readers can live with the change, write it anew: ' +
    "npm exec -c 'vitest run test/project/schemas.test.ts -u'. Otherwise it needs a new number and a file of its own";

  it.each(publishedNames)('%s.schema.json is what the house says', async (name) => {
    const file = schemaFile(name);
    await expect(`${JSON.stringify(jsonSchemaOf(name), null, 2)}\n`, `${file} ${anew}`).toMatchFileSnapshot(file);
  });

  it('holds nothing else', () => {
    const files = readdirSync(dirname(schemaFile('latest.v1')));
    expect(files.sort()).toEqual(publishedNames.map((name) => `${name}.schema.json`).sort());
  });

  it.each(publishedNames)('%s says of itself and of each field what it is', (name) => {
    expect(jsonSchemaOf(name)).toMatchObject({
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      $id: expect.stringMatching(/^urn:report-exporter:[a-z]+:v1$/),
      title: expect.any(String),
      description: expect.any(String),
    });
    expect(fieldsOf(jsonSchemaOf(name)).filter(({ description }) => typeof description !== 'string')).toEqual([]);
  });

  it.each(publishedNames)('%s is a schema to others too', (name) => {
    expect(problemsIn(name, {}).length).toBeGreaterThan(0);
  });
});
