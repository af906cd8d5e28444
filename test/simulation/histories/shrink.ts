/**
 * Makes a broken history short: leaves out pages, then faults, as long as the same promise is still broken. What is left is
 * what it takes (delta debugging, Zeller and Hildebrandt 2002).
 */

import { strikeName } from '../world/world.ts';
import { type History, type HistoryPlan, makeHistory } from './history.ts';

/** Replays are a few dozen milliseconds each, but for a history that goes round for ever. */
const mostReplays = 400;
const longestMs = 60_000;

export interface Shrunk {
  readonly plan: HistoryPlan;
  readonly history: History;
  readonly replays: number;
}

/** The shortest history found that breaks what `broken` breaks, written down. */
export async function shrink(plan: HistoryPlan, broken: History): Promise<Shrunk> {
  let replays = 0;
  const since = Date.now();
  const isOver = () => replays >= mostReplays || Date.now() - since > longestMs;
  const breaks = async (tried: HistoryPlan): Promise<boolean> => {
    if (isOver()) return false;
    replays += 1;
    return (await makeHistory(tried)).violation?.invariant === broken.violation?.invariant;
  };

  let { pages } = plan;
  for (let fewer = Math.floor(pages / 2); fewer >= 1; fewer = Math.floor(fewer / 2)) {
    if (await breaks({ ...plan, pages: fewer })) pages = fewer;
  }
  const { strikes } = await makeHistory({ ...plan, pages });
  const withFaults = (names: readonly string[]) => ({ ...plan, pages, only: new Set(names) });
  let kept = strikes.map(strikeName);
  let pieces = 2;
  while (kept.length > 0) {
    const size = Math.ceil(kept.length / pieces);
    let left = kept;
    for (let start = 0; start < kept.length; start += size) {
      const fewer = [...kept.slice(0, start), ...kept.slice(start + size)];
      if (!(await breaks(withFaults(fewer)))) continue;
      left = fewer;
      break;
    }
    if (left.length < kept.length) {
      kept = left;
      pieces = Math.max(2, pieces - 1);
    } else if (size === 1 || isOver()) break;
    else pieces = Math.min(kept.length, pieces * 2);
  }
  const shortest = withFaults(kept);
  return { plan: shortest, history: await makeHistory({ ...shortest, writeDown: true }), replays };
}
