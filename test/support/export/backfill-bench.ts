/** A backfill on a test bench: each of its windows is exported by the real state machine, several of them at the same time. */

import { AsyncLocalStorage } from 'node:async_hooks';
import { remainingWindows } from '../../../lib/backfill/window-states.ts';
import type { Backfill } from '../../../lib/backfill/store.ts';
import { windowDefinition } from '../../../lib/backfill/window-definition.ts';
import { type Window, windowName } from '../../../lib/backfill/windows.ts';
import { asDocumentRoot } from '../../../lib/core/document-root.ts';
import type { Bench, Manifest } from './export-bench.ts';
import type { CrashPoint } from './memory-adapters.ts';

/** Ends a process: nothing happens in it any more, not even error handling. */
class Crash extends Error {}

export interface Crashes {
  readonly crash: CrashPoint;
  /** Runs `work` as a process of its own, which may crash. */
  readonly inProcess: <Result>(work: () => Promise<Result>) => Promise<Result>;
}

/** `gaps`: the number of effects between two crashes; after the last one, none occurs. A crash ends one process, not the others. */
export function createCrashes(gaps: readonly number[]): Crashes {
  const processes = new AsyncLocalStorage<{ isDown: boolean }>();
  const left = [...gaps];
  let budget = left.shift() ?? Number.POSITIVE_INFINITY;
  return {
    crash() {
      const process = processes.getStore();
      if (process === undefined) return;
      if (process.isDown) throw new Crash('still down');
      budget -= 1;
      if (budget > 0) return;
      budget = left.shift() ?? Number.POSITIVE_INFINITY;
      process.isDown = true;
      throw new Crash('cut off');
    },
    inProcess: (work) => processes.run({ isDown: false }, work),
  };
}

/** The bench with the definition of a window, for executions that export it. */
export const windowBench = (bench: Bench, window: Window): Bench =>
  bench.with({ definition: windowDefinition(bench.deps.definition, window, 'lt') });

/** The root of the responses of a bench's service. */
export const root = asDocumentRoot('reports');

/** What the operations on backfills need. */
export const operatorOf = ({ deps: { runtime, definition, executions }, log, store }: Bench) => ({
  log,
  backfills: log.backfills,
  runtime,
  store,
  executions,
  definition,
  untilOperator: 'lt',
});

/** A window that is not done after so many starts never will be. */
const maxStarts = 60;

/** Starts the window until it needs no further start. */
export async function exportWindow(
  bench: Bench,
  window: Window,
  inProcess: Crashes['inProcess'] = (work) => work(),
): Promise<void> {
  const { log } = bench;
  const { definition } = bench.deps;
  const executions = windowBench(bench, window);
  for (let starts = 0; starts < maxStarts; starts += 1) {
    await inProcess(() => executions.start());
    const state = await log.exportState(windowName(definition.name, window));
    if (state?.lastCompleted !== undefined && state.active === undefined) return;
    if (state?.plan?.abandonedAt !== undefined) return;
  }
  throw new Error(`the window ${window.since} to ${window.until} is never done`);
}

interface Schedule {
  readonly parallel: number;
  /** Which of the windows that are left begins next. */
  readonly picks?: readonly number[];
  readonly inProcess?: Crashes['inProcess'];
}

/** Exports what is left of the backfill, as whatever schedules its windows does. */
export async function exportWindows(bench: Bench, backfill: Backfill, { parallel, picks = [], inProcess }: Schedule) {
  const pending = [...(await remainingWindows(bench.log.backfills, backfill))];
  let begun = 0;
  const work = async () => {
    while (pending.length > 0) {
      const pick = picks[begun % Math.max(1, picks.length)] ?? 0;
      begun += 1;
      const [window] = pending.splice(pick % pending.length, 1);
      if (window !== undefined) await exportWindow(bench, window, inProcess);
    }
  };
  await Promise.all(Array.from({ length: parallel }, work));
}

/** The manifests of windows, the oldest window first. */
export const windowManifestsOf = ({ store }: Pick<Bench, 'store'>): WindowManifest[] =>
  manifestsOf({ store })
    .filter((manifest): manifest is WindowManifest => manifest.until !== undefined)
    .sort((one, other) => Date.parse(one.since) - Date.parse(other.since));

export interface WindowManifest extends Manifest {
  readonly until: string;
}

export const manifestsOf = ({ store }: Pick<Bench, 'store'>): Manifest[] =>
  [...store.objects].filter(([key]) => key.endsWith('/manifest.json')).map(([, text]) => JSON.parse(text));

/** The IDs of the reports in the pages of a manifest, in order. */
export const reportIdsIn = ({ store }: Pick<Bench, 'store'>, { pages }: Manifest): string[] =>
  pages.flatMap(({ key }) => [...(store.objects.get(key) ?? '').matchAll(/id="([^"]+)"/g)].map(([, id = '']) => id));
