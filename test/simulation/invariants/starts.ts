/** Compares each start with what becomes of it: whether it begins or resumes a run, or why it is refused. */

import type { ExecutionEvent, SimulatedExecution } from '../step-functions/step-functions.ts';
import {
  boundedRuns,
  boundsOf,
  type Observations,
  type ObservedExport,
  overlaps,
  type StateItem,
  isBounded,
} from './observations.ts';

interface StartInput {
  readonly scheduledTime?: string;
  readonly since?: string;
  readonly slice?: string;
  readonly restart?: boolean;
  readonly continues?: string;
}

export interface StartChecks {
  /** Checks an export state before it is stored. */
  onState(observed: ObservedExport, state: StateItem, previous: StateItem | undefined): void;
  onEvent(event: ExecutionEvent, exportName: string): void;
}

/** The status that DescribeExecution returns may be this old. */
const descriptionLagMs = 5_000;

export function createStartChecks(observations: Observations): StartChecks {
  const { world, writer, findExecution, exports } = observations;
  /** Executions that have begun a run. */
  const begun = new Set<string>();
  /** Executions that have begun or resumed a run. */
  const owners = new Set<string>();
  /** By export: the scheduled times for which a run has begun, or was resumed. */
  const used = new Map<string, Set<string>>();
  /** By export: those when its newest run was completed. Those of a run that is abandoned may begin another one. */
  const settled = new Map<string, ReadonlySet<string>>();
  /** Executions whose run would have ended before it began, because of the lag. */
  const withoutPeriod = new Set<string>();
  /** When the first run of each export was completed. */
  const completedAt = new Map<string, number>();
  const usedTimes = (name: string) => used.get(name) ?? new Set();

  const checkBegin = (
    { name }: ObservedExport,
    input: StartInput,
    state: StateItem,
    previous: StateItem | undefined,
  ) => {
    const { scheduledTime } = input;
    if (scheduledTime !== undefined && previous?.active === undefined && usedTimes(name).has(scheduledTime)) {
      const details = `${name}: ${scheduledTime} begins ${state.active?.run}`;
      world.violate('one scheduled time begins one run', details);
    }
  };

  const overlapsAnother = ({ execution: { name, input } }: ExecutionEvent): boolean => {
    const [named = '', ...bounds] = ((input as { readonly export: string }).export ?? name).split('/');
    const { since = bounds[0] ?? '', until = bounds[1] ?? '' } = input as StartInput & { readonly until?: string };
    return boundedRuns(observations.dynamoDb(), named).some((run) =>
      overlaps(boundsOf(run), boundsOf({ since, until })),
    );
  };

  /** No run of the parents had been completed when the start looked. */
  const lacksParents = (reason: string, startedAt: number): boolean => {
    const [, listName] = /^export (\S+), whose reports are the parents, has no published run/.exec(reason) ?? [];
    return listName !== undefined && (completedAt.get(listName) ?? Number.POSITIVE_INFINITY) >= startedAt;
  };

  /** A bounded run is refused only by a wrong clock, with other slices than it has, or if it overlaps another one. */
  const checkBoundedStart = (event: ExecutionEvent) => {
    const { name, input, startedAt } = event.execution;
    const { continues } = (input ?? {}) as StartInput;
    const violate = (details: string) =>
      world.violate('a start is skipped or refused only for a documented reason', `${name} ${details}`);
    if (event.type === 'entered' && event.state === 'HasWork' && continues === undefined) {
      const { next, reason = '' } = event.data as { readonly next: string; readonly reason?: string };
      const isDocumented =
        /^(run \S+ has exported (these bounds|the children of this run)$|execution \S+ is still exporting run |this execution has had its run)/.test(
          reason,
        );
      if (next === 'skip' && !isDocumented && !lacksParents(reason, startedAt)) violate(`is skipped: ${reason}`);
    }
    if (event.type !== 'task-failed' || event.state !== 'BeginRun' || event.error !== 'ConfigurationError') return;
    const isDocumented =
      /until: must not be after |(one slice|minutes long) and would now be |may be published already/.test(
        event.cause,
      ) ||
      (/The bounds overlap the bounded /.test(event.cause) && overlapsAnother(event)) ||
      world.injectedFaults.some(({ kind }) => kind === 'request-changed');
    if (!isDocumented) violate(`is refused: ${event.cause}`);
  };

  const checkSkip = ({ arn, name, input, startedAt }: SimulatedExecution, exportName: string, reason: string) => {
    const { continues, restart, scheduledTime } = input as StartInput;
    if (continues !== undefined) return;
    if (reason.startsWith('this execution has had its run') && owners.has(arn)) return;
    if (
      /^there is nothing to export yet, because a run would start at \S+ and end at \S+, now less the lag$/.test(reason)
    ) {
      withoutPeriod.add(arn);
      const hasLag = (exports.get(exportName)?.versions ?? []).some(({ since }) => (since.lag ?? 0) > 0);
      if (hasLag) return;
    }
    if (lacksParents(reason, startedAt)) return void withoutPeriod.add(arn);
    if (restart === true && !begun.has(arn)) {
      world.violate('a start with restart begins a new run', `${name} is skipped: ${reason}`);
    }
    const [, running] = /^execution (\S+) is still exporting run /.exec(reason) ?? [];
    const other = running === undefined ? undefined : findExecution(running);
    const wasRunning =
      other !== undefined && (other.endedAt ?? Number.POSITIVE_INFINITY) > startedAt - descriptionLagMs;
    const isRepeated =
      reason.startsWith('a run for the scheduled time ') &&
      scheduledTime !== undefined &&
      [...usedTimes(exportName)].some((each) => each >= scheduledTime);
    if (!wasRunning && !isRepeated) {
      world.violate('a start is skipped or refused only for a documented reason', `${name} is skipped: ${reason}`);
    }
  };

  return {
    onState(observed, state, previous) {
      const { step, payload } = writer();
      const { active } = state;
      const { name } = observed;
      if (state.lastCompleted !== undefined && !completedAt.has(name)) completedAt.set(name, world.time.now());
      if (active === undefined && previous?.active !== undefined) {
        if (state.lastCompleted?.result.run === previous.active.run) settled.set(name, new Set(usedTimes(name)));
        else used.set(name, new Set(settled.get(name)));
      }
      if (step !== 'BeginRun' || active === undefined) return;
      const input = (payload.input ?? {}) as StartInput;
      owners.add(payload.execution);
      if (active.run !== previous?.active?.run) {
        begun.add(payload.execution);
        checkBegin(observed, input, state, previous);
      } else if (active.execution !== previous.active.execution) {
        if (input.since !== undefined && input.since !== active.since) {
          const details = `${name}: ${active.run} since ${active.since} is resumed by a start since ${input.since}`;
          world.violate('a start that contradicts an unfinished run is refused', details);
        }
        if (input.restart === true && active.startedBy !== payload.execution) {
          world.violate('a start with restart begins a new run', `${name}: ${active.run} is resumed`);
        }
      }
      if (input.scheduledTime !== undefined) used.set(name, usedTimes(name).add(input.scheduledTime));
    },

    onEvent(event, exportName) {
      const { execution } = event;
      if (isBounded(execution.input)) {
        checkBoundedStart(event);
        return;
      }
      const { restart, since, slice, continues } = (execution.input ?? {}) as StartInput;
      if (event.type === 'entered' && event.state === 'HasWork') {
        const { next, reason = '' } = event.data as { readonly next: string; readonly reason?: string };
        if (next === 'skip') checkSkip(execution, exportName, reason);
      }
      // Otherwise, nothing but a `since` can contradict a run, or the watermark.
      const isOfOtherRequest =
        world.injectedFaults.some(({ kind }) => kind === 'request-changed') &&
        event.type === 'task-failed' &&
        / was started with another request: |The watermark of export \S+ belongs to /.test(event.cause);
      const isRefused =
        event.type === 'task-failed' &&
        event.state === 'BeginRun' &&
        event.error === 'ConfigurationError' &&
        !isOfOtherRequest &&
        !(restart === true && event.cause.includes('may be published already'));
      // By a clock that was set back, or is behind; no start of a history has a `since` that is. But `initial` may be.
      const initial = exports.get(exportName)?.scenario.settings.since.initial;
      const isEarly = Date.parse(initial ?? '') > execution.startedAt;
      const isFuture = isRefused && (since !== undefined || isEarly) && / is in the future: /.test(event.cause);
      const isOfOtherSlices =
        isRefused && slice !== undefined && /(one slice|minutes long) and would now be /.test(event.cause);
      if (isRefused && !isFuture && !isOfOtherSlices && (since === undefined || restart === true)) {
        world.violate(
          'a start is skipped or refused only for a documented reason',
          `${execution.name} is refused: ${event.cause}`,
        );
      }
      const hasSucceeded = event.type === 'ended' && execution.status === 'SUCCEEDED';
      const isExcused = begun.has(execution.arn) || withoutPeriod.has(execution.arn);
      if (hasSucceeded && restart === true && continues === undefined && !isExcused) {
        world.violate('a start with restart begins a new run', `${execution.name} has begun none`);
      }
    },
  };
}
