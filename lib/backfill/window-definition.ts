/** A window as an export: one that starts at a fixed instant, has an upper bound in its filter, and is exported once. */

import { ExportError } from '../core/errors.ts';
import { filterBefore, untilPlaceholder } from '../core/filter.ts';
import type { ExportDefinition } from '../core/model.ts';
import { type ExportDefinitions, nameIn, selectExport } from '../core/steps/select-export.ts';
import { checksumOf } from '../core/storage/stored-records.ts';
import { parseWindowName, type Window, windowName } from './windows.ts';

/**
 * The export, or the window of an export, that `input` names in its field `export`; without that field, the only export of the
 * service. `untilOperator` is the service's, for windows.
 * @throws ConfigurationError that lists the exports, if that is none of them
 */
export function selectDefinition(
  exports: ExportDefinitions,
  input: unknown,
  untilOperator: string | undefined,
): ExportDefinition {
  const found = findWindow(exports, input);
  return found === undefined
    ? selectExport(exports, input)
    : windowDefinition(found.definition, found.window, untilOperator);
}

/**
 * As `selectDefinition`, to record that its run has failed. The definition of a window has no request of its own: the settings may no
 * longer have what it needs, which then is why the run has failed.
 * @throws ConfigurationError as `selectDefinition` does, but not for a window that can no longer be exported
 */
export function selectFailedDefinition(exports: ExportDefinitions, input: unknown): ExportDefinition {
  const found = findWindow(exports, input);
  return found === undefined
    ? selectExport(exports, input)
    : { ...found.definition, ...boundsOf(found.definition, found.window) };
}

/** The window that `input` names, if it names one, and its export. */
function findWindow(
  exports: ExportDefinitions,
  input: unknown,
): { readonly definition: ExportDefinition; readonly window: Window } | undefined {
  const name = nameIn(input);
  const named = typeof name === 'string' ? parseWindowName(name) : undefined;
  const definition = named && exports.get(named.export);
  return named && definition && { definition, window: named.window };
}

/** What a window has of its own. `expect` is about regular runs: windows are often rightly small or empty. */
const boundsOf = ({ name }: ExportDefinition, window: Window) =>
  ({
    stateName: windowName(name, window),
    since: { from: 'fixed', instant: window.since },
    until: window.until,
    expect: undefined,
  }) satisfies Partial<ExportDefinition>;

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
      `Export ${name} has no windows: its service has no filterUntil, the filter that excludes reports from a date on, and no {until} in its api. Set it in the settings; in a ` +
        'directory without a settings file, run local with --filter-until once',
    );
  }
  const filter =
    untilOperator === untilPlaceholder ? request.filter : filterBefore(request.filter, untilOperator, window.until);
  if (filter === undefined) {
    throw new ExportError(
      'ConfigurationError',
      `The filter of export ${name} has its own date.${untilOperator}, which each window of a backfill must set`,
    );
  }
  return {
    ...definition,
    ...boundsOf(definition, window),
    request: { ...request, filter },
    once: { requestChecksum: windowRequestChecksum(definition, untilOperator) },
  };
}

/** The same for all windows with this request, apart from their bounds. The size of a page does not decide which reports they have. */
export function windowRequestChecksum(
  { request: { source, filter, format, container, api } }: Pick<ExportDefinition, 'request'>,
  untilOperator: string | undefined,
): string {
  return checksumOf({ source, filter, format, container, untilOperator, requestSha256: api.requestSha256 });
}
