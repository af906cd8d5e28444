/** Finds the export that an execution works on, among those of its service. */

import { ExportError } from '../errors.ts';
import type { ExportDefinition } from '../model.ts';
import { listNames, toPrintable, truncate } from '../sanitize.ts';

/** The exports of a service, by name. */
export type ExportDefinitions = ReadonlyMap<string, ExportDefinition>;

/**
 * The export that `input` names; if it names none, the only export of the service.
 * @throws ConfigurationError that lists the exports, if that is none of them
 */
export function selectExport(exports: ExportDefinitions, input: unknown): ExportDefinition {
  const name = nameIn(input);
  const [only] = exports.values();
  if (name === undefined && only !== undefined && exports.size === 1) return only;
  const definition = typeof name === 'string' ? exports.get(name) : undefined;
  if (definition !== undefined) return definition;
  const problem =
    name === undefined
      ? 'The start input does not name an export. Add a field, such as {"export": "nightly"}'
      : `There is no export ${truncate(toPrintable(JSON.stringify(name)), 60)}`;
  throw new ExportError('ConfigurationError', `${problem}. Exports of this service: ${listNames([...exports.keys()])}`);
}

/** What a start input has in its field `export`. */
export function nameIn(input: unknown): unknown {
  if (typeof input !== 'object' || input === null || !Object.hasOwn(input, 'export')) return undefined;
  return (input as { readonly export: unknown }).export;
}
