/** Starts and stops executions: the schedule, which may deliver late and more than once, and operators. */

import { instantOf } from '../../../lib/core/timestamps.ts';
import type { ObservedExport } from '../invariants/observations.ts';
import type { SimulatedExecution } from '../step-functions/step-functions.ts';
import type { World } from '../world/world.ts';
import type { FewStarts, Scenario } from './scenario.ts';

const minute = 60_000;

/** Schedules every start of the history, and what operators do. Returns what tells when the last start was due. */
export function scheduleStarts(
  world: World,
  { start, faultsEndAt, lastStartAt, fewStarts, deployment, exports: { length: exportCount } }: Scenario,
  { name, label, stepFunctions, scenario }: ObservedExport,
  abandon: (exportName: string) => Promise<void>,
): () => number {
  const { time } = world;
  const isOnly = exportCount === 1;
  // A service with one export needs no name.
  const named = isOnly && world.rng(`start input of ${label}`).chance(0.5) ? {} : { export: name };
  const startAt = (at: number, actor: string, execution: string, fields: object) => {
    const input = { ...named, ...fields };
    time.after(at - time.now(), () => {
      world.log(actor, () => `starts ${execution} with ${JSON.stringify(input)}`);
      stepFunctions.start(execution, input);
    });
  };

  const dueAt = (tick: number) => start + tick * scenario.intervalMs;
  const startOnSchedule = (tick: number) => {
    const due = dueAt(tick);
    const scheduledTime = instantOf(due);
    const execution = `${label}-${tick}`;
    const rng = world.rng(execution);
    const delayMs = world.injectFault('start-delayed', execution) ? rng.between(1, 90) * minute : 0;
    startAt(due + delayMs + rng.between(0, 2_000), 'scheduler', execution, { scheduledTime });
    if (!world.injectFault('start-repeated', execution)) return;
    const repeatedAfterMs = rng.pick([0, rng.between(0, 3_000), rng.between(0, 40) * minute]);
    startAt(due + delayMs + repeatedAfterMs, 'scheduler', `${execution}-repeated`, { scheduledTime });
  };
  const operate = (moment: string, at: number, withinMinutes: number) => {
    const execution = `${label}-manual-${moment}`;
    const rng = world.rng(execution);
    const dueMoment = at + rng.between(0, withinMinutes) * minute;
    if (world.injectFault('manual-start', execution)) startAt(dueMoment, 'operator', execution, {});
    if (world.injectFault('manual-restart', execution)) {
      startAt(dueMoment, 'operator', `${execution}-restart`, { restart: true });
    }
    if (world.injectFault('manual-start-since', execution)) {
      // Often after what is covered of some parents.
      const hours = scenario.settings.parents?.export === undefined ? 26 : 2;
      const since = instantOf(Math.floor(dueMoment - rng.between(0, hours) * 60 * minute));
      const input = rng.chance(0.5) ? { since } : { since, restart: true };
      startAt(dueMoment, 'operator', `${execution}-since`, input);
    }
    if (world.injectFault('manual-abandon', execution)) {
      time.after(dueMoment - time.now(), () => void abandon(name));
    }
    const mayBeSliced = deployment.hasUpperBound && scenario.reports.listed === undefined;
    if (mayBeSliced && world.injectFault('manual-start-sliced', execution)) {
      const slicedRng = world.rng(`${execution}/sliced`);
      const input = {
        parallel: Math.min(slicedRng.pick([1, 2, 4]), deployment.maxConcurrentPages ?? 4),
        ...(slicedRng.chance(0.5) && deployment.parents === undefined
          ? { slice: slicedRng.pick(['PT1H', 'PT4H']) }
          : {}),
      };
      startAt(dueMoment, 'operator', `${execution}-sliced`, input);
    }
    if (world.injectFault('redrive', execution)) {
      const redriveRng = world.rng(`${execution}/redrive`);
      time.after(at + redriveRng.between(0, withinMinutes) * minute - time.now(), () => {
        const ended = stepFunctions.executions.filter(({ status }) => status !== 'RUNNING' && status !== 'SUCCEEDED');
        if (ended.length > 0) stepFunctions.redrive(redriveRng.pick(ended.slice(-3)));
      });
    }
    if (!world.injectFault('execution-stopped', execution)) return;
    time.after(dueMoment - time.now(), () => {
      const running = stepFunctions.executions.filter(({ status }) => status === 'RUNNING');
      if (running.length > 0) stepFunctions.stop(rng.pick(running));
    });
  };

  if (fewStarts !== undefined) {
    const { operatorDelaysMs } = fewStarts;
    const act = (tick: number) => {
      startOnSchedule(tick);
      for (const ms of operatorDelaysMs) {
        time.after(ms, () => operate(`${tick}-${ms / 1_000}s`, time.now(), 0));
      }
    };
    return startUntilUpToDate(world, fewStarts, dueAt, stepFunctions.executions, act);
  }
  for (let tick = 1; dueAt(tick) <= lastStartAt; tick += 1) startOnSchedule(tick);
  for (let at = start; at < faultsEndAt; at += 20 * minute) operate(String(Math.round((at - start) / minute)), at, 20);
  return () => lastStartAt;
}

/**
 * Starts at one tick after the other. If all is idle when a start is due and every execution since the previous start
 * has succeeded, then faults have left nothing that this start could meet: no fault occurs from then on. If all is idle
 * again at the next start, the export is up to date, and the starts end. With `faultsInOrdinaryStarts`, this begins
 * with the first fault.
 */
function startUntilUpToDate(
  world: World,
  { ticks, faultsInOrdinaryStarts }: FewStarts,
  dueAt: (tick: number) => number,
  executions: readonly SimulatedExecution[],
  act: (tick: number) => void,
): () => number {
  const { time } = world;
  let lastStartAt = time.now();
  const isUpToDate = () => {
    const recent = executions.filter(({ startedAt }) => startedAt >= lastStartAt);
    return recent.length > 0 && recent.every(({ status }) => status === 'SUCCEEDED') && time.isIdle();
  };
  let isLastStart = false;
  const schedule = ([tick, ...later]: readonly number[]) => {
    if (tick === undefined) return;
    time.after(dueAt(tick) - time.now(), () => {
      if ((world.injectedFaults.length > 0 || !faultsInOrdinaryStarts) && isUpToDate()) {
        if (isLastStart) return;
        isLastStart = true;
        world.endFaults();
      }
      lastStartAt = time.now();
      act(tick);
      schedule(later);
    });
  };
  schedule(ticks);
  return () => lastStartAt;
}
