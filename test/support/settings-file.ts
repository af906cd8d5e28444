/** Settings as they are written, and what is wrong with them. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type * as z from 'zod/mini';
import { ExportError, isExportError } from '../../lib/core/errors.ts';
import { describeProblems } from '../../lib/core/validation-errors.ts';
import { parseDeployment } from '../../lib/settings/deployment-settings.ts';
import { parseAll } from '../../lib/core/schema/parse.ts';
import { fileDocument } from '../../lib/settings/settings-document.ts';

/** Parses a part of the settings, which `subject` names. @throws ConfigurationError that names every problem */
export function parseSettings<Schema extends z.ZodMiniType<object>>(
  schema: Schema,
  value: unknown,
  subject: string,
): z.infer<Schema> {
  const { data, issues } = parseAll(schema, value);
  if (data === undefined) throw new ExportError('ConfigurationError', describeProblems(subject, { issues }));
  return data;
}

/** The problems of `some.json`, a settings file with this text, in a run on this machine; none if it is valid. */
export function problemsOfFile(
  text: string,
  parse: (path: string) => unknown = (path) => parseDeployment(fileDocument(path)),
): string[] {
  const directory = mkdtempSync(join(tmpdir(), 'report-exporter-'));
  const path = join(directory, 'some.json');
  try {
    writeFileSync(path, text);
    parse(path);
    return [];
  } catch (error) {
    if (!isExportError(error, 'ConfigurationError')) throw error;
    return error.message.replaceAll(`${directory}/`, '').split('\n');
  } finally {
    rmSync(directory, { recursive: true });
  }
}
