/** A worker thread of run-all-pairs.ts: finds or runs the pairs of one first fault at a time. */

import { parentPort } from 'node:worker_threads';
import { findSecondFaults, type PairResults, runPairs, selectSlice } from './pairs.ts';
import type { PairTask } from './run-all-pairs.ts';

// Most errors here are expected, and their stacks are not shown: a replay has them.
Error.stackTraceLimit = 0;

parentPort?.on('message', (task: PairTask) => void perform(task));

async function perform({ kind, first, slice }: PairTask): Promise<void> {
  let result: PairResults;
  if (kind === 'run') result = await runPairs(first, slice);
  else {
    const { faults, failure } = await findSecondFaults(first);
    result = {
      pairs: selectSlice(first, faults, slice).length,
      failures: failure === undefined ? [] : [failure],
    };
  }
  parentPort?.postMessage(result);
}
