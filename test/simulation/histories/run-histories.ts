/** Runs many histories on all cores and adds up their statistics. */

import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import type { Violation } from '../world/world.ts';
import type { HistoryPlan, HistoryStats } from './history.ts';

interface HistoryResult {
  readonly plan: HistoryPlan;
  readonly violation: Violation | undefined;
  readonly stats: HistoryStats;
  readonly faultCounts: ReadonlyMap<string, number>;
}

export interface Summary extends HistoryStats {
  readonly histories: number;
  readonly failures: readonly HistoryResult[];
  /** By kind, the most frequent first. */
  readonly faultCounts: ReadonlyMap<string, number>;
}

/** Stops early after `maxFailures` histories with a violation. */
export async function runHistories(
  plans: readonly HistoryPlan[],
  {
    maxFailures = Number.POSITIVE_INFINITY,
    onProgress,
  }: { maxFailures?: number; onProgress?: ((completed: number) => void) | undefined } = {},
): Promise<Summary> {
  const remaining = [...plans].reverse();
  const results: HistoryResult[] = [];
  const failures: HistoryResult[] = [];
  const runWorker = async () => {
    const worker = new Worker(new URL('./history-worker.ts', import.meta.url));
    try {
      for (let plan = remaining.pop(); plan !== undefined && failures.length < maxFailures; plan = remaining.pop()) {
        const result = await runInWorker(worker, plan);
        results.push(result);
        if (result.violation !== undefined) failures.push(result);
        onProgress?.(results.length);
      }
    } finally {
      await worker.terminate();
    }
  };
  await Promise.all(Array.from({ length: Math.min(availableParallelism(), plans.length) }, runWorker));
  return summarize(results, failures);
}

function runInWorker(worker: Worker, plan: HistoryPlan): Promise<HistoryResult> {
  return new Promise((resolve, reject) => {
    worker.removeAllListeners();
    worker.once('message', resolve);
    worker.once('error', (error) =>
      reject(new Error(`The simulation itself failed at seed ${plan.seed}`, { cause: error })),
    );
    worker.once('exit', () => reject(new Error(`The worker exited at seed ${plan.seed}`)));
    worker.postMessage(plan);
  });
}

function summarize(results: readonly HistoryResult[], failures: readonly HistoryResult[]): Summary {
  const sum = (name: keyof HistoryStats) => results.reduce((total, { stats }) => total + stats[name], 0);
  const faultCounts = new Map<string, number>();
  for (const result of results) {
    for (const [kind, count] of result.faultCounts) faultCounts.set(kind, (faultCounts.get(kind) ?? 0) + count);
  }
  return {
    histories: results.length,
    failures,
    events: sum('events'),
    executions: sum('executions'),
    invocations: sum('invocations'),
    requestsToService: sum('requestsToService'),
    pagesStored: sum('pagesStored'),
    runsPublished: sum('runsPublished'),
    slicedRunsPublished: sum('slicedRunsPublished'),
    boundedRunsPublished: sum('boundedRunsPublished'),
    maxHistoryEvents: Math.max(0, ...results.map(({ stats }) => stats.maxHistoryEvents)),
    faultCounts: new Map([...faultCounts].sort(([, one], [, other]) => other - one)),
  };
}
