/**
 * Decides what a start does: begin a run, resume the unfinished one, or nothing. Everything that the decision depends
 * on has been read before, so it is a function of its arguments.
 *
 * An export has at most one unfinished run, recorded in its state. A start is skipped while the run's execution is
 * running. If that execution has ended, the start takes the run over and resumes it after its last logged page. An
 * execution begins one run at most.
 */

import { exportedBy, isBounded } from '../bounded-runs.ts';
import { ExportError, isExportError } from '../errors.ts';
import { hasTooFewReports } from '../expected-reports.ts';
import { selectionOf, selectsSame } from '../filter.ts';
import { type ExportDefinition, type ExportState, type Instant, type Parents, type Run, totalsOf } from '../model.ts';
import { exportedParents } from '../parents/run-parents.ts';
import type { Executions } from '../ports.ts';
import { generationOf, noProgress, type OpenSlice, type RunProgress, WalkedSlices } from '../run-progress.ts';
import { chooseSlices, maxSkipped, numberOf, sliceOf } from '../slices.ts';
import { epochMsOf } from '../timestamps.ts';
import { contradictionOf } from './contradiction.ts';
import type { StartInput } from './start-input.ts';
import { chooseBounds, type ChosenBounds, chooseUntil, firstStartOf } from './watermark.ts';

export interface Start {
  /** The definition of the export, or of the bounded run that the start names. */
  readonly definition: ExportDefinition;
  readonly input: StartInput;
  /** The execution that was started. */
  readonly execution: string;
}

/** Facts read after the state, as far as the decision needs them (`readFacts` in `../steps/begin-run.ts`). */
export interface Facts {
  /** The identity of a run that would begin now. */
  readonly newRun: Pick<Run, 'run' | 'sequence' | 'startedAt'>;
  /**
   * Whether a published run has the parents. `none`: their export has no published run. `changes`: its newest run has
   * only the parents that have changed.
   */
  readonly parentsStatus: 'known' | 'none' | 'changes';
  /** The status of the started execution. Read only for a start with `restart` or `since`. */
  readonly ownStatus: ExecutionStatus;
  readonly unfinished: UnfinishedRun;
}

type ExecutionStatus = Awaited<ReturnType<Executions['status']>>;

/** The unfinished run, as far as it was read. */
export type UnfinishedRun =
  /** There is none, or the start says what becomes of it. */
  | { readonly kind: 'unread' }
  /** Its execution is running. */
  | { readonly kind: 'running' }
  | {
      readonly kind: 'read';
      readonly progress: RunProgress;
      /** Whether the settings or a completed run say which root the pages have. */
      readonly hasKnownRoot: boolean;
    };

/** `state` is the state of the export once the decision is recorded. */
export type Decision =
  | {
      readonly kind: 'skip';
      readonly cause: SkipCause;
      readonly reason: string;
      /** The parents that the run in progress skips, if the start changes them. */
      readonly skipped?: Run['skipped'];
    }
  /** The name of the error says whether the step is retried. */
  | { readonly kind: 'refuse'; readonly error: ExportError }
  /** The execution owns the run already: an earlier attempt of this step has recorded it. */
  | { readonly kind: 'keep'; readonly run: Run; readonly progress: RunProgress }
  /** The execution takes the run over. */
  | { readonly kind: 'resume'; readonly run: Run; readonly progress: RunProgress; readonly state: ExportState }
  /** A new run. With `replace`, the unfinished run never completes. `reason`: why the run starts at its `since`. */
  | {
      readonly kind: 'begin' | 'replace';
      readonly run: Run;
      readonly progress: RunProgress;
      readonly reason: string;
      readonly state: ExportState;
      /** The run that it replaces, if that has report jobs. */
      readonly withoutJobsOf?: Run['run'] | undefined;
    };

type SkipCause =
  | 'run has ended'
  | 'run was taken over'
  | 'scheduled time is repeated'
  | 'bounds are exported'
  | 'run is in progress'
  | 'execution has had its run'
  | 'nothing to export yet'
  | 'parents are not known';

interface Situation extends Start, Facts {
  readonly state: ExportState;
}

/** Decides what the start does. A refusal is a decision, not an exception. */
export function decide(state: ExportState, start: Start, facts: Facts): Decision {
  const situation = { state, ...start, ...facts };
  try {
    return state.active === undefined ? decideWithoutRun(situation) : decideWithRun(situation, state.active);
  } catch (error) {
    if (isExportError(error)) return { kind: 'refuse', error };
    throw error;
  }
}

function decideWithoutRun(situation: Situation): Decision {
  const { state, definition, input } = situation;
  const { continues, scheduledTime, again } = input;
  if (continues !== undefined) return skip('run has ended', `the run of execution ${continues} has ended`);
  if (scheduledTime !== undefined && hasBegun(scheduledTime, state.lastScheduledTime)) {
    const reason = `a run for the scheduled time ${scheduledTime}, or a later one, has already begun`;
    return skip('scheduled time is repeated', reason);
  }
  const exported = isBounded(definition) ? exportedBy(state, definition.request) : undefined;
  if (exported !== undefined && again !== true) {
    const what = definition.bounds === undefined ? 'the children of this run' : 'these bounds';
    return skip('bounds are exported', `run ${exported.result.run} has exported ${what}`);
  }
  return begin(situation);
}

/**
 * How a start relates to the unfinished run.
 * - `owns`: its execution owns the run already.
 * - `continues`: its execution is the next one of the run. `was superseded`: it would be, but the run was taken over.
 * - `has had its run`: its execution has begun another run, or has resumed a run that it no longer owns, perhaps this.
 * - `restarts`: it abandons the run.
 * - `may resume`: it takes the run over if the run's execution has ended.
 */
type Relation = 'owns' | 'continues' | 'was superseded' | 'has had its run' | 'restarts' | 'may resume';

export function relationTo(
  active: Run,
  { recentExecutions = [] }: Pick<ExportState, 'recentExecutions'>,
  { input, execution }: Pick<Start, 'input' | 'execution'>,
): Relation {
  if (active.execution === execution) return 'owns';
  if (input.continues !== undefined) return input.continues === active.execution ? 'continues' : 'was superseded';
  // A duplicate invocation must not abandon the run that its own execution has begun, although another one owns it now.
  if (active.startedBy === execution) return 'may resume';
  if (recentExecutions.includes(execution)) return 'has had its run';
  return input.restart === true ? 'restarts' : 'may resume';
}

function decideWithRun(situation: Situation, active: Run): Decision {
  const { state, execution, unfinished } = situation;
  switch (relationTo(active, state, situation)) {
    case 'owns':
      return { kind: 'keep', run: active, progress: assertRead(unfinished).progress };
    case 'continues':
      return resume(state, takeOver(active, execution), assertRead(unfinished).progress);
    case 'was superseded':
      return skip('run was taken over', `run ${active.run} now belongs to execution ${active.execution}`);
    case 'has had its run':
      return skip('execution has had its run', noSecondRun);
    case 'restarts':
      assertMayBeAbandoned(active, state);
      return begin(situation);
    case 'may resume':
      return unfinished.kind === 'running' ? skipRunning(situation, active) : decideWithEndedRun(situation, active);
  }
}

/** The run's execution continues with what it exports, but without the parents that the start skips. */
function skipRunning({ definition, input }: Situation, active: Run): Decision {
  const reason = `execution ${active.execution} is still exporting run ${active.run}`;
  if (definition.parents === undefined || input.skipParent === undefined) return skip('run is in progress', reason);
  const what = 'It skips the parents that the start names, unless it has all their pages already';
  return { ...skip('run is in progress', `${reason}. ${what}`), skipped: withSkipped(active.skipped, input) };
}

/** The parents that the run skips. @throws ConfigurationError if they are too many */
function withSkipped(before: Run['skipped'] = [], { skipParent = [] }: StartInput): Run['skipped'] {
  const skipped = [...new Set([...before, ...skipParent])];
  if (skipped.length === 0) return undefined;
  if (skipped.length <= maxSkipped) return skipped;
  const problem = `the run would skip ${skipped.length} parents, and may skip ${maxSkipped}`;
  throw new ExportError(
    'ConfigurationError',
    `skipParent: ${problem}. Correct what fails them, or export without them`,
  );
}

/** The run's execution is not running, as far as is known. */
function decideWithEndedRun(situation: Situation, active: Run): Decision {
  const { state, definition, input, execution } = situation;
  const unfinished = assertRead(situation.unfinished);
  const { progress } = unfinished;
  // A new run may find the reports that are missing.
  if (hasTooFewReports(definition, active, progress)) return begin(situation);
  const contradiction = contradictionOf(active, progress.isComplete, definition, input);
  const skipped = withSkipped(active.skipped, input);
  const taken = { ...takeOver(active, execution, input.scheduledTime), skipped };
  const resumed = resumeSlices(taken, situation);
  // A new run also exports the reports that have appeared since. Not if the run is bounded (a new one exports the
  // same), has jobs (a new run creates others), or has a completed pass (which would be lost).
  const isNewBetter = !isBounded(definition) && definition.job === undefined && resumed.run.passes === undefined;
  const isReplaceable = isNewBetter || contradiction !== undefined;
  const isDoubtful = !unfinished.hasKnownRoot && isRootDoubtful(unfinished.progress);
  if (isDoubtful || (hasNoResult(resumed.progress) && isReplaceable)) return begin(situation, active);
  if (contradiction !== undefined) return { kind: 'refuse', error: contradiction };
  return resume({ ...state, recentExecutions: withExecution(state, execution) }, resumed.run, resumed.progress);
}

/**
 * Whether the run has no page, and no chain that ended without reports. Then nothing is lost if another run replaces
 * it. Gone and skipped parents do not count: a wrong request may be why parents seem gone.
 */
function hasNoResult({ totals, counts }: RunProgress): boolean {
  const { gone = 0, skipped = 0 } = counts.parents ?? {};
  return totals.pages === 0 && counts.done === gone + skipped;
}

/**
 * A run that is being published must not be abandoned: consumers may have read its manifest. Unless its pages were
 * changed, so that it cannot be completed.
 * @throws ConfigurationError
 */
export function assertMayBeAbandoned(
  { run, export: name, completion, lastFailure }: Run,
  { failedStart }: ExportState,
): void {
  const hasConflict = [lastFailure, failedStart].some((failure) => failure?.error === 'PageConflictError');
  if (completion?.isPublished !== true || hasConflict) return;
  throw new ExportError(
    'ConfigurationError',
    `Run ${run} of export ${name} has all its pages and may be published already, so it can no longer be abandoned. ` +
      'Start without --restart to complete it. After that, a start begins a new run',
  );
}

/**
 * The run and its progress once a start resumes it. A slice starts over if its pages repeat, or if its cursors were
 * rejected too often. Rejections are counted from zero again.
 */
function resumeSlices(taken: Run, situation: Situation): { run: Run; progress: RunProgress } {
  const { definition, input } = situation;
  const { progress } = assertRead(situation.unfinished);
  const startsOver = ({ slice, last }: OpenSlice): boolean => {
    const rejections = taken.restarts?.[numberOf(slice)] ?? 0;
    return last?.repeats === true || rejections > definition.limits.maxCursorRestarts;
  };
  const restarted = progress.open.filter(startsOver).map(({ slice }) => numberOf(slice));
  const resumed: Run = {
    ...taken,
    slices: taken.slices && { ...taken.slices, parallel: input.parallel ?? definition.slicing.parallel },
    restarts: undefined,
  };
  // The root of pages that no longer count stays known.
  const documentRoot = progress.documentRoot ?? resumed.documentRoot;
  const run = restarted.length === 0 ? resumed : withNextAttempts({ ...resumed, documentRoot }, restarted);
  const open = progress.open.map((each) =>
    startsOver(each) ? { slice: sliceOf(run, numberOf(each.slice)), last: undefined } : each,
  );
  return { run, progress: new WalkedSlices(run, progress, open).get(progress, progress.record) };
}

/** The run with the next attempts of these slices. No pass before counts for them. */
function withNextAttempts(run: Run, numbers: readonly number[]): Run {
  const next = numbers.map((number) => [number, (run.attempts?.[number] ?? 1) + 1]);
  const passes = Object.entries(run.passes ?? {}).filter(([number]) => !numbers.includes(Number(number)));
  return {
    ...run,
    generation: generationOf(run) + 1,
    attempts: { ...run.attempts, ...Object.fromEntries(next) },
    passes: passes.length === 0 ? undefined : Object.fromEntries(passes),
  };
}

/**
 * Whether the first pages of a run without a known root may be error documents with status 200. Every real page is then
 * refused, as it has another root, so no slice has a second page. A new run has to find out which root is right.
 */
function isRootDoubtful({ failures, counts, done, gone, skipped, open, documentRoot }: RunProgress): boolean {
  const wasRefused = failures.some(({ isOtherRoot }) => isOtherRoot);
  const completeWithPages = counts.done - gone - skipped;
  const hasSecondPage = done.pages > completeWithPages || open.some(({ last }) => totalsOf(last).pages > 1);
  return wasRefused && !hasSecondPage && documentRoot !== null;
}

const skip = (cause: SkipCause, reason: string): Extract<Decision, { readonly kind: 'skip' }> => ({
  kind: 'skip',
  cause,
  reason,
});

function assertRead(unfinished: UnfinishedRun): Extract<UnfinishedRun, { readonly kind: 'read' }> {
  if (unfinished.kind === 'read') return unfinished;
  throw new Error(`The decision needs the progress of the unfinished run, which is ${unfinished.kind}`);
}

function resume(state: ExportState, run: Run, progress: RunProgress): Decision {
  const lastScheduledTime = newestScheduledTime(run.scheduledTime, state);
  return { kind: 'resume', run, progress, state: { ...state, active: run, lastScheduledTime, failedStart: undefined } };
}

/**
 * Begins a run, unless this execution has begun or resumed one before: a suspended invocation may continue after its
 * execution has ended, and no execution would export a second run. With `replacedRun`, the new run takes over its
 * `since` (`boundsOfReplacedRun`).
 */
function begin(situation: Situation, replacedRun?: Run): Decision {
  const { state, definition, input, execution, newRun } = situation;
  if (state.recentExecutions?.includes(execution)) return skip('execution has had its run', noSecondRun);
  const unknownParents = reasonWithoutParents(situation);
  if (unknownParents !== undefined) return skip('parents are not known', unknownParents);
  assertNotEnded(situation);
  const now = epochMsOf(newRun.startedAt);
  const { since, until, reason } =
    boundsOfReplacedRun(replacedRun, definition, input, now) ?? chooseBounds(definition, state, input, now);
  if (until !== undefined && epochMsOf(until) <= epochMsOf(since)) {
    const period = `a run would start at ${since} and end at ${until}, now less the lag`;
    return skip('nothing to export yet', `there is nothing to export yet, because ${period}`);
  }
  // The start of the run that is replaced may have named it.
  const wasNamed = replacedRun?.parents?.coverage?.isSinceNamed === true && since === replacedRun.since;
  const isSinceNamed = input.since !== undefined || wasNamed;
  const skipped = withSkipped(replacedRun?.skipped, input);
  const run = { ...newRunOf(situation, { since, until, isSinceNamed }), skipped };
  const next: ExportState = {
    ...state,
    sequence: run.sequence,
    active: run,
    lastScheduledTime: newestScheduledTime(input.scheduledTime, state),
    firstStart: isBounded(definition) ? undefined : firstStartOf(definition, state, input, now),
    recentExecutions: withExecution(state, execution),
    failedStart: undefined,
  };
  const kind = state.active === undefined ? 'begin' : 'replace';
  return { kind, run, progress: noProgress(run), reason, state: next, withoutJobsOf: runWithJobs(state) };
}

const runWithJobs = ({ active }: ExportState): Run['run'] | undefined =>
  active?.hasJobs === true ? active.run : undefined;

function reasonWithoutParents({ definition, parentsStatus }: Situation): string | undefined {
  const parents = exportedParents(definition);
  if (parents === undefined || parentsStatus === 'known') return undefined;
  return parentsStatus === 'none'
    ? `export ${parents.export}, whose reports are the parents, has no published run. Start it first`
    : `the newest run of ${parents.export} has changes only, not all parents. Start the children of one of its runs with --parents RUN`;
}

function newRunOf(
  { state, definition, input, execution, newRun }: Situation,
  { since, until, isSinceNamed }: Pick<ChosenBounds, 'since' | 'until'> & { readonly isSinceNamed: boolean },
): Run {
  const { name, request, compression, lagMs, slicing, parents, dates } = definition;
  const chosen = { parallel: input.parallel ?? slicing.parallel, lengthMs: input.slice ?? slicing.lengthMs };
  const period = { since, until, startedAt: newRun.startedAt };
  return {
    export: name,
    ...newRun,
    since,
    until,
    bounded: isBounded(definition) ? true : undefined,
    lagMs,
    ...(parents === undefined
      ? { slices: chooseSlices(period, chosen, dates, state.lastCompleted) }
      : chainsOfParents(definition, parents, {
          parallel: chosen.parallel,
          named: isSinceNamed ? { since, watermark: state.watermark } : undefined,
        })),
    ...(definition.job !== undefined && { hasJobs: true as const }),
    request,
    compression,
    startedBy: execution,
    execution,
    executionNumber: 1,
    scheduledTime: input.scheduledTime,
  };
}

/** The slices of the values; or what is known of the parents before their plan is made. */
function chainsOfParents(
  definition: ExportDefinition,
  parents: Parents,
  { parallel, named }: { readonly parallel: number; readonly named: NamedSince | undefined },
): Pick<Run, 'slices' | 'parents'> {
  if ('values' in parents) return { slices: { count: parents.values.length, parallel } };
  const { export: name, run, hasCoverage } = parents;
  const { since } = definition;
  const isCovered = hasCoverage && since.from === 'watermark' && !isBounded(definition);
  const coverage = isCovered
    ? {
        overlapMs: since.overlapMs,
        initial: named === undefined ? since.initial : firstSince(definition, since.initial, named),
        isSinceNamed: named === undefined ? undefined : (true as const),
      }
    : undefined;
  return { parents: { export: name, run, isNamed: run === undefined ? undefined : true, parallel, coverage } };
}

/** The `since` that a start names, and the watermark before. */
interface NamedSince extends Pick<Run, 'since'> {
  readonly watermark: ExportState['watermark'];
}

/**
 * Where the chains of parents without coverage begin after a start that names a `since`. They begin at `since.initial`:
 * a later beginning would leave a gap. At the named `since` if there is neither `since.initial` nor a watermark, or if
 * the watermark is that of other reports.
 */
function firstSince(
  { request }: Pick<ExportDefinition, 'request'>,
  initial: Instant | undefined,
  { since, watermark }: NamedSince,
): Instant | undefined {
  if (watermark === undefined) return initial ?? since;
  return selectsSame(watermark, request) ? initial : since;
}

/**
 * The bounds of a run that replaces another one. The `since` stays, because an operator may have named it,
 * unless the start names another one, or the settings now select other reports. Undefined: nothing is taken over.
 */
function boundsOfReplacedRun(
  replacedRun: Run | undefined,
  definition: ExportDefinition,
  input: StartInput,
  now: number,
): ChosenBounds | undefined {
  if (replacedRun === undefined || input.since !== undefined || isBounded(definition)) return undefined;
  const { run, since, request } = replacedRun;
  if (!selectsSame(selectionOf(request), definition.request)) return undefined;
  const reason = `the since of run ${run}, which is replaced`;
  return { since, until: chooseUntil(definition, now), reason };
}

const noSecondRun = 'this execution has had its run, and begins no other';

/** An invocation is no longer recognized if it is suspended while so many executions begin or resume a run. */
const maxRecentExecutions = 10;

function withExecution({ recentExecutions = [] }: ExportState, execution: string): readonly string[] {
  return [execution, ...recentExecutions.filter((each) => each !== execution)].slice(0, maxRecentExecutions);
}

/**
 * An execution that has ended must not abandon a run, or begin one at a `since` that an operator named earlier. Any
 * other run that it begins does no harm: the next start resumes it.
 * @throws ServiceUnavailableError, which is retried: the status of a redriven execution may be out of date
 */
function assertNotEnded({ definition, execution, ownStatus }: Situation): void {
  if (ownStatus !== 'ended') return;
  throw new ExportError(
    'ServiceUnavailableError',
    `Execution ${execution} has ended, so it begins no run of export ${definition.stateName}. If it was redriven, the attempt is retried`,
  );
}

/**
 * The scheduler repeats a start for at most an hour. A recorded time that is later than a start's by more than a day
 * was not sent by a schedule, and does not block the start.
 */
const maxRepeatDelayMs = 86_400_000;

/**
 * Whether a run for this scheduled time, or for a later one, has begun: the scheduler may deliver a time late, or
 * more than once.
 */
function hasBegun(scheduledTime: string, newest: string | undefined): boolean {
  if (newest === undefined) return false;
  if (newest === scheduledTime) return true;
  // NaN if one of the texts is no date. Then only the same text is a repetition.
  const laterByMs = Date.parse(newest) - Date.parse(scheduledTime);
  return laterByMs > 0 && laterByMs <= maxRepeatDelayMs;
}

const newestScheduledTime = (time: string | undefined, { lastScheduledTime }: ExportState): string | undefined =>
  time === undefined || hasBegun(time, lastScheduledTime) ? lastScheduledTime : time;

function takeOver(run: Run, execution: string, scheduledTime = run.scheduledTime): Run {
  return { ...run, execution, executionNumber: run.executionNumber + 1, scheduledTime, lastFailure: undefined };
}
