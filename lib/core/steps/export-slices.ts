/**
 * Exports the next pages of a run with several slices: one invocation walks up to `parallel` of them at the same time, the oldest
 * first. Each slice is a chain of its own, whose pages are exported as those of a run with one slice (`page-pipeline.ts`).
 *
 * A slice that fails is set aside for this invocation while the others continue. What stops the run stops all of them.
 */

import { isDeepStrictEqual } from 'node:util';
import {
  type DocumentRoot,
  type Invocation,
  type LoopState,
  type PageEntry,
  type Run,
  type RunSlices,
} from '../model.ts';
import { type ErrorName, type ExportError, isExportError } from '../errors.ts';
import type { ExportEvent, PageLog, StepDependencies } from '../ports.ts';
import { assertRootOfSettings, type ExpectedRoot, rootAfter, rootOfFirstPage } from '../document-root.ts';
import { truncate } from '../sanitize.ts';
import { sliceOf } from '../slices.ts';
import { type HeldSlot, NoFreeSlot } from '../slots/held-slot.ts';
import { contradictionOf, ownedRun, updateState } from './export-state.ts';
import {
  assertContinues,
  asOutage,
  type ExportPageOutcome,
  maxPagesError,
  type PendingDelays,
  pendingDelays,
  queue,
  wait,
} from './loop-outcome.ts';
import { type ExportPageDependencies, exportPages } from './page-pipeline.ts';
import type { Backoff } from './page-requests.ts';
import { isDone, loopOf, progressOf, readProgress, type RunProgress } from '../run-progress.ts';
import { proveUpperBound } from './upper-bound.ts';

type SlicedRun = Run & { readonly slices: RunSlices };

interface SlicesCommand extends Invocation {
  readonly loop: LoopState;
  readonly execution: string;
  /** The root of the pages of completed runs. */
  readonly recordedRoot: DocumentRoot | undefined;
}

/** As `exportPage`, for a run with several slices. */
export async function exportSlices(
  deps: ExportPageDependencies,
  run: SlicedRun,
  command: SlicesCommand,
): Promise<ExportPageOutcome> {
  const { definition, log } = deps;
  const { loop } = command;
  const { maxPages = Number.POSITIVE_INFINITY, iterationsPerExecution } = definition.limits;
  const before = await readProgress(log, run, loop.run === run.run ? loop.slices : undefined);
  const contradiction = contradictionOf(run, before.isComplete, definition);
  if (contradiction !== undefined) throw contradiction;
  for (const { last } of before.slices) if (last !== undefined) assertRootOfSettings(definition, last);
  const delays = pendingDelays(command, loop.run === run.run && before.totals.pages >= loop.page);
  const loopWith = (progress: RunProgress): LoopState => ({
    export: definition.stateName,
    run: run.run,
    executionNumber: run.executionNumber,
    ...loopOf(run, progress),
    iterations: loop.iterations,
    waits: loop.waits,
    delays: delays.current,
  });
  const after = (progress: RunProgress): LoopState => ({
    ...loopWith(progress),
    iterations: loop.iterations + 1,
    waits: 0,
  });
  if (before.isComplete) return { next: 'finish', ...after(before) };
  if (before.totals.pages >= maxPages) throw maxPagesError(definition, run);
  if (loop.iterations >= iterationsPerExecution) return { next: 'continue', ...loopWith(before) };

  const { progress, failures, fatal, backoffSeconds, slotSeconds } = await walkSlices(deps, run, before, {
    ...command,
    delays,
  });
  if (fatal !== undefined) throw fatal.error;
  if (progress.isComplete) return { next: 'finish', ...after(progress) };
  await noteSetAside(deps, run, command.execution, failures);
  const hasLogged = progress.totals.pages > before.totals.pages;
  const waiting: LoopState = { ...loopWith(progress), waits: hasLogged ? 0 : loop.waits };
  if (backoffSeconds > 0) return wait(deps, run, waiting, failures[0]?.error, backoffSeconds);
  if (!hasLogged && failures[0] !== undefined) throw failures[0].error;
  if (!hasLogged && slotSeconds !== undefined) return queue(deps, run, waiting, slotSeconds);
  if (progress.totals.pages >= maxPages) throw maxPagesError(definition, run);
  const next = after(progress);
  return { next: next.iterations >= iterationsPerExecution ? 'continue' : 'page', ...next };
}

interface Failure {
  readonly slice: number;
  readonly error: unknown;
}

interface Walk {
  readonly progress: RunProgress;
  /** Of the slices that were set aside, the oldest first. */
  readonly failures: readonly Failure[];
  /** What stops the run. */
  readonly fatal?: { readonly error: unknown } | undefined;
  /** What is left of a Retry-After that this invocation does not wait out; 0 if there is none. */
  readonly backoffSeconds: number;
  /** How long to wait for a slot, if a slice had none. */
  readonly slotSeconds: number | undefined;
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

/** Walks slices until none is left, time is up, or an error stops the run. When it resolves, nothing is in flight any more. */
async function walkSlices(
  deps: ExportPageDependencies,
  run: SlicedRun,
  before: RunProgress,
  command: SlicesCommand & { readonly delays: PendingDelays },
): Promise<Walk> {
  const { definition } = deps;
  const { execution, signal: interruption, recordedRoot, maxInFlight = 2 } = command;
  const { maxPages = Number.POSITIVE_INFINITY } = definition.limits;
  const backoff: Backoff = { until: 0 };
  const failures: Failure[] = [];
  let fatal: Walk['fatal'];
  let slotSeconds: number | undefined;
  const stop = new AbortController();
  const signal = interruption === undefined ? stop.signal : AbortSignal.any([stop.signal, interruption]);
  const stopAll = (error: unknown): void => {
    fatal ??= { error };
    stop.abort(error);
  };

  /** By slice number: those that were not complete before. */
  const walked = new Map(before.slices.map((each) => [each.slice.slice ?? 1, each]));
  let current = run;
  let begun = before.begun;
  const known = command.loop.run === run.run ? command.loop.slices : undefined;
  const progress = (): RunProgress => progressOf(run, begun, [...walked.values()], known);
  const hasTime = () => (command.hasTime?.() ?? true) && progress().totals.pages < maxPages;

  /** What first pages must have. A page that was logged, or the response to the proof, decides for all slices. */
  let root: ExpectedRoot | undefined = rootOfFirstPage(definition, recordedRoot, run);
  const noteRoot = (entry: PageEntry | undefined): void => {
    if (entry?.documentRoot) root ??= { ...rootAfter(entry), root: entry.documentRoot, reason: 'another slice has it' };
  };
  for (const { last } of walked.values()) noteRoot(last);
  // Slices that were known to be complete have not been read.
  const complete = Array.from({ length: before.begun }, (_, index) => index + 1).find((each) => !walked.has(each));
  if (root === undefined && complete !== undefined) noteRoot(await deps.log.last(sliceOf(run, complete)));

  const log: PageLog = {
    ...deps.log,
    async append(entry) {
      const logged = await deps.log.append(entry);
      const slice = walked.get(logged.slice ?? 1)?.slice;
      if (slice !== undefined && logged.attempt === slice.attempt)
        walked.set(logged.slice ?? 1, { slice, last: logged });
      noteRoot(logged);
      return logged;
    },
  };
  const emit = (event: ExportEvent): void => {
    if (event.event !== 'page-exported' && event.event !== 'page-adopted') return deps.emit(event);
    const { totals, counts } = progress();
    const ofRun = { totalPages: totals.pages, totalReports: totals.reports, totalBytes: totals.bytes };
    deps.emit({ ...event, ...ofRun, slices: counts });
  };
  // Of the run, not of a slice.
  const limits = { ...definition.limits, maxPages: undefined };
  const sliceDeps = { ...deps, definition: { ...definition, limits }, log, emit };
  // The pages of other slices fill the time for which a page of this one is awaited.
  const invocation = {
    ...command,
    signal,
    hasTime,
    maxInFlight: Math.max(2, Math.floor(maxInFlight / run.slices.parallel)),
  };

  // As in `exportPage`: what an earlier attempt of this iteration has stored is found when it is stored again.
  const checkExisting = command.loop.iterations === 0 || command.loop.run !== run.run;
  const open = before.slices.flatMap(({ slice, last }) => (isDone(last) ? [] : [slice.slice ?? 1]));
  let mayBegin = true;
  /** Of the proof: the first slice continues with it. */
  let provenSlot: HeldSlot | undefined;
  const nextSlice = (): number | undefined => {
    const number = open.shift();
    if (number !== undefined || !mayBegin || begun === run.slices.count) return number;
    begun += 1;
    walked.set(begun, { slice: sliceOf(current, begun), last: undefined });
    return begun;
  };

  async function walker(): Promise<void> {
    for (let isFirst = true; isFirst || hasTime(); isFirst = false) {
      const number = signal.aborted ? undefined : nextSlice();
      if (number === undefined || !(await walk(number))) return;
    }
  }

  /** Exports pages of the slice. Resolves to whether there may be another one for its walker. */
  async function walk(number: number): Promise<boolean> {
    for (;;) {
      const { slice = sliceOf(current, number), last } = walked.get(number) ?? {};
      const firstRoot = last === undefined ? root : undefined;
      const slot = provenSlot;
      provenSlot = undefined;
      const from = { lastLogged: last, checkExisting, firstRoot, delays: command.delays };
      const pipeline = { run: current, slice, slot, execution, backoff, ...from };
      try {
        if (last !== undefined) assertContinues(definition, last);
        const { lastLogged, failure } = await exportPages(sliceDeps, pipeline, invocation);
        if (failure !== undefined) throw failure.error;
        if (lastLogged === undefined || isDone(lastLogged)) return true;
        assertContinues(definition, lastLogged);
        return false;
      } catch (error) {
        if (isExportError(error, 'CursorRejectedError') && (await restart(number, error))) continue;
        return setAside(number, error);
      }
    }
  }

  /** Whether the slice is to be walked from its beginning. */
  async function restart(number: number, error: ExportError): Promise<boolean> {
    try {
      const slices = await restartSlice(deps, current, number, execution, error);
      if (slices === undefined) return false;
      current = { ...current, slices };
      const slice = sliceOf(current, number);
      walked.set(number, { slice, last: await deps.log.last(slice) });
      return true;
    } catch (other) {
      stopAll(other);
      return false;
    }
  }

  function setAside(number: number, thrown: unknown): boolean {
    if (stop.signal.aborted) return false;
    if (thrown instanceof NoFreeSlot) {
      slotSeconds = Math.min(slotSeconds ?? thrown.waitSeconds, thrown.waitSeconds);
      return false;
    }
    // A slice that started over has fetched the pages before.
    const hasFetchedPage = progress().totals.pages > 0 || Object.keys(current.slices.attempts ?? {}).length > 0;
    const isOutage = isExportError(thrown, 'ServiceUnreachableError') && hasFetchedPage;
    const error = isOutage ? asOutage(thrown) : thrown;
    const name = isExportError(error) ? error.name : '';
    // An ExportError says that the time of the invocation is over. Anything else interrupts the process.
    if (fatalErrors.has(name) || (interruption?.aborted && !isExportError(interruption.reason))) {
      stopAll(error);
      return false;
    }
    failures.push({ slice: number, error });
    mayBegin &&= !outages.has(name);
    return true;
  }

  if (before.totals.pages === 0) {
    const proof = await proveUpperBound(deps, run, root, { ...command, signal }, backoff);
    root = proof.root;
    provenSlot = proof.slot;
    if (proof.failure !== undefined) setAside(1, proof.failure.error);
  }
  if (failures.length === 0 && slotSeconds === undefined && !signal.aborted) {
    await Promise.all(Array.from({ length: run.slices.parallel }, walker));
  }
  await provenSlot?.release();
  return {
    progress: progress(),
    failures: failures.sort((one, other) => one.slice - other.slice),
    fatal,
    backoffSeconds: Math.max(0, (backoff.until - deps.runtime.monotonicNow()) / 1_000),
    slotSeconds,
  };
}

/**
 * The slices of the run once slice `number` has started over, in this invocation or in a concurrent one of the same execution.
 * Undefined: it must not, because it has used up `maxCursorRestarts`, or a concurrent invocation has exported its last page.
 */
async function restartSlice(
  { definition, log, emit }: Pick<StepDependencies, 'definition' | 'log' | 'emit'>,
  run: SlicedRun,
  number: number,
  execution: string,
  error: ExportError,
): Promise<RunSlices | undefined> {
  const { attempt = 1 } = sliceOf(run, number);
  const slices = await updateState<RunSlices | undefined>(log, definition.stateName, async (state) => {
    const active = ownedRun(state, execution, definition.name, run.run);
    if (active.slices === undefined || active.completion !== undefined) return { result: undefined };
    const known = sliceOf(active, number);
    if (known.attempt !== attempt) return { result: active.slices };
    if (isDone(await log.last(known))) return { result: undefined };
    const { restarts = {}, attempts } = active.slices;
    const count = (restarts[number] ?? 0) + 1;
    const mayRestart = count <= definition.limits.maxCursorRestarts;
    // Also noted if it must not: then the next start begins the slice from its beginning.
    const noted = { ...active.slices, restarts: { ...restarts, [number]: count } };
    const change = mayRestart ? { ...noted, attempts: { ...attempts, [number]: attempt + 1 } } : noted;
    return {
      change: { ...state, active: { ...active, slices: change } },
      result: mayRestart ? change : undefined,
    };
  });
  if (slices !== undefined) {
    const reason = error.message;
    emit({ event: 'slice-restarted', export: run.export, run: run.run, slice: number, attempt: attempt + 1, reason });
  }
  return slices;
}

/** More would make the state large. */
const maxSetAside = 10;
const maxMessageLength = 300;

/** Notes in the state, for operators, which slices this invocation has set aside. A run without one has no such note. */
async function noteSetAside(
  { definition, log, emit }: ExportPageDependencies,
  run: SlicedRun,
  execution: string,
  failures: readonly Failure[],
): Promise<void> {
  const all = failures.map(({ slice, error }) => {
    const { name, message } = error instanceof Error ? error : new Error(String(error));
    return { slice, error: name, message: truncate(message, maxMessageLength).toWellFormed() };
  });
  const setAside = all.length === 0 ? undefined : all.slice(0, maxSetAside);
  const known = new Set(run.slices.setAside?.map(({ slice }) => slice));
  if (isDeepStrictEqual(setAside, run.slices.setAside)) return;
  await updateState(log, definition.stateName, (state) => {
    const active = ownedRun(state, execution, definition.name, run.run);
    const { slices } = active;
    if (slices === undefined) return { result: undefined };
    return { change: { ...state, active: { ...active, slices: { ...slices, setAside } } }, result: undefined };
  });
  for (const each of all) {
    if (!known.has(each.slice)) emit({ event: 'slice-set-aside', export: run.export, run: run.run, ...each });
  }
}
