/** A thread that makes histories, one by one, for `../simulate.ts`. */

import { parentPort } from 'node:worker_threads';
import { type HistoryPlan, makeHistory } from './history.ts';

parentPort?.on('message', (plan: HistoryPlan) => void make(plan));

async function make(plan: HistoryPlan): Promise<void> {
  const { strikes, violation, figures } = await makeHistory(plan);
  const faults = new Map<string, number>();
  for (const { kind } of strikes) faults.set(kind, (faults.get(kind) ?? 0) + 1);
  parentPort?.postMessage({ plan, violation, figures, faults });
}
