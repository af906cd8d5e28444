/**
 * Decides how many parents may be gone. An API that moves, or a condition that is wrong, makes all of them look gone,
 * and a run without their reports must not be published.
 */

import { ExportError } from '../errors.ts';
import type { ExportDefinition, Run } from '../model.ts';
import type { SliceCounts } from '../ports.ts';
import { countMissing, type RunContent } from '../storage/run-content.ts';

/** So many parents at the beginning of a run are not all gone by chance. */
export const firstParents = 10;

/** The ConfigurationError of a run whose first parents are all gone; undefined if they are not. */
export function allGoneError(
  { run }: Pick<Run, 'run'>,
  { counts, totals }: { readonly counts: SliceCounts; readonly totals: { readonly pages: number } },
): ExportError | undefined {
  const { gone, skipped } = counts.parents ?? { gone: 0, skipped: 0 };
  const isAny = totals.pages > 0 || counts.done > gone + skipped;
  return isAny || gone < firstParents ? undefined : firstGoneError({ run }, gone);
}

export const firstGoneError = ({ run }: Pick<Run, 'run'>, gone: number): ExportError =>
  goneError(`The first ${gone} parents of run ${run} are all gone (when.gone), and no other one has a page yet`);

/** The ConfigurationError of a complete run too many of whose parents are gone; undefined if it may be published. */
export function tooManyGoneError(
  { limits }: Pick<ExportDefinition, 'limits'>,
  { run }: Pick<Run, 'run'>,
  content: Pick<RunContent, 'complete' | 'missing'>,
): ExportError | undefined {
  const { complete: count } = content;
  const gone = countMissing(content, 'gone');
  const walked = count - countMissing(content, 'skipped');
  const most = Math.max(1, Math.floor((walked * limits.goneAtMostPercent) / 100));
  if (gone === 0) return undefined;
  if (gone === walked) return goneError(`All ${gone} parents of run ${run} are gone (when.gone)`);
  if (gone <= most) return undefined;
  return goneError(
    `${gone} of ${count} parents of run ${run} are gone (when.gone), and parents.gone.atMost allows ${most}`,
    'If so many are gone, raise parents.gone.atMost and start again: the run is published then. Otherwise: ',
  );
}

const goneError = (problem: string, ifRight = ''): ExportError =>
  new ExportError(
    'ConfigurationError',
    `${problem}. The run is not published. ${ifRight}Correct the request of the export or when.gone, and start with ` +
      '--restart to begin a new run',
  );
