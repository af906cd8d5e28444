/** What the events of a run have shown so far. Unknown values are null. */

import { type RunTotals, zeroTotals } from '../../core/model.ts';
import type { ExportEvent, SliceCounts } from '../../core/ports.ts';

export interface ObservedRun extends RunTotals {
  readonly export: string;
  readonly run: string | null;
  readonly since: string | null;
  /** Absent: it has no upper bound. */
  readonly until?: string | undefined;
  /** Only for a run whose bounds an operator has named. */
  readonly bounded?: true | undefined;
  /** Only for a run with several slices. */
  readonly slices?: SliceCounts | undefined;
}

export const unobservedRun = (exportName: string): ObservedRun => ({
  export: exportName,
  run: null,
  since: null,
  ...zeroTotals,
});

export function observe(observed: ObservedRun, event: ExportEvent): ObservedRun {
  if (event.event === 'run-started' || event.event === 'run-resumed') {
    const { run, since, until, bounded, slices, pages, reports, bytes } = event;
    return { ...observed, run, since, until, bounded, slices, pages, reports, bytes };
  }
  if (event.event === 'page-exported' || event.event === 'page-adopted') {
    const { slices, totalPages: pages, totalReports: reports, totalBytes: bytes } = event;
    return { ...observed, slices, pages, reports, bytes };
  }
  return event.event === 'run-restarted' ? { ...observed, run: event.run, ...zeroTotals } : observed;
}
