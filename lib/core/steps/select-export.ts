/** Finds the export that an execution works on, among those of its service, or the window of its backfill. */

import { ExportError } from '../errors.ts';
import type { ExportDefinition, Window } from '../model.ts';
import { listNames, toPrintable, truncate } from '../sanitize.ts';
import { filterUntil } from '../filter.ts';
import { checksumOf } from '../storage/stored-records.ts';
import { parseWindowName } from '../windows.ts';

/** The exports of a service, by name. */
export type ExportDefinitions = ReadonlyMap<string, ExportDefinition>;

/**
 * The export, or the window of an export, that `input` names in its field `export`; without that field, the only export of the
 * service. `untilOperator` is the service's, for windows.
 * @throws ConfigurationError that lists the exports, if that is none of them
 */
export function selectExport(exports: ExportDefinitions, input: unknown, untilOperator?: string): ExportDefinition {
  const { definition, window } = findExport(exports, input);
  return window === undefined ? definition : windowDefinition(definition, window, untilOperator);
}

/**
 * As `selectExport`, to record that its run has failed. The definition of a window has no request of its own: the settings may no longer
 * have what it needs, which then is why the run has failed.
 * @throws ConfigurationError as `selectExport` does, but not for a window that can no longer be exported
 */
export function selectFailedExport(exports: ExportDefinitions, input: unknown): ExportDefinition {
  const { definition, window } = findExport(exports, input);
  return window === undefined ? definition : { ...definition, window };
}

function findExport(
  exports: ExportDefinitions,
  input: unknown,
): { readonly definition: ExportDefinition; readonly window?: Window } {
  const name = exportField(input);
  const [only] = exports.values();
  if (name === undefined && only !== undefined && exports.size === 1) return { definition: only };
  const named = typeof name === 'string' ? (parseWindowName(name) ?? { export: name }) : undefined;
  const definition = named && exports.get(named.export);
  if (definition !== undefined)
    return { definition, ...(named !== undefined && 'window' in named && { window: named.window }) };
  const problem =
    name === undefined
      ? 'The start input does not name an export. Add a field, such as {"export": "nightly"}'
      : `There is no export ${truncate(toPrintable(JSON.stringify(name)), 60)}`;
  throw new ExportError('ConfigurationError', `${problem}. Exports of this service: ${listNames([...exports.keys()])}`);
}

/**
 * The definition with which runs of a window are exported.
 * @throws ConfigurationError if the service has no `untilOperator`, or the filter of the export has a condition with it
 */
export function windowDefinition(
  definition: ExportDefinition,
  window: Window,
  untilOperator: string | undefined,
): ExportDefinition {
  const { name, request } = definition;
  if (untilOperator === undefined) {
    throw new ExportError(
      'ConfigurationError',
      `Export ${name} has no windows: its service has no filterUntil, the filter that excludes reports from a date on. Set it in the settings; in a ` +
        'directory, run local with --filter-until once',
    );
  }
  const filter = filterUntil(request.filter, untilOperator, window.until);
  if (filter === undefined) {
    throw new ExportError(
      'ConfigurationError',
      `The filter of export ${name} has its own date.${untilOperator}, which each window of a backfill must set`,
    );
  }
  return {
    ...definition,
    request: { ...request, filter },
    requestChecksum: windowRequestChecksum(definition, untilOperator),
    window,
  };
}

/** The same for all windows with this request, apart from their bounds. The size of a page does not decide which reports they have. */
export function windowRequestChecksum(
  { request: { source, filter, format, container } }: Pick<ExportDefinition, 'request'>,
  untilOperator: string | undefined,
): string {
  return checksumOf({ source, filter, format, container, untilOperator });
}

function exportField(input: unknown): unknown {
  if (typeof input !== 'object' || input === null || !Object.hasOwn(input, 'export')) return undefined;
  return (input as { readonly export: unknown }).export;
}
