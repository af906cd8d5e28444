/**
 * Tells how a run gets on that is made elsewhere: compares what the head and the page log say now with what was told
 * before, and puts the difference into the words that the steps themselves would use.
 */

import type { Instant, PageEntry, Run, RunResult } from '../../core/model.ts';
import type { EventSink, PageLog } from '../../core/ports.ts';
import type { Segment } from './execution-result.ts';

export interface RunProgress {
  /** What the execution was last seen to work on. */
  seen(): Segment | undefined;
  /** Looks, and tells what is new. Resolves to whether there was anything. */
  look(execution: string): Promise<boolean>;
  /** Tells what came between the last look and the end. */
  completed(result: RunResult): Promise<void>;
}

/** Where the export stood before the start. */
export interface Before {
  readonly active: Run | undefined;
  readonly last: PageEntry | undefined;
}

export async function standOf(log: Pick<PageLog, 'exportState' | 'last'>, exportName: string): Promise<Before> {
  const active = (await log.exportState(exportName))?.active;
  return { active, last: active && (await log.last(active)) };
}

export function createRunProgress(
  { log, exportName }: { readonly log: Pick<PageLog, 'exportState' | 'last'>; readonly exportName: string },
  before: Before,
  emit: EventSink,
): RunProgress {
  let known: Segment | undefined;
  let told = 0;

  const begin = (run: Pick<Run, 'run' | 'since' | 'executionNumber'>) => {
    const { run: id, since, executionNumber } = run;
    const hasNextPage = before.active?.run === id;
    const last = hasNextPage ? before.last : undefined;
    told = last?.page ?? 0;
    emit({
      event: hasNextPage ? 'run-resumed' : 'run-started',
      export: exportName,
      run: id,
      since,
      executionNumber,
      page: told + 1,
      pages: told,
      ...(last?.totals ?? { reports: 0, bytes: 0 }),
    });
  };
  /** Whether it is another than before; the first one, too. */
  const meet = (run: {
    readonly run: Run['run'];
    readonly since: Instant;
    readonly executionNumber: number;
  }): boolean => {
    const former = known?.run;
    known = { run: run.run, executionNumber: run.executionNumber };
    if (former === run.run) return false;
    if (former === undefined) begin(run);
    else {
      told = 0;
      const reason = 'the service dropped its cursor';
      emit({ event: 'run-restarted', export: exportName, run: run.run, abandoned: former as Run['run'], reason });
    }
    return true;
  };
  const tellPages = async (run: Run['run']): Promise<boolean> => {
    const last = await log.last({ export: exportName, run });
    if (last === undefined || last.page <= told) return false;
    told = last.page;
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
    seen: () => known,
    async look(execution) {
      const active = (await log.exportState(exportName))?.active;
      if (active?.execution !== execution) return false;
      const met = meet(active);
      return (await tellPages(active.run)) || met;
    },
    async completed(result) {
      meet({ run: result.run, since: result.since, executionNumber: known?.executionNumber ?? 1 });
      await tellPages(result.run);
      emit({ event: 'run-completed', ...result });
    },
  };
}
