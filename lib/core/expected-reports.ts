/** The expectations of an export for its runs (`expect` in its settings). */

import { ExportError } from './errors.ts';
import type { ExportDefinition, ExportState, Run, RunTotals } from './model.ts';
import { epochMsOf } from './timestamps.ts';

/**
 * Whether the run is complete but must not be published, because it has fewer reports than `expect.minReports`. Not if
 * its completion is decided: then it may be published already.
 */
export function hasTooFewReports(
  { expect }: ExportDefinition,
  run: Run,
  { isComplete, totals: { reports } }: { readonly isComplete: boolean; readonly totals: RunTotals },
): boolean {
  if (expect?.minReports === undefined || run.completion !== undefined || !isComplete) return false;
  // Null if they cannot be counted.
  return reports !== null && reports < expect.minReports;
}

export const tooFewReportsError = ({ expect }: ExportDefinition, { run }: Run, { reports }: RunTotals): ExportError =>
  new ExportError(
    'ConfigurationError',
    `Run ${run} has ${reports} reports, but expect.minReports is ${expect?.minReports}, so it is not published and the ` +
      'watermark does not move. The next start begins a new run. If so few reports are right, lower expect.minReports first: ' +
      'then the next start publishes this run',
  );

/** For how long no completed run has had reports; undefined if no run has completed. */
export function msWithoutReports(lastCompleted: ExportState['lastCompleted'], now: number): number | undefined {
  const since = lastCompleted?.lastReportsAt;
  return since === undefined ? undefined : Math.max(0, now - epochMsOf(since));
}
