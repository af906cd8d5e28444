/** What an export expects of its runs (`expect` in its settings). */

import { ExportError } from './errors.ts';
import type { ExportDefinition, ExportState, PageEntry, Run } from './model.ts';
import { epochMsOf } from './timestamps.ts';

/**
 * Whether the run, whose log ends with `last`, is complete but must not be published, because it has fewer reports than
 * `expect.minReports`. Not if its completion is decided: then it may be published already.
 */
export function hasTooFewReports({ expect }: ExportDefinition, run: Run, last: PageEntry | undefined): boolean {
  if (expect?.minReports === undefined || run.completion !== undefined) return false;
  // Null if they cannot be counted.
  const reports = last?.nextCursor === null ? last.totals.reports : null;
  return reports !== null && reports < expect.minReports;
}

export const tooFewReportsError = ({ expect }: ExportDefinition, { run, totals }: PageEntry): ExportError =>
  new ExportError(
    'ConfigurationError',
    `Run ${run} has ${totals.reports} reports, but expect.minReports is ${expect?.minReports}, so it is not published and the ` +
      'watermark does not move. The next start begins a new run. If so few reports are right, lower expect.minReports first',
  );

/** For how long no completed run has had reports; undefined if no run has completed. */
export function msWithoutReports(lastCompleted: ExportState['lastCompleted'], now: number): number | undefined {
  const since = lastCompleted?.lastReportsAt;
  return since === undefined ? undefined : Math.max(0, now - epochMsOf(since));
}
