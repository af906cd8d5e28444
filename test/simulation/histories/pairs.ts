/**
 * The pairs of faults of a small history. The first fault is one that can occur in the history without faults; the
 * second is one that can then still occur in the history with the first. A fault that both orders would reach counts
 * once: as the second of the one that comes first.
 */

import { faultName } from '../world/world.ts';
import { type History, type HistoryPlan, runHistory } from './history.ts';
import type { SmallHistory } from './small-histories.ts';

/** A part of all pairs, so that CI can run another one with each commit. */
export interface Slice {
  /** From 1 to `parts`. */
  readonly part: number;
  readonly parts: number;
}

/** The plan of the small history with exactly these faults. */
export const planOf = (small: SmallHistory, faults: readonly string[]): HistoryPlan => ({
  seed: small,
  pages: 1,
  small,
  forcedFaults: new Set(faults),
});

/** The faults that can occur in the history without faults, in the order of their chances. */
export async function findFirstFaults(small: SmallHistory): Promise<readonly string[]> {
  return candidateNames(await runHistory({ ...planOf(small, []), recordCandidates: true }));
}

/** The faults that can occur after `first` or because of it. None if it violates an invariant alone. */
export async function findSecondFaults(small: SmallHistory, first: string): Promise<readonly string[]> {
  const history = await runHistory({ ...planOf(small, [first]), recordCandidates: true });
  if (history.violation !== undefined) return [];
  const names = candidateNames(history);
  const position = names.indexOf(first);
  if (position === -1) throw new Error(`${first} did not occur again in ${small}`);
  return names.slice(position + 1);
}

/** Each first fault of the slice alone, then with each second one. `faults` limits the first ones, unless empty. */
export async function* pairPlans(
  histories: readonly SmallHistory[],
  { faults, slice: { part, parts } }: { readonly faults: readonly string[]; readonly slice: Slice },
): AsyncGenerator<HistoryPlan> {
  let count = 0;
  for (const small of histories) {
    for (const first of await findFirstFaults(small)) {
      if (faults.length > 0 && !faults.includes(first)) continue;
      count += 1;
      if (count % parts !== part % parts) continue;
      yield planOf(small, [first]);
      for (const second of await findSecondFaults(small, first)) yield planOf(small, [first, second]);
    }
  }
}

/** A site may have several chances: the first one counts. */
const candidateNames = ({ candidateFaults }: History): string[] => [...new Set(candidateFaults.map(faultName))];
