/** A followed run at one moment, and what has changed since the moment before. */

import { type Run, zeroTotals } from '../../core/model.ts';
import type { ExportEvent, PageLog } from '../../core/ports.ts';
import { readProgress, type RunProgress, walkedSlices } from '../../core/run-progress.ts';
import { epochMsOf } from '../../core/timestamps.ts';

export interface RunView {
  /** Undefined: there is no unfinished run. */
  readonly run: ViewedRun | undefined;
  readonly progress: RunProgress | undefined;
  /** Whether the followed execution has begun or resumed the run. */
  readonly isFollowed: boolean;
}

export type ViewedRun = Pick<Run, 'export' | 'run' | 'since' | 'until' | 'bounded' | 'slices' | 'executionNumber'>;

/** `previous` is an earlier view: slices that were complete are not read again. */
export async function readRunView(
  log: Pick<PageLog, 'last' | 'lastSlice'>,
  run: ViewedRun,
  previous: RunView,
): Promise<RunView> {
  const known = knownProgress(previous, run);
  const progress = await readProgress(log, run, run.slices && known && walkedSlices(known));
  return { run, progress, isFollowed: true };
}

const knownProgress = (previous: RunView, { run }: ViewedRun): RunProgress | undefined =>
  previous.run?.run === run ? previous.progress : undefined;

/** What happened between two views of an export, as the events of its steps. Only the newest of several pages is known. */
export function difference(previous: RunView, { run, progress }: RunView): readonly ExportEvent[] {
  if (run === undefined || progress === undefined) return [];
  return [...beginning(previous, run), ...sliceEvents(previous, run), ...pageEvents(previous, run, progress)];
}

const cursorRejected = 'the service no longer accepts its cursor';

function beginning(previous: RunView, run: ViewedRun): readonly ExportEvent[] {
  const isResumed = previous.run?.run === run.run;
  if (previous.isFollowed) {
    if (isResumed) return [];
    const abandoned = previous.run?.run ?? run.run;
    return [{ event: 'run-restarted', export: run.export, run: run.run, abandoned, reason: cursorRejected }];
  }
  const { export: exportName, run: id, since, until, bounded, slices, executionNumber } = run;
  const { totals = zeroTotals, counts = { done: 0, count: slices?.count ?? 1 } } = knownProgress(previous, run) ?? {};
  return [
    {
      event: isResumed ? 'run-resumed' : 'run-started',
      export: exportName,
      run: id,
      since,
      until,
      bounded,
      slices: slices && counts,
      executionNumber,
      page: totals.pages + 1,
      ...totals,
    },
  ];
}

/** The slices that have started over or were set aside. */
function sliceEvents(previous: RunView, { export: exportName, run, slices }: ViewedRun): readonly ExportEvent[] {
  if (!previous.isFollowed || previous.run?.run !== run) return [];
  const before = previous.run.slices;
  const about = { export: exportName, run };
  const restarted = Object.entries(slices?.attempts ?? {})
    .filter(([slice, attempt]) => attempt > (before?.attempts?.[slice] ?? 1))
    .map(([slice, attempt]): ExportEvent => {
      return { event: 'slice-restarted', ...about, slice: Number(slice), attempt, reason: cursorRejected };
    });
  const known = new Set(before?.setAside?.map(({ slice }) => slice));
  const setAside = (slices?.setAside ?? [])
    .filter(({ slice }) => !known.has(slice))
    .map((each): ExportEvent => ({ event: 'slice-set-aside', ...about, ...each }));
  return [...restarted, ...setAside];
}

function pageEvents(
  previous: RunView,
  run: ViewedRun,
  { totals, counts, slices }: RunProgress,
): readonly ExportEvent[] {
  const [newest] = slices
    .flatMap(({ last }) => last ?? [])
    .toSorted((one, other) => epochMsOf(other.loggedAt) - epochMsOf(one.loggedAt));
  if (newest === undefined || totals.pages <= (knownProgress(previous, run)?.totals.pages ?? 0)) return [];
  const { page, slice, bytes, reports, timing } = newest;
  return [
    {
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
    },
  ];
}
