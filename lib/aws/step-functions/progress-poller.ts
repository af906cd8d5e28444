/**
 * Reports the progress of a run in AWS: compares the export state and the page log with what was reported before, and emits
 * the difference as the events that the steps themselves emit.
 */

import { type PageEntry, type Run, type RunResult, totalsOf } from '../../core/model.ts';
import type { EventSink, PageLog } from '../../core/ports.ts';
import { type IncidentLog, totalOf } from '../../target/incidents.ts';
import type { RunExecution } from './execution-result.ts';

export interface ProgressPoller {
  /** What the execution was last seen to work on. */
  lastSeen(): RunExecution | undefined;
  /** Whether the execution was seen to work on a run: its first step has succeeded. */
  hasBegun(execution: string): boolean;
  /** The page after the newest one that was reported. */
  nextPage(): number;
  /** Reads once and emits what is new. Resolves to whether there was anything. */
  poll(execution: string): Promise<boolean>;
  /** Emits what is new since the last poll, and the completion. */
  completed(result: RunResult): Promise<void>;
}

/** The unfinished run of an export, its last page, and how many incidents it has had, before an execution starts. */
export interface ExportSnapshot {
  readonly active: Run | undefined;
  readonly last: PageEntry | undefined;
  readonly incidents: number;
}

export async function takeSnapshot(
  log: Pick<PageLog, 'exportState' | 'last'>,
  incidentLog: Pick<IncidentLog, 'read'>,
  exportName: string,
): Promise<ExportSnapshot> {
  const active = (await log.exportState(exportName))?.active;
  if (active === undefined) return { active, last: undefined, incidents: 0 };
  const [last, record] = await Promise.all([log.last(active), incidentLog.read(active)]);
  return { active, last, incidents: totalOf(record) };
}

/** `before` is what was there before the execution started: it tells whether the run is resumed, and after which page. */
export function createProgressPoller(
  { log, exportName }: { readonly log: Pick<PageLog, 'exportState' | 'last'>; readonly exportName: string },
  before: ExportSnapshot,
  emit: EventSink,
): ProgressPoller {
  let seen: RunExecution | undefined;
  let seenExecution: string | undefined;
  let reportedPage = 0;

  /** Resolves to whether `run` is a new one. */
  const reportRun = ({ run, since, executionNumber }: RunExecution & Pick<Run, 'since'>): boolean => {
    const previous = seen?.run;
    seen = { run, executionNumber };
    if (previous === run) return false;
    if (previous === undefined) {
      const isResumed = before.active?.run === run;
      const last = isResumed ? before.last : undefined;
      reportedPage = last?.page ?? 0;
      emit({
        event: isResumed ? 'run-resumed' : 'run-started',
        export: exportName,
        run,
        since,
        executionNumber,
        page: reportedPage + 1,
        ...totalsOf(last),
      });
    } else {
      reportedPage = 0;
      const reason = 'the service no longer accepts its cursor';
      emit({ event: 'run-restarted', export: exportName, run, abandoned: previous, reason });
    }
    return true;
  };

  /** Reports the newest page. Resolves to whether there is one. */
  const reportPage = async (run: Run['run']): Promise<boolean> => {
    const last = await log.last({ export: exportName, run });
    if (last === undefined || last.page <= reportedPage) return false;
    reportedPage = last.page;
    const { page, bytes, reports, totals } = last;
    emit({
      event: last.timing === null ? 'page-adopted' : 'page-exported',
      export: exportName,
      run,
      page,
      bytes,
      reports,
      totalReports: totals.reports,
      totalBytes: totals.bytes,
    });
    return true;
  };

  return {
    lastSeen: () => seen,
    hasBegun: (execution) => seenExecution === execution,
    nextPage: () => reportedPage + 1,
    async poll(execution) {
      const active = (await log.exportState(exportName))?.active;
      if (active?.execution !== execution) return false;
      seenExecution = execution;
      const isNewRun = reportRun(active);
      return (await reportPage(active.run)) || isNewRun;
    },
    async completed(result) {
      reportRun({ run: result.run, since: result.since, executionNumber: seen?.executionNumber ?? 1 });
      await reportPage(result.run);
      emit({ event: 'run-completed', ...result });
    },
  };
}
