/**
 * Makes an execution the owner of the run that it exports: reads what the decision depends on (`../start/decide.ts`),
 * decides, and records the decision by compare-and-set.
 *
 * A start with two bounds begins a bounded run, which has a state of its own (`../bounded-runs.ts`). Unless the
 * start has `again`, no other bounded run may overlap it.
 */

import { assertBoundable, assertNoOverlap, definitionOfStart, isBounded } from '../bounded-runs.ts';
import { selectionOf, selectsSame } from '../filter.ts';
import { type ExportState, type LoopState, periodOf, refOf, type Run } from '../model.ts';
import { exportedParents } from '../parents/run-parents.ts';
import type { StepDependencies } from '../ports.ts';
import { loopOf, readProgress } from '../run-progress.ts';
import { type Decision, decide, type Facts, relationTo, type Start, type UnfinishedRun } from '../start/decide.ts';
import { parseStartInput } from '../start/start-input.ts';
import { announceBeginning, identifyRun, updateState } from './export-state.ts';

type FactDependencies = Pick<StepDependencies, 'log' | 'executions' | 'runtime'>;
export type BeginRunDependencies = FactDependencies & Pick<StepDependencies, 'definition' | 'emit'>;

export type BeginRunOutcome =
  | ({ readonly next: 'export' | 'finish' } & LoopState)
  | {
      readonly next: 'skip';
      readonly export: string;
      readonly reason: string;
      /** Set if the bounds of a bounded run have been exported already. */
      readonly done?: true | undefined;
    };

/**
 * Makes `execution` the owner of the run that it is to export, and returns the page to start with. Repeated in the same
 * execution, it finds that run and returns the same.
 *
 * @throws ConfigurationError for an invalid start input, or one that contradicts an unfinished run
 */
export async function beginRun(
  deps: BeginRunDependencies,
  command: { readonly input: unknown; readonly execution: string },
): Promise<BeginRunOutcome> {
  const { emit, runtime } = deps;
  const { execution } = command;
  const input = parseStartInput(command.input);
  const definition = definitionOfStart(deps.definition, input);
  const { name, stateName } = definition;
  // A run that continues in a new execution has passed this check before.
  if (input.continues === undefined) {
    const { slice, parallel, skipParent } = input;
    assertBoundable(definition, { ...definition.bounds, slice, parallel, skipParent }, runtime.now());
  }

  const decision = await recordDecision(deps, { definition, input, execution });
  if (decision.kind === 'skip') {
    const { reason, cause } = decision;
    emit({ event: 'run-skipped', export: name, reason });
    return { next: 'skip', export: stateName, reason, done: cause === 'bounds are exported' ? true : undefined };
  }
  const { run, progress } = decision;
  const loop: LoopState = { ...loopOf(stateName, run, progress), iterations: 0, waits: input.waits ?? 0 };
  const about = {
    ...refOf(run),
    ...periodOf(run),
    slices: run.slices && progress.counts,
    executionNumber: run.executionNumber,
    page: loop.page,
    ...progress.totals,
  };
  if (decision.kind === 'begin' || decision.kind === 'replace')
    emit({ event: 'run-started', ...about, withoutJobsOf: decision.withoutJobsOf });
  else emit({ event: 'run-resumed', ...about });
  return { next: progress.isComplete ? 'finish' : 'export', ...loop };
}

type NewRun = Extract<Decision, { readonly kind: 'begin' | 'replace' }>;
type Accepted = Exclude<Decision, { readonly kind: 'refuse' }>;

/**
 * Decides what the start does, and records it. Decides again whenever the state has changed in the meantime.
 * @throws the error of a start that is refused
 */
async function recordDecision(deps: BeginRunDependencies, start: Start): Promise<Accepted> {
  const { definition } = start;
  return await updateState<Accepted>(deps.log, definition.stateName, async (state) => {
    const decision = decide(state, start, await readFacts(deps, state, start));
    switch (decision.kind) {
      case 'refuse':
        throw decision.error;
      case 'keep':
        return { result: decision };
      case 'skip':
        return { ...changeOfRunning(state, decision), result: decision };
      case 'resume':
        return { change: decision.state, result: decision };
      case 'begin':
      case 'replace': {
        const begun = isBounded(definition) ? await announceBounded(deps, state, start, decision) : decision;
        return { change: begun.state, result: begun };
      }
    }
  });
}

/** The change of a start that skips further parents of the run in progress. */
function changeOfRunning(state: ExportState, { skipped }: Extract<Decision, { readonly kind: 'skip' }>) {
  return state.active === undefined || skipped === undefined
    ? {}
    : { change: { ...state, active: { ...state.active, skipped } } };
}

/**
 * Announces the bounded run in the state of its export, which has the sequences of all runs, and makes sure that it
 * overlaps no other, unless the start has `again`. A run that replaces one with the same bounds and the same selection
 * is not checked again. Returns the decision with the run's sequence.
 * @throws ConfigurationError if a bounded run of the export overlaps it
 */
async function announceBounded(
  deps: BeginRunDependencies,
  { active }: ExportState,
  { definition, input, execution }: Start,
  decision: NewRun,
): Promise<NewRun> {
  const { stateName, request, bounds } = definition;
  const sequence = await announceBeginning(deps, { stateName, execution, minSequence: decision.run.sequence });
  const isReplacement = active !== undefined && selectsSame(selectionOf(active.request), request);
  if (bounds !== undefined && input.again !== true && !isReplacement) {
    await assertNoOverlap(deps.log, definition, bounds, new Set([stateName]));
  }
  const run = { ...decision.run, sequence };
  return { ...decision, run, state: { ...decision.state, sequence, active: run } };
}

/** Reads what the decision depends on. What a start does not need is not read, so it cannot fail the start. */
export async function readFacts(deps: FactDependencies, state: ExportState, start: Start): Promise<Facts> {
  const { executions, runtime } = deps;
  const { input, execution } = start;
  // `assertNotEnded` needs it.
  const needsOwnStatus = input.restart === true || input.since !== undefined;
  return {
    newRun: identifyRun(state, runtime),
    parentsStatus: await parentsStatusOf(deps, start),
    ownStatus: needsOwnStatus ? await executions.status(execution) : 'unknown',
    unfinished:
      state.active === undefined ? { kind: 'unread' } : await readUnfinished(deps, state, state.active, start),
  };
}

async function parentsStatusOf({ log }: FactDependencies, { definition }: Start): Promise<Facts['parentsStatus']> {
  const parents = exportedParents(definition);
  if (parents === undefined || parents.run !== undefined) return 'known';
  if (parents.listsChanges) return 'changes';
  return (await log.exportState(parents.export))?.lastCompleted === undefined ? 'none' : 'known';
}

/**
 * Reads the progress of the unfinished run, unless the start says what becomes of the run: a damaged page log must not
 * keep a start with `restart` from abandoning it.
 */
async function readUnfinished(
  { log, executions }: FactDependencies,
  state: ExportState,
  active: Run,
  start: Start,
): Promise<UnfinishedRun> {
  const { definition } = start;
  const relation = relationTo(active, state, start);
  const isDecided = relation === 'was superseded' || relation === 'has had its run' || relation === 'restarts';
  if (isDecided) return { kind: 'unread' };
  // The status is read before the progress, which is final only if the execution has ended.
  const isRunning = relation === 'may resume' && (await executions.status(active.execution)) === 'running';
  if (isRunning) return { kind: 'running' };
  // The state of a bounded run does not have the root of completed runs.
  const exportState = !isBounded(definition) ? state : await log.exportState(definition.name);
  const hasKnownRoot = (definition.documentRoot ?? exportState?.documentRoot) !== undefined;
  return { kind: 'read', progress: await readProgress(log, active), hasKnownRoot };
}
