/** Runs all pairs of a slice on all cores: first each first fault alone, which counts its pairs, and then the pairs. */

import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import type { SmallHistory } from '../histories/small-histories.ts';
import { type Failure, findFirstFaults, type FirstFault, type PairResults, type Slice } from './pairs.ts';
import { UsageError } from './options.ts';
import { keyOf, type ProgressFile } from './progress-file.ts';

export interface PairTask {
  readonly kind: 'count' | 'run';
  readonly first: FirstFault;
  readonly slice: Slice;
}

export interface PairProgress {
  /** First faults in all small histories. */
  readonly firstFaults: number;
  readonly counted: number;
  /** Pairs in the slice, as far as they are counted. */
  readonly pairs: number;
  readonly done: number;
  readonly failures: readonly Failure[];
}

export interface RunAllPairsOptions {
  readonly histories: readonly SmallHistory[];
  /** The only first faults; empty: all. */
  readonly faults: readonly string[];
  readonly slice: Slice;
  readonly progress: Pick<ProgressFile, 'counted' | 'done' | 'append'>;
  /** Stops after so many failing histories. */
  readonly maxFailures: number;
  readonly signal?: AbortSignal;
  readonly onProgress?: ((progress: PairProgress) => void) | undefined;
}

/**
 * Continues from `progress`, until all is done, too much fails, or `signal` aborts.
 * @throws UsageError if one of `faults` cannot be the first
 */
export async function runAllPairs(options: RunAllPairsOptions): Promise<PairProgress> {
  const { histories, faults, slice, progress, maxFailures, signal, onProgress = () => {} } = options;
  const isSelected = ({ fault }: FirstFault) => faults.length === 0 || faults.includes(fault);
  const firstFaults: FirstFault[] = [];
  for (const history of histories) firstFaults.push(...(await findFirstFaults(history)).filter(isSelected));
  for (const fault of faults) {
    if (firstFaults.some((first) => first.fault === fault)) continue;
    throw new UsageError(
      `${fault} cannot occur in ${histories.join(', ')}. Another version of the code may name the site differently`,
    );
  }
  const current = (): PairProgress => ({
    firstFaults: firstFaults.length,
    counted: progress.counted.size,
    pairs: sumOfPairs(progress.counted),
    done: sumOfPairs(progress.done),
    failures: [...progress.counted.values(), ...progress.done.values()].flatMap(({ failures }) => failures),
  });
  const isOver = () => signal?.aborted === true || current().failures.length >= maxFailures;

  const uncounted = firstFaults.filter((first) => !progress.counted.has(keyOf(first)));
  await runTasks(uncounted, isOver, signal, async (first, perform) => {
    progress.append('counted', first, await perform({ kind: 'count', first, slice }));
    onProgress(current());
  });
  const remaining = firstFaults.filter(
    (first) => !progress.done.has(keyOf(first)) && (progress.counted.get(keyOf(first))?.pairs ?? 0) > 0,
  );
  await runTasks(remaining, isOver, signal, async (first, perform) => {
    progress.append('done', first, await perform({ kind: 'run', first, slice }));
    onProgress(current());
  });
  return current();
}

const sumOfPairs = (results: ReadonlyMap<string, PairResults>): number =>
  [...results.values()].reduce((total, { pairs }) => total + pairs, 0);

/** One worker per core. When `signal` aborts, they end at once. */
async function runTasks(
  firstFaults: readonly FirstFault[],
  isOver: () => boolean,
  signal: AbortSignal | undefined,
  run: (first: FirstFault, perform: (task: PairTask) => Promise<PairResults>) => Promise<void>,
): Promise<void> {
  const remaining = firstFaults.values();
  let hasFailed = false;
  const runWorker = async () => {
    const worker = new Worker(new URL('./pair-worker.ts', import.meta.url));
    const stop = () => void worker.terminate();
    signal?.addEventListener('abort', stop);
    try {
      for (const first of remaining) {
        if (hasFailed || isOver()) return;
        await run(first, (task) => performIn(worker, task));
      }
    } catch (error) {
      hasFailed = true;
      if (signal?.aborted !== true) throw error;
    } finally {
      signal?.removeEventListener('abort', stop);
      await worker.terminate();
    }
  };
  await Promise.all(Array.from({ length: Math.min(availableParallelism(), firstFaults.length) }, runWorker));
}

function performIn(worker: Worker, task: PairTask): Promise<PairResults> {
  const { history, fault } = task.first;
  return new Promise((resolve, reject) => {
    worker.removeAllListeners();
    worker.once('message', resolve);
    worker.once('error', (error) =>
      reject(new Error(`The simulation itself failed in ${history} with ${fault}`, { cause: error })),
    );
    worker.once('exit', () => reject(new Error(`The worker exited in ${history} with ${fault}`)));
    worker.postMessage(task);
  });
}
