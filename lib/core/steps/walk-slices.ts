/**
 * Walks the slices of a run within one invocation: up to `parallel` of them at the same time, the oldest first. Each is a chain whose
 * pages the page pipeline exports (`page-pipeline.ts`).
 *
 * A slice that fails is set aside for this invocation while the others continue. What stops the run stops all of them.
 */

import { type ErrorName, ExportError, isExportError } from '../errors.ts';
import { type Invocation, type PageEntry, type PageTiming, refOf, type Run, type RunSlices } from '../model.ts';
import type { StepDependencies } from '../ports.ts';
import { isDone, progressOf, type RunProgress, type SliceProgress } from '../run-progress.ts';
import { type Slice, sliceCountOf, sliceOf } from '../slices.ts';
import { type HeldSlot, holdSlot, NoFreeSlot } from '../slots/held-slot.ts';
import { assertContinues } from './loop-outcome.ts';
import { exportPages, type WalkOptions } from './page-pipeline.ts';
import type { Backoff } from './page-requests.ts';
import { updateOwnedRun } from './export-state.ts';
import { proveBounds } from './upper-bound.ts';

export type ExportPageDependencies = Omit<StepDependencies, 'executions'>;

export interface Failure {
  /** 1 if the run has only one. */
  readonly slice: number;
  readonly error: unknown;
}

/** No slice can succeed while a person does not act, or while this execution does not own the run. */
const fatalErrors: ReadonlySet<string> = new Set<ErrorName>([
  'ConfigurationError',
  'PageConflictError',
  'RunSupersededError',
]);
/** The first request of a further slice would fail, too. */
const outages: ReadonlySet<string> = new Set<ErrorName>([
  'ServiceUnavailableError',
  'ServiceUnreachableError',
  'ServiceThrottledError',
]);

/** A run warns at each multiple of so many consecutive pages without reports. */
const emptyPagesPerWarning = 100;

/**
 * Walks slices until none is left, or time is up. When it settles, nothing is in flight any more. Resolves to how far the run has come,
 * why slices were set aside, the oldest first, what is left of a Retry-After that is not waited out here, and whether a slot is needed.
 * @throws what stops the run
 */
export async function walkSlices(
  deps: ExportPageDependencies,
  run: Run,
  before: RunProgress,
  options: WalkOptions & Invocation,
) {
  const { definition, runtime, emit } = deps;
  const { execution, signal: interruption, maxInFlight = 2 } = options;
  const { pagesPerInvocation, maxPages = Number.POSITIVE_INFINITY } = definition.limits;
  const parallel = run.slices?.parallel ?? 1;
  const backoff: Backoff = { until: 0 };
  const failures: Failure[] = [];
  let fatal: { readonly error: unknown } | undefined;
  let needsSlot = false;
  const stop = new AbortController();
  const signal = interruption === undefined ? stop.signal : AbortSignal.any([stop.signal, interruption]);
  const stopAll = (error: unknown): undefined => {
    fatal ??= { error };
    stop.abort(error);
  };

  /** By slice number: those that were not complete before. */
  const walked = new Map(before.slices.map((each) => [numberOf(each.slice), each]));
  let current = run;
  let { begun } = before;
  const progress = (): RunProgress => progressOf(run, begun, [...walked.values()], before.unread);
  const hasTime = () => (options.hasTime?.() ?? true) && progress().totals.pages < maxPages;
  // The pages of other slices fill the time for which a page of this one is awaited.
  const inFlight = run.slices === undefined ? maxInFlight : Math.max(2, Math.floor(maxInFlight / parallel));
  const ofEach = { ...options, signal, hasTime, maxInFlight: inFlight, backoff };

  const open = before.slices.filter(({ last }) => !isDone(last));
  let mayBegin = true;
  const nextSlice = (): SliceProgress | undefined => {
    const next = open.shift();
    if (next !== undefined || !mayBegin || begun === sliceCountOf(run)) return next;
    begun += 1;
    const fresh = { slice: sliceOf(current, begun), last: undefined };
    walked.set(begun, fresh);
    return fresh;
  };

  async function walker(slot: HeldSlot | undefined): Promise<void> {
    do {
      const next = nextSlice();
      if (next === undefined || !(await walk(next, slot))) return;
    } while (hasTime() && !signal.aborted);
  }

  /** How many pages the chains in progress may still log. Together with the pages so far, these are at most `maxPages`. */
  let allotted = 0;

  /** Exports pages of the slice. Undefined: the chains in progress may log all that are left of `maxPages`. */
  async function exportAllotted(slice: Slice, last: PageEntry | undefined, slot: HeldSlot | undefined) {
    const free = maxPages - progress().totals.pages - allotted;
    let left = Math.min(pagesPerInvocation, Math.ceil(free / parallel));
    if (left <= 0) return undefined;
    allotted += left;
    const note = noteLogged(slice);
    try {
      return await exportPages(deps, {
        ...ofEach,
        run: current,
        slice,
        lastLogged: last,
        slot,
        maxPages: left,
        onLogged(entry, timing) {
          left -= 1;
          allotted -= 1;
          note(entry, timing);
        },
      });
    } finally {
      allotted -= left;
    }
  }

  /** Exports pages of the slice. Resolves to whether there may be another one for its walker. */
  async function walk({ slice, last }: SliceProgress, slot: HeldSlot | undefined): Promise<boolean> {
    try {
      if (last !== undefined) assertContinues(definition, last);
      const logged = await exportAllotted(slice, last, slot);
      if (logged === undefined) return false;
      if (isDone(logged)) return true;
      assertContinues(definition, logged);
      return false;
    } catch (error) {
      const restarted = await restartSlice(slice, error).catch(stopAll);
      return restarted === undefined ? setAside(slice, error) : await walk(restarted, slot);
    } finally {
      await slot?.release();
    }
  }

  const noteLogged = (slice: Slice) => (entry: PageEntry, timing: PageTiming | null) => {
    walked.set(numberOf(slice), { slice, last: entry });
    const { page, bytes, reports, emptyPages } = entry;
    const { totals, counts } = progress();
    const about = { ...refOf(run), page };
    emit({
      event: timing === null ? 'page-adopted' : 'page-exported',
      ...about,
      slice: slice.slice,
      slices: run.slices && counts,
      bytes,
      reports,
      totalPages: totals.pages,
      totalReports: totals.reports,
      totalBytes: totals.bytes,
      latencyMs: timing?.latencyMs,
    });
    const isWarning = emptyPages > 0 && emptyPages % emptyPagesPerWarning === 0;
    if (isWarning) emit({ event: 'pages-without-reports', ...about, emptyPages });
  };

  /**
   * The slice once it has started over, in this invocation or in a concurrent one of the same execution. Undefined: it must not, because
   * it has used up `maxCursorRestarts`, or a concurrent invocation has exported its last page.
   */
  async function restartSlice(slice: Slice, error: unknown): Promise<SliceProgress | undefined> {
    if (current.slices === undefined || !isExportError(error, 'CursorRejectedError')) return undefined;
    const { attempt = 1 } = slice;
    const number = numberOf(slice);
    const ownership = { execution, run: run.run };
    const slices = await updateOwnedRun<RunSlices | undefined>(deps, ownership, async (active, state) => {
      if (active.slices === undefined || active.completion !== undefined) return { result: undefined };
      const known = sliceOf(active, number);
      if (known.attempt !== attempt) return { result: active.slices };
      if (isDone(await deps.log.last(known))) return { result: undefined };
      const { restarts = {}, attempts } = active.slices;
      const count = (restarts[number] ?? 0) + 1;
      const mayRestart = count <= definition.limits.maxCursorRestarts;
      // Also noted if it must not: then the next start begins the slice from its beginning.
      const noted = { ...active.slices, restarts: { ...restarts, [number]: count } };
      const change = mayRestart ? { ...noted, attempts: { ...attempts, [number]: attempt + 1 } } : noted;
      return { change: { ...state, active: { ...active, slices: change } }, result: mayRestart ? change : undefined };
    });
    if (slices === undefined) return undefined;
    emit({ event: 'slice-restarted', ...refOf(run), slice: number, attempt: attempt + 1, reason: error.message });
    current = { ...current, slices };
    const fresh = sliceOf(current, number);
    const restarted = { slice: fresh, last: await deps.log.last(fresh) };
    walked.set(number, restarted);
    return restarted;
  }

  function setAside(slice: Slice, thrown: unknown): boolean {
    if (fatal !== undefined) return false;
    if (thrown instanceof NoFreeSlot) {
      needsSlot = true;
      return false;
    }
    // Once a run has fetched a page, its settings are right: what seemed to be a wrong address is an outage.
    const isOutage = isExportError(thrown, 'ServiceUnreachableError') && hasFetchedPage(current, progress());
    const error = isOutage
      ? new ExportError('ServiceUnavailableError', thrown.message, { cause: thrown.cause })
      : thrown;
    const name = isExportError(error) ? error.name : '';
    // An ExportError says that the time of the invocation is over. Anything else interrupts the process.
    if (fatalErrors.has(name) || (interruption?.aborted && !isExportError(interruption.reason))) {
      stopAll(error);
      return false;
    }
    failures.push({ slice: numberOf(slice), error });
    mayBegin &&= !outages.has(name);
    return true;
  }

  const held = Array.from({ length: parallel }, () => deps.slots && holdSlot(deps.slots, runtime, options.leaseMs));
  if (before.totals.pages === 0 && (run.slices !== undefined || run.bounded)) {
    try {
      // Its slot is still held for the first page: an export that waited for a slot again would have to prove the upper bound again.
      const { firstRoot } = options;
      firstRoot.current = await proveBounds(deps, run, firstRoot.current, { ...ofEach, slot: held[0] });
    } catch (error) {
      await held[0]?.release();
      setAside(sliceOf(run, 1), error);
    }
  }
  if (failures.length === 0 && !needsSlot && fatal === undefined) await Promise.all(held.map(walker));
  if (fatal !== undefined) throw fatal.error;
  return {
    progress: progress(),
    failures: failures.sort((one, other) => one.slice - other.slice),
    backoffSeconds: Math.max(0, (backoff.until - runtime.monotonicNow()) / 1_000),
    needsSlot,
  };
}

const numberOf = ({ slice = 1 }: Slice): number => slice;

/** Whether the settings of the run are known to be right. A run or a slice that started over has fetched the pages before. */
const hasFetchedPage = ({ cursorRestarts, slices }: Run, { totals }: RunProgress): boolean =>
  totals.pages > 0 || cursorRestarts > 0 || Object.keys(slices?.attempts ?? {}).length > 0;
