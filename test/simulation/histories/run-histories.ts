/** Runs many histories on all cores and adds up their statistics. */

import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import type { Violation } from '../world/world.ts';
import type { HistoryPlan, HistoryStats } from './history.ts';

export interface HistoryResult {
  readonly violation: Violation | undefined;
  readonly stats: HistoryStats;
  readonly faultCounts: ReadonlyMap<string, number>;
}

export interface Summary extends HistoryStats {
  readonly histories: number;
  readonly failure: { readonly plan: HistoryPlan; readonly violation: Violation } | undefined;
  /** By kind, the most frequent first. */
  readonly faultCounts: ReadonlyMap<string, number>;
}

/** Stops at the first history with a violation. @throws Error if a forced fault of a plan does not occur */
export async function runHistories(
  plans: Iterable<HistoryPlan> | AsyncIterable<HistoryPlan>,
  onProgress: (completed: number) => void = () => {},
): Promise<Summary> {
  const remaining = (async function* () {
    yield* plans;
  })();
  const totals = new Map<keyof HistoryStats, number>();
  const faultCounts = new Map<string, number>();
  let histories = 0;
  let failure: Summary['failure'];
  const runWorker = async () => {
    const worker = new Worker(new URL('./history-worker.ts', import.meta.url));
    try {
      for (let next = await remaining.next(); !next.done; next = await remaining.next()) {
        const plan = next.value;
        const { violation, stats, faultCounts: counts } = await runInWorker(worker, plan);
        histories += 1;
        for (const [name, count] of Object.entries(stats) as [keyof HistoryStats, number][]) add(totals, name, count);
        for (const [kind, count] of counts) add(faultCounts, kind, count);
        if (violation !== undefined) failure ??= { plan, violation };
        onProgress(histories);
        if (failure !== undefined) return;
      }
    } finally {
      await worker.terminate();
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, runWorker));
  return {
    ...(Object.fromEntries(totals) as unknown as HistoryStats),
    histories,
    failure,
    faultCounts: new Map([...faultCounts].sort(([, one], [, other]) => other - one)),
  };
}

const add = <Key>(counts: Map<Key, number>, key: Key, count: number) =>
  void counts.set(key, (counts.get(key) ?? 0) + count);

function runInWorker(worker: Worker, plan: HistoryPlan): Promise<HistoryResult> {
  return new Promise((resolve, reject) => {
    const faults = [...(plan.forcedFaults ?? [])].join(' and ');
    const failed = (message: string, cause?: unknown) =>
      reject(new Error(`${message} at seed ${plan.seed}${faults === '' ? '' : ` with ${faults}`}`, { cause }));
    worker.removeAllListeners();
    worker.once('message', resolve);
    worker.once('error', (error) => failed('The simulation itself failed', error));
    worker.once('exit', () => failed('The worker exited'));
    worker.postMessage(plan);
  });
}
