/** Operators start bounded runs beside the scheduled ones, and again, and complete what they have begun. */

import { instantOf } from '../../../lib/core/timestamps.ts';
import type { Completion, ObservedExport } from '../invariants/observations.ts';
import type { FaultKind } from '../world/faults.ts';
import type { World } from '../world/world.ts';
import { operatorMoments, type Scenario } from './scenario.ts';

const minute = 60_000;
const hour = 60 * minute;

interface BoundedInput {
  readonly since: string;
  readonly until: string;
  readonly parallel?: number;
  readonly slice?: string | undefined;
}

const kinds = ['bounded-start', 'bounded-start-again', 'bounded-restart'] as const satisfies readonly FaultKind[];

/** Few bounds, so that several starts have the same. They are before any moment to which a clock may be set. */
export function scheduleBoundedRuns(
  world: World,
  scenario: Pick<Scenario, 'start' | 'faultsEndAt' | 'fewStarts' | 'exports' | 'deployment'>,
  {
    name,
    label,
    stepFunctions,
    scenario: { service, settings, reports },
  }: Pick<ObservedExport, 'name' | 'label' | 'stepFunctions' | 'scenario'>,
  completions: readonly Completion[],
): void {
  const { start, faultsEndAt, deployment } = scenario;
  scheduleChildren(world, scenario, { name, label, stepFunctions, listName: settings.parents?.export }, completions);
  if (!deployment.hasUpperBound || reports.listed !== undefined) return;
  const { time } = world;
  /** The first input with each bounds, in the order in which they were started. */
  const started = new Map<string, BoundedInput>();
  const startNow = (execution: string, input: BoundedInput, flags: object) => {
    const key = `${input.since} ${input.until}`;
    if (!started.has(key)) started.set(key, input);
    // As JSON: without what is undefined.
    const all = JSON.parse(JSON.stringify({ export: name, ...input, ...flags })) as object;
    world.log('operator', () => `starts ${execution} with ${JSON.stringify(all)}`);
    stepFunctions.start(execution, all);
  };

  const from = Math.floor((start + Math.min(0, service.skewMs)) / 1_000) * 1_000 - 26 * hour;
  for (const { name: moment, at, withinMs } of operatorMoments(scenario, {
    everyMs: 40 * minute,
    withinMs: 40 * minute,
  })) {
    for (const kind of scenario.fewStarts === undefined ? kinds : (['bounded-start'] as const)) {
      const execution = `${label}-${kind}-${moment}`;
      if (!world.injectFault(kind, execution)) continue;
      const rng = world.rng(execution);
      const since = from + rng.integerBelow(2) * 6 * hour;
      const input: BoundedInput = {
        since: instantOf(since),
        until: instantOf(since + rng.pick([4, 6, 12]) * hour + rng.pick([0, 0, 7_000])),
        ...(rng.chance(0.6) ? { parallel: Math.min(rng.pick([1, 2, 4]), deployment.maxConcurrentPages ?? 4) } : {}),
        // Parents are slices without a length.
        ...(rng.chance(0.3) && deployment.parents === undefined ? { slice: rng.pick(['PT1H', 'PT2H']) } : {}),
      };
      const flags = kind === 'bounded-restart' ? { restart: true } : { again: kind === 'bounded-start-again' };
      time.after(at + rng.between(0, withinMs) - time.now(), () => startNow(execution, input, flags));
    }
  }
  // The same start completes what is unfinished. Without `slice`: a run that has begun keeps its cuts.
  [150, 210, 270, 330].forEach((minutes, attempt) =>
    time.after(faultsEndAt + minutes * minute - time.now(), () => {
      [...started.values()].forEach((input, index) =>
        startNow(`${label}-bounded-${index}-completed-${attempt}`, { ...input, slice: undefined }, {}),
      );
    }),
  );
}

/** Operators start the children of one run, and again, and complete what they have begun. */
function scheduleChildren(
  world: World,
  scenario: Parameters<typeof scheduleBoundedRuns>[1],
  {
    name,
    label,
    stepFunctions,
    listName,
  }: Pick<ObservedExport, 'name' | 'label' | 'stepFunctions'> & { readonly listName: string | undefined },
  completions: readonly Completion[],
): void {
  const { time } = world;
  if (listName === undefined) return;
  const started = new Set<string>();
  const startNow = (execution: string, input: object) => {
    const all = { export: name, ...input };
    world.log('operator', () => `starts ${execution} with ${JSON.stringify(all)}`);
    stepFunctions.start(execution, all);
  };
  for (const { name: moment, at, withinMs } of operatorMoments(scenario, {
    everyMs: 40 * minute,
    withinMs: 40 * minute,
  })) {
    const execution = `${label}-children-${moment}`;
    if (!world.injectFault('children-start', execution)) continue;
    const rng = world.rng(execution);
    time.after(at + rng.between(0, withinMs) - time.now(), () => {
      const runs = completions.filter(({ stateName, isPublished }) => stateName === listName && isPublished);
      if (runs.length === 0) return;
      const { run: parents } = rng.pick(runs.slice(-3));
      started.add(parents);
      startNow(execution, { parents, ...rng.pick([{}, {}, { again: true }, { restart: true }]) });
    });
  }
  [150, 210, 270, 330].forEach((minutes, attempt) =>
    time.after(scenario.faultsEndAt + minutes * minute - time.now(), () => {
      [...started].forEach((parents, index) =>
        startNow(`${label}-children-${index}-completed-${attempt}`, { parents }),
      );
    }),
  );
}
