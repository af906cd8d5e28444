/** Who starts and stops executions: the schedule, which may deliver late and more than once, and people. */

import { instantOf } from '../../../lib/core/timestamps.ts';
import type { World } from '../world/world.ts';
import type { Exported } from './history.ts';
import type { Setting } from './scenario.ts';

const minute = 60_000;

/** Puts every start of the history, and what people do, on the world's timeline. */
export function makeStarts(world: World, setting: Setting, { name, machine, setting: { everyMs } }: Exported): void {
  const { time } = world;
  const startAt = (at: number, who: string, execution: string, input: unknown) => {
    time.after(at - setting.start, () => {
      world.tell(who, () => `starts ${execution} with ${JSON.stringify(input)}`);
      machine.start(execution, input);
    });
  };

  for (let tick = 1; setting.start + tick * everyMs <= setting.lastStartAt; tick += 1) {
    const due = setting.start + tick * everyMs;
    const scheduledTime = instantOf(due);
    const about = `${name}-${tick}`;
    const dice = world.dice(about);
    const late = world.strikes('start-late', about) ? dice.between(1, 90) * minute : 0;
    startAt(due + late + dice.between(0, 2_000), 'scheduler', about, { scheduledTime });
    if (!world.strikes('start-repeated', about)) continue;
    const again = dice.pick([0, dice.between(0, 3_000), dice.between(0, 40) * minute]);
    startAt(due + late + again, 'scheduler', `${about}-again`, { scheduledTime });
  }

  for (let at = setting.start; at < setting.calmFrom; at += 20 * minute) {
    const about = `${name}-by-hand-${Math.round((at - setting.start) / minute)}`;
    const dice = world.dice(about);
    const moment = at + dice.between(0, 20) * minute;
    if (world.strikes('manual-start', about)) startAt(moment, 'operator', about, {});
    if (world.strikes('manual-restart', about)) startAt(moment, 'operator', `${about}-restart`, { restart: true });
    if (world.strikes('manual-since', about)) {
      const since = instantOf(Math.floor(moment - dice.between(0, 26) * 60 * minute));
      startAt(moment, 'operator', `${about}-since`, dice.happens(0.5) ? { since } : { since, restart: true });
    }
    if (!world.strikes('stopped', about)) continue;
    time.after(moment - setting.start, () => {
      const running = machine.executions.filter(({ status }) => status === 'RUNNING');
      if (running.length > 0) machine.stop(dice.pick(running));
    });
  }
}
