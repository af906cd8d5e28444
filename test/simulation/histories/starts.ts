/** Starts and stops executions: the schedule, which may deliver late and more than once, and operators. */

import { instantOf } from '../../../lib/core/timestamps.ts';
import type { ObservedExport } from '../invariants/observations.ts';
import type { World } from '../world/world.ts';
import type { Scenario } from './scenario.ts';

const minute = 60_000;

/** Schedules every start of the history, and what operators do. */
export function scheduleStarts(
  world: World,
  { start, faultsEndAt, lastStartAt, exports: { length: exportCount } }: Scenario,
  { name, label, stepFunctions, scenario }: ObservedExport,
): void {
  const { time } = world;
  const isOnly = exportCount === 1;
  // A service with one export needs no name.
  const named = isOnly && world.rng(`start input of ${label}`).chance(0.5) ? {} : { export: name };
  const startAt = (at: number, actor: string, execution: string, fields: object) => {
    const input = { ...named, ...fields };
    time.after(at - start, () => {
      world.log(actor, () => `starts ${execution} with ${JSON.stringify(input)}`);
      stepFunctions.start(execution, input);
    });
  };

  for (let tick = 1; start + tick * scenario.intervalMs <= lastStartAt; tick += 1) {
    const due = start + tick * scenario.intervalMs;
    const scheduledTime = instantOf(due);
    const execution = `${label}-${tick}`;
    const rng = world.rng(execution);
    const delayMs = world.injectFault('start-delayed', execution) ? rng.between(1, 90) * minute : 0;
    startAt(due + delayMs + rng.between(0, 2_000), 'scheduler', execution, { scheduledTime });
    if (!world.injectFault('start-repeated', execution)) continue;
    const repeatedAfterMs = rng.pick([0, rng.between(0, 3_000), rng.between(0, 40) * minute]);
    startAt(due + delayMs + repeatedAfterMs, 'scheduler', `${execution}-repeated`, { scheduledTime });
  }

  for (let at = start; at < faultsEndAt; at += 20 * minute) {
    const execution = `${label}-manual-${Math.round((at - start) / minute)}`;
    const rng = world.rng(execution);
    const moment = at + rng.between(0, 20) * minute;
    if (world.injectFault('manual-start', execution)) startAt(moment, 'operator', execution, {});
    if (world.injectFault('manual-restart', execution)) {
      startAt(moment, 'operator', `${execution}-restart`, { restart: true });
    }
    if (world.injectFault('manual-start-since', execution)) {
      const since = instantOf(Math.floor(moment - rng.between(0, 26) * 60 * minute));
      const input = rng.chance(0.5) ? { since } : { since, restart: true };
      startAt(moment, 'operator', `${execution}-since`, input);
    }
    if (world.injectFault('redrive', execution)) {
      const redriveRng = world.rng(`${execution}/redrive`);
      time.after(at - start + redriveRng.between(0, 20) * minute, () => {
        const ended = stepFunctions.executions.filter(({ status }) => status !== 'RUNNING' && status !== 'SUCCEEDED');
        if (ended.length > 0) stepFunctions.redrive(redriveRng.pick(ended.slice(-3)));
      });
    }
    if (!world.injectFault('execution-stopped', execution)) continue;
    time.after(moment - start, () => {
      const running = stepFunctions.executions.filter(({ status }) => status === 'RUNNING');
      if (running.length > 0) stepFunctions.stop(rng.pick(running));
    });
  }
}
