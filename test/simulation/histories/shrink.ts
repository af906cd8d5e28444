/**
 * Shrinks a failing history: removes pages, then faults, while the same invariant is still violated. What remains is
 * what it takes to violate it (delta debugging; Zeller and Hildebrandt, 2002).
 */

import { faultName } from '../world/world.ts';
import { type History, type HistoryPlan, runHistory } from './history.ts';

/** A replay takes some 50 ms, or much longer if the history loops until its event limit. */
const maxReplays = 400;
const maxShrinkMs = 60_000;

export interface Shrunk {
  readonly plan: HistoryPlan;
  readonly history: History;
  readonly replays: number;
}

/** The shortest history found that violates the same invariant as `failing`, with its event log. */
export async function shrink(plan: HistoryPlan, failing: History): Promise<Shrunk> {
  let replays = 0;
  const startedAt = Date.now();
  const isOver = () => replays >= maxReplays || Date.now() - startedAt > maxShrinkMs;
  const stillFails = async (candidate: HistoryPlan): Promise<boolean> => {
    if (isOver()) return false;
    replays += 1;
    return (await runHistory(candidate)).violation?.invariant === failing.violation?.invariant;
  };

  let { pages } = plan;
  for (let fewer = Math.floor(pages / 2); fewer >= 1; fewer = Math.floor(fewer / 2)) {
    if (await stillFails({ ...plan, pages: fewer })) pages = fewer;
  }

  const { injectedFaults } = await runHistory({ ...plan, pages });
  const withFaults = (names: readonly string[]): HistoryPlan => {
    const faults = new Set(names);
    return {
      ...plan,
      pages,
      ...(plan.forcedFaults === undefined ? { allowedFaults: faults } : { forcedFaults: faults }),
    };
  };
  let faults = injectedFaults.map(faultName);
  let chunkCount = 2;
  while (faults.length > 0) {
    const chunkSize = Math.ceil(faults.length / chunkCount);
    let remaining = faults;
    for (let start = 0; start < faults.length; start += chunkSize) {
      const fewer = [...faults.slice(0, start), ...faults.slice(start + chunkSize)];
      if (!(await stillFails(withFaults(fewer)))) continue;
      remaining = fewer;
      break;
    }
    if (remaining.length < faults.length) {
      faults = remaining;
      chunkCount = Math.max(2, chunkCount - 1);
    } else if (chunkSize === 1 || isOver()) break;
    else chunkCount = Math.min(faults.length, chunkCount * 2);
  }

  const shortest = withFaults(faults);
  return { plan: shortest, history: await runHistory({ ...shortest, recordLog: true }), replays };
}
