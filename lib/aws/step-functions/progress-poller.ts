/**
 * Reports the progress of a run in AWS: compares the export state and the page log with what was reported before, and emits
 * the difference as the events that the steps themselves emit.
 */

import { type Run, type RunResult, zeroTotals } from '../../core/model.ts';
import type { EventSink, PageLog } from '../../core/ports.ts';
import { readProgress, type RunProgress, walkedSlices } from '../../core/run-progress.ts';
import { epochMsOf } from '../../core/timestamps.ts';
import type { RunExecution } from './execution-result.ts';

export interface ProgressPoller {
  /** What the execution was last seen to work on. */
  lastSeen(): RunExecution | undefined;
  /** Reads once and emits what is new. Resolves to whether there was anything. */
  poll(execution: string): Promise<boolean>;
  /** Emits what is new since the last poll, and the completion. */
  completed(result: RunResult): Promise<void>;
}

/** The unfinished run of an export, and how far it has come, before a start. */
export interface ExportSnapshot {
  readonly active: Run | undefined;
  readonly progress: RunProgress | undefined;
}

/** What is reported of a run when it begins. */
type ReportedRun = Pick<Run, 'export' | 'run' | 'since' | 'until' | 'bounded' | 'slices' | 'executionNumber'>;

type ProgressLog = Pick<PageLog, 'exportState' | 'last' | 'lastSlice'>;

/** `stateName` is that of the export, or of the bounded run that is started. */
export async function takeSnapshot(log: ProgressLog, stateName: string): Promise<ExportSnapshot> {
  const active = (await log.exportState(stateName))?.active;
  return { active, progress: active && (await readProgress(log, active)) };
}

/** `before` is what was there before the execution started: it tells whether, and from where, the run is resumed. */
export function createProgressPoller(
  { log, stateName }: { readonly log: ProgressLog; readonly stateName: string },
  before: ExportSnapshot,
  emit: EventSink,
): ProgressPoller {
  let seen: Run | undefined;
  let reported: RunProgress | undefined;

  /** Resolves to whether there is anything new about the run. */
  const reportRun = (run: ReportedRun): boolean => {
    const previous = seen;
    if (previous?.run === run.run) return reportSlices(previous, run);
    const about = { export: run.export, run: run.run };
    const isResumed = previous === undefined && before.active?.run === run.run;
    reported = isResumed ? before.progress : undefined;
    if (previous !== undefined) {
      const reason = 'the service no longer accepts its cursor';
      emit({ event: 'run-restarted', ...about, abandoned: previous.run, reason });
      return true;
    }
    const { since, until, bounded, executionNumber } = run;
    const { totals = zeroTotals, counts = { done: 0, count: run.slices?.count ?? 1 } } = reported ?? {};
    emit({
      event: isResumed ? 'run-resumed' : 'run-started',
      ...about,
      since,
      until,
      bounded,
      slices: run.slices && counts,
      executionNumber,
      page: totals.pages + 1,
      ...totals,
    });
    return true;
  };

  /** Reports the slices that have started over or were set aside. Resolves to whether there are any. */
  const reportSlices = (previous: Run, { export: exportName, run, slices }: ReportedRun): boolean => {
    const about = { export: exportName, run };
    const attempts = Object.entries(slices?.attempts ?? {});
    const restarted = attempts.filter(([slice, attempt]) => attempt > (previous.slices?.attempts?.[slice] ?? 1));
    for (const [slice, attempt] of restarted) {
      const reason = 'the service no longer accepts its cursor';
      emit({ event: 'slice-restarted', ...about, slice: Number(slice), attempt, reason });
    }
    const known = new Set(previous.slices?.setAside?.map(({ slice }) => slice));
    const setAside = slices?.setAside?.filter(({ slice }) => !known.has(slice)) ?? [];
    for (const each of setAside) emit({ event: 'slice-set-aside', ...about, ...each });
    return restarted.length > 0 || setAside.length > 0;
  };

  /** Reports the newest page, with the totals of the run. Resolves to whether there is one. */
  const reportPages = async (run: ReportedRun): Promise<boolean> => {
    const progress = await readProgress(log, run, run.slices && reported && walkedSlices(reported));
    const { totals, counts } = progress;
    const isNew = totals.pages > (reported?.totals.pages ?? 0);
    reported = progress;
    const [newest] = progress.slices
      .flatMap(({ last }) => last ?? [])
      .toSorted((one, other) => epochMsOf(other.loggedAt) - epochMsOf(one.loggedAt));
    if (!isNew || newest === undefined) return false;
    const { page, slice, bytes, reports, timing } = newest;
    emit({
      event: timing === null ? 'page-adopted' : 'page-exported',
      export: run.export,
      run: run.run,
      page,
      slice,
      slices: run.slices && counts,
      bytes,
      reports,
      totalPages: totals.pages,
      totalReports: totals.reports,
      totalBytes: totals.bytes,
    });
    return true;
  };

  return {
    lastSeen: () => seen,
    async poll(execution) {
      const active = (await log.exportState(stateName))?.active;
      if (active?.execution !== execution) return false;
      const hasNews = reportRun(active);
      seen = active;
      return (await reportPages(active)) || hasNews;
    },
    async completed(result) {
      // The state no longer has the run.
      const run = seen?.run === result.run ? seen : { ...result, executionNumber: seen?.executionNumber ?? 1 };
      // Of a run that was not seen, it is not known whether it has several slices: then no page is found.
      if (run !== seen) reportRun(run);
      await reportPages(run);
      emit({ event: 'run-completed', ...result });
    },
  };
}
