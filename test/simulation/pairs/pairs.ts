/**
 * The pairs of faults of a small history. The first fault is one that can occur in the history without faults; the second is
 * one that can then still occur in the history with the first. A fault that both orders would reach counts once: as the second
 * of the one that comes first.
 */

import { type History, type HistoryPlan, runHistory } from '../histories/history.ts';
import type { SmallHistory } from '../histories/small-histories.ts';
import { faultName, type Violation } from '../world/world.ts';

/** A part of all pairs, so that CI can run another one with each commit. */
export interface Slice {
  /** From 1 to `parts`. */
  readonly part: number;
  readonly parts: number;
}

export const everything: Slice = { part: 1, parts: 1 };

export interface FirstFault {
  /** Its position in the history without faults, from 0. */
  readonly index: number;
  readonly history: SmallHistory;
  readonly fault: string;
}

/** A history that violates an invariant. */
export interface Failure {
  readonly history: SmallHistory;
  readonly faults: readonly string[];
  readonly violation: Violation;
}

export interface PairResults {
  readonly pairs: number;
  readonly failures: readonly Failure[];
}

/** The plan of the small history with exactly these faults. */
export const planOf = (history: SmallHistory, faults: readonly string[]): HistoryPlan => ({
  seed: history,
  pages: 1,
  small: history,
  forcedFaults: new Set(faults),
});

/** The possible first faults, in the order of their chances. */
export async function findFirstFaults(history: SmallHistory): Promise<FirstFault[]> {
  const withoutFaults = await runHistory({ ...planOf(history, []), recordCandidates: true });
  return candidateNames(withoutFaults).map((fault, index) => ({ index, history, fault }));
}

export interface SecondFaults {
  /** In the order of their chances. */
  readonly faults: readonly string[];
  /** If the first fault alone violates an invariant: it then has no pairs. */
  readonly failure?: Failure;
}

/** The faults that can occur after `first`, also those that only it makes possible. */
export async function findSecondFaults({ history, fault }: FirstFault): Promise<SecondFaults> {
  const run = await runHistory({ ...planOf(history, [fault]), recordCandidates: true });
  if (run.violation !== undefined) {
    return { faults: [], failure: { history, faults: [fault], violation: run.violation } };
  }
  const names = candidateNames(run);
  const position = names.indexOf(fault);
  if (position === -1) throw new Error(`${fault} did not occur again in ${history}`);
  return { faults: names.slice(position + 1) };
}

/** The second faults whose pairs with `first` belong to the slice. The pairs of each first fault are spread over all slices. */
export function selectSlice(first: FirstFault, seconds: readonly string[], { part, parts }: Slice): readonly string[] {
  return seconds.filter((_, index) => (first.index + index) % parts === part - 1);
}

/** Runs the pairs of `first` that belong to the slice. */
export async function runPairs(first: FirstFault, slice: Slice): Promise<PairResults> {
  const { history, fault } = first;
  const seconds = selectSlice(first, (await findSecondFaults(first)).faults, slice);
  const failures: Failure[] = [];
  for (const second of seconds) {
    const faults = [fault, second];
    const { violation, injectedFaults } = await runHistory(planOf(history, faults));
    if (violation !== undefined) failures.push({ history, faults, violation });
    else if (!injectedFaults.some((each) => faultName(each) === second)) {
      throw new Error(`${second} did not occur in ${history} with ${fault}: the simulation is not deterministic`);
    }
  }
  return { pairs: seconds.length, failures };
}

/** A site may have several chances: the first one counts. */
const candidateNames = ({ candidateFaults }: History): string[] => [...new Set(candidateFaults.map(faultName))];
