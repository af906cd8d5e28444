/**
 * Compares an unfinished run with the settings and the start that are to continue it: a deployment may change settings
 * in mid-run.
 */

import { isDeepStrictEqual } from 'node:util';
import { ExportError } from '../errors.ts';
import type { ExportDefinition, ExportRequest, Instant, Run } from '../model.ts';
import { hasSlices } from '../slices.ts';
import { summarize } from './watermark.ts';

/**
 * The ConfigurationError of an unfinished run that cannot continue with `definition`, or with what a start says;
 * undefined if it can. A cursor is valid only with its own request. A run that has all its pages (`isComplete`) sends
 * no further request.
 */
export function contradictionOf(
  run: Run,
  isComplete: boolean,
  { request, dates }: Pick<ExportDefinition, 'request' | 'dates'>,
  { since, slice }: { readonly since?: Instant | undefined; readonly slice?: number | undefined } = {},
): ExportError | undefined {
  const ofRequest = [
    ...(isComplete ? [] : differences(run.request, request)),
    ...(since === undefined || since === run.since ? [] : [`since was ${run.since} and is now ${since}`]),
  ];
  const ofSlices = slice === undefined || hasSlices(run, slice, dates) ? [] : [describeSlices(run, slice)];
  if (ofRequest.length === 0 && ofSlices.length === 0) return undefined;
  const advice =
    ofRequest.length === 0
      ? 'A run keeps its slices. Start without a length of slices to finish it, or with --restart to abandon it'
      : 'A cursor is valid only with the request that returned it. Restore these values to finish the run, or start with --restart to ' +
        'abandon it (and with --since, if the filter, the service or its settings have changed)';
  return new ExportError(
    'ConfigurationError',
    `Run ${run.run} of export ${run.export} is unfinished and was started with another request: ` +
      `${[...ofRequest, ...ofSlices].join('; ')}. ${advice}`,
  );
}

const describeSlices = ({ slices }: Run, lengthMs: number): string =>
  `${slices === undefined ? 'the run has one slice' : `slices were ${slices.lengthMs / 60_000} minutes long`} and would now be ` +
  `${lengthMs / 60_000} minutes long`;

const differences = (before: ExportRequest, now: ExportRequest): readonly string[] =>
  (['source', 'filter', 'format', 'container', 'size', 'api'] as const)
    .filter((field) => !isDeepStrictEqual(before[field], now[field]))
    .map((field) =>
      field === 'api'
        ? 'the settings of the service (headers, vendor, cursorIn or api) have changed'
        : `${field === 'source' ? 'service' : field} was ${describe(before[field])} and is now ${describe(now[field])}`,
    );

const describe = (value: unknown): string => (value === undefined ? 'not set' : summarize(value));
