/** Decides, before a start, whether its bounds may be exported: exported twice, reports would be in two runs. */

import { assertBoundable, assertNoOverlap, boundedStateName, exportedBy, partsOf } from '../core/bounded-runs.ts';
import { ExportError, isExportError } from '../core/errors.ts';
import type { Bounds, ExportDefinition, ExportState } from '../core/model.ts';
import type { PageLog } from '../core/ports.ts';
import { durationSchema } from '../core/timestamps.ts';
import type { ExportTarget } from './target.ts';
import type { StartRequest } from '../core/steps/start-input.ts';

export interface BoundableExport extends Pick<ExportTarget, 'definition'> {
  readonly log: Pick<PageLog, 'boundedStates'>;
}

/**
 * Why nothing is left of a bounded run, or of a series; undefined if the start has something to do.
 * @throws ConfigurationError that names every problem of the bounds, or the bounded run that they overlap
 */
export async function findDone(
  { definition, log }: BoundableExport,
  request: StartRequest,
  now: number,
): Promise<string | undefined> {
  const parts = partsToStart(definition, request, now);
  const { since, until, each, again = false } = request;
  if (since === undefined || until === undefined || again) return undefined;
  const { name } = definition;
  const names = new Set(parts.map((part) => boundedStateName(name, part)));
  await assertNoOverlap(log, definition, { since, until }, names);
  let newest: ExportState['lastCompleted'];
  for await (const state of log.boundedStates(name)) {
    const completed = names.has(state.export) ? exportedBy(state, definition.request) : undefined;
    if (completed === undefined) continue;
    names.delete(state.export);
    newest = completed;
  }
  if (names.size > 0) return undefined;
  const runs = each === undefined ? `run ${newest?.result.run} has` : `${parts.length} runs have`;
  return `${runs} exported ${name} from ${since} to ${until}. To export it again: --again`;
}

/**
 * The bounded runs that the start would begin, one after the other.
 * @throws ConfigurationError with a line for each problem, by its option
 */
function partsToStart(definition: ExportDefinition, request: StartRequest, now: number): readonly Bounds[] {
  const { slice } = request;
  try {
    assertBoundable(
      definition,
      { ...request, slice: slice === undefined ? undefined : durationSchema.parse(slice) },
      now,
    );
    return partsOf(request, definition.dates);
  } catch (error) {
    if (!isExportError(error, 'ConfigurationError')) throw error;
    const lines = error.message.split('; ').map((line) => (/^[a-z]+: /.test(line) ? `--${line}` : line));
    throw new ExportError('ConfigurationError', lines.join('\n'), { cause: error });
  }
}
