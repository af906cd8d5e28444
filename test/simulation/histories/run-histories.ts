/** Makes many histories, on all the processor's cores, and adds them up. */

import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import type { Violation } from '../world/world.ts';
import type { Figures, HistoryPlan } from './history.ts';

interface Made {
  readonly plan: HistoryPlan;
  readonly violation: Violation | undefined;
  readonly figures: Figures;
  readonly faults: ReadonlyMap<string, number>;
}

export interface Sum {
  readonly histories: number;
  readonly broken: readonly Made[];
  readonly events: number;
  readonly executions: number;
  readonly invocations: number;
  readonly requestsToService: number;
  readonly pagesStored: number;
  readonly runsPublished: number;
  readonly mostHistoryEvents: number;
  readonly faults: ReadonlyMap<string, number>;
}

/** Stops early once `enough` histories are broken. */
export async function makeHistories(
  plans: readonly HistoryPlan[],
  {
    enough = Number.POSITIVE_INFINITY,
    onMade,
  }: { enough?: number; onMade?: ((made: number, broken: number) => void) | undefined } = {},
): Promise<Sum> {
  const left = [...plans].reverse();
  const all: Made[] = [];
  const broken: Made[] = [];
  const lane = async () => {
    const worker = new Worker(new URL('./history-worker.ts', import.meta.url));
    try {
      for (let plan = left.pop(); plan !== undefined && broken.length < enough; plan = left.pop()) {
        const made = await ask(worker, plan);
        all.push(made);
        if (made.violation !== undefined) broken.push(made);
        onMade?.(all.length, broken.length);
      }
    } finally {
      await worker.terminate();
    }
  };
  await Promise.all(Array.from({ length: Math.min(availableParallelism(), plans.length) }, lane));
  return sumOf(all, broken);
}

function ask(worker: Worker, plan: HistoryPlan): Promise<Made> {
  return new Promise((resolve, reject) => {
    worker.removeAllListeners();
    worker.once('message', resolve);
    worker.once('error', (error) =>
      reject(new Error(`seed ${plan.seed}: the simulation itself failed`, { cause: error })),
    );
    worker.once('exit', () => reject(new Error(`seed ${plan.seed}: the simulation ended`)));
    worker.postMessage(plan);
  });
}

function sumOf(all: readonly Made[], broken: readonly Made[]): Sum {
  const sum = (name: keyof Figures) => all.reduce((total, { figures }) => total + figures[name], 0);
  const faults = new Map<string, number>();
  for (const made of all) for (const [kind, count] of made.faults) faults.set(kind, (faults.get(kind) ?? 0) + count);
  return {
    histories: all.length,
    broken,
    events: sum('events'),
    executions: sum('executions'),
    invocations: sum('invocations'),
    requestsToService: sum('requestsToService'),
    pagesStored: sum('pagesStored'),
    runsPublished: sum('runsPublished'),
    mostHistoryEvents: Math.max(0, ...all.map(({ figures }) => figures.mostHistoryEvents)),
    faults: new Map([...faults].sort(([, one], [, other]) => other - one)),
  };
}
