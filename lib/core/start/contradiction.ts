/**
 * Compares an unfinished run with the settings and the start that are to continue it: a deployment may change settings
 * while the run is unfinished.
 */

import { isDeepStrictEqual } from 'node:util';
import { ExportError } from '../errors.ts';
import type { ExportDefinition, ExportRequest, Instant, Run } from '../model.ts';
import { hasSlices } from '../slices.ts';
import { summarize } from './watermark.ts';

/**
 * The ConfigurationError of an unfinished run that cannot continue with the settings, or with what a start says;
 * undefined if it can. The requests of a run must not change, because a cursor is valid only with its own request. A
 * run that has all its pages (`isComplete`) sends no further one.
 */
export function contradictionOf(
  run: Run,
  isComplete: boolean,
  { request, dates }: Pick<ExportDefinition, 'request' | 'dates'>,
  { since, slice }: { readonly since?: Instant | undefined; readonly slice?: number | undefined } = {},
): ExportError | undefined {
  const hasOtherSince = since !== undefined && since !== run.since;
  const hasOtherSlices = slice !== undefined && !hasSlices(run, slice, dates);
  const requestChanges = [
    ...(isComplete ? [] : changesOf(run.request, request)),
    ...(hasOtherSince ? [`since was ${run.since} and is now ${since}`] : []),
  ];
  const changes = [...requestChanges, ...(hasOtherSlices ? [changeOfSlices(run, slice)] : [])];
  if (changes.length === 0) return undefined;
  const advice =
    requestChanges.length === 0
      ? 'A run keeps its slices. Start without a length of slices to finish it, or with --restart to abandon it'
      : 'A cursor is valid only with the request that returned it. Restore these values to finish the run, or start with --restart to ' +
        'abandon it (and with --since, if the filter, the service or its settings have changed)';
  return new ExportError(
    'ConfigurationError',
    `Run ${run.run} of export ${run.export} is unfinished and was started with another request: ` +
      `${changes.join('; ')}. ${advice}`,
  );
}

function changesOf(before: ExportRequest, now: ExportRequest): readonly string[] {
  const fields = ['source', 'filter', 'format', 'container', 'size', 'api'] as const;
  return fields
    .filter((field) => !isDeepStrictEqual(before[field], now[field]))
    .map((field) => {
      // Headers may be confidential, so only their checksum is known.
      if (field === 'api')
        return 'the settings of the service (headers, vendor, cursorIn or api) have changed, or the parents';
      const name = field === 'source' ? 'service' : field;
      return `${name} was ${describe(before[field])} and is now ${describe(now[field])}`;
    });
}

const describe = (value: unknown): string => (value === undefined ? 'not set' : summarize(value));

function changeOfSlices({ slices }: Run, lengthMs: number): string {
  const before =
    slices?.lengthMs === undefined ? 'the run has one slice' : `slices were ${inMinutes(slices.lengthMs)} long`;
  return `${before} and would now be ${inMinutes(lengthMs)} long`;
}

const inMinutes = (ms: number): string => `${ms / 60_000} minutes`;
