/**
 * The JSON Schema of the settings file, with which editors complete and check it: docs/schemas/settings.v1.schema.json.
 * It is generated from the schemas that parse the file. A test keeps the file up to date.
 */

import * as z from 'zod';
import { settingsFileSchema } from '../settings/deployment-settings.ts';

export const settingsSchemaName = 'settings.v1';

/** The JSON Schema (draft 2020-12) of the settings file. */
export function settingsJsonSchema(): Record<string, unknown> {
  const { $schema, ...schema } = z.toJSONSchema(settingsFileSchema, {
    target: 'draft-2020-12',
    io: 'input',
    // The filter is any JSON object.
    unrepresentable: 'any',
    override: ({ jsonSchema }) => {
      // Validators reject a format and keywords that they do not know. The pattern says the same as the format.
      if (jsonSchema.pattern !== undefined) delete jsonSchema.format;
      if (jsonSchema.example !== undefined) jsonSchema.examples = [jsonSchema.example];
      for (const keyword of ['example', 'unit', 'page']) delete jsonSchema[keyword];
    },
  });
  return {
    $schema,
    $id: `urn:report-exporter:${settingsSchemaName.replace('.', ':')}`,
    title: 'The settings of Report Exporter',
    description: 'Services, their exports, and what they share on AWS. docs/settings.md has a table of them.',
    ...schema,
  };
}
