/** A worker thread of run-histories.ts: runs the histories it is sent, one at a time. */

import { parentPort } from 'node:worker_threads';
import { type HistoryPlan, runHistory } from './history.ts';

parentPort?.on('message', (plan: HistoryPlan) => void run(plan));

async function run(plan: HistoryPlan): Promise<void> {
  const { injectedFaults, violation, stats } = await runHistory(plan);
  const faultCounts = new Map<string, number>();
  for (const { kind } of injectedFaults) faultCounts.set(kind, (faultCounts.get(kind) ?? 0) + 1);
  parentPort?.postMessage({ plan, violation, stats, faultCounts });
}
