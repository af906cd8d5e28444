/** The schemas as readers have them: the files in `docs/schemas`, and a validator that is not ours. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import type { settingsSchemaName } from '../../../lib/api/settings-schema.ts';
import type { PublishedName } from '../../../lib/core/storage/published-schemas.ts';

export type SchemaName = PublishedName | typeof settingsSchemaName;

export const schemaFile = (name: SchemaName): string =>
  join(import.meta.dirname, '../../../docs/schemas', `${name}.schema.json`);

const ajv = new Ajv2020({ allErrors: true, strict: true, allowUnionTypes: true });
const validators = new Map<SchemaName, ValidateFunction>();

/** What the schema finds wrong with `value`, after a JSON round trip; nothing if it has none. */
export function problemsIn(name: SchemaName, value: unknown): string[] {
  const validate = validators.get(name) ?? ajv.compile(JSON.parse(readFileSync(schemaFile(name), 'utf8')));
  validators.set(name, validate);
  validate(JSON.parse(JSON.stringify(value)));
  return (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
}
