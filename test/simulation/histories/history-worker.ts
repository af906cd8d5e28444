/** A worker thread of run-histories.ts: runs the histories it is sent, one at a time. */

import { parentPort } from 'node:worker_threads';
import { faultName } from '../world/world.ts';
import { type HistoryPlan, runHistory } from './history.ts';
import type { HistoryResult } from './run-histories.ts';

// Most errors here are expected, and their stacks are not shown: a replay has them.
Error.stackTraceLimit = 0;

parentPort?.on('message', (plan: HistoryPlan) => void run(plan));

async function run(plan: HistoryPlan): Promise<void> {
  const { injectedFaults, violation, stats } = await runHistory(plan);
  const occurred = new Set(injectedFaults.map(faultName));
  const missing = [...(plan.forcedFaults ?? [])].find((fault) => !occurred.has(fault));
  if (violation === undefined && missing !== undefined) throw new Error(`${missing} did not occur`);
  const faultCounts = new Map<string, number>();
  for (const { kind } of injectedFaults) faultCounts.set(kind, (faultCounts.get(kind) ?? 0) + 1);
  parentPort?.postMessage({ violation, stats, faultCounts } satisfies HistoryResult);
}
