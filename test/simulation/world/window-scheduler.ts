/**
 * What starts the windows of a backfill: so many at a time, each by executions of the export's own state machine, one after the
 * other until BeginRun says that the window needs no further one. A window whose execution fails is left. It stands for the
 * Distributed Map of Step Functions, and can fail, or be stopped, like an execution.
 */

import type { WindowBounds } from '../invariants/observations.ts';
import type { ExecutionEvent, SimulatedExecution, StepFunctions } from '../step-functions/step-functions.ts';
import type { World } from './world.ts';

const second = 1_000;

interface ScheduledWindow extends WindowBounds {
  /** What a start input names it by. */
  readonly name: string;
}

export interface WindowScheduler {
  /** Starts the windows. `label`: what the names of their executions begin with. */
  run(label: string, windows: readonly ScheduledWindow[], parallel: number): void;
  /** Stops one that is running, if any is: windows that have begun continue. */
  stop(): void;
  readonly onEvent: (event: ExecutionEvent) => void;
}

export function createWindowScheduler(
  world: World,
  stepFunctions: () => Pick<StepFunctions, 'start'>,
): WindowScheduler {
  const { time } = world;
  const waiting = new Map<SimulatedExecution, () => void>();
  const running: { isStopped: boolean }[] = [];

  const ended = (execution: SimulatedExecution) => new Promise<void>((resolve) => waiting.set(execution, resolve));

  return {
    run(label, windows, parallel) {
      const self = { isStopped: false };
      running.push(self);
      const pending = [...windows];
      let active = 0;
      let begun = 0;

      const exportWindow = async (window: ScheduledWindow, number: number) => {
        for (let attempt = 1; !self.isStopped; attempt += 1) {
          const execution = stepFunctions().start(`${label}-w${number}-${attempt}`, { export: window.name });
          await ended(execution);
          const { done: end } = (execution.output ?? {}) as { readonly done?: string };
          if (execution.status !== 'SUCCEEDED' || end !== undefined) return;
          // Another execution may be exporting it, or continue the run.
          const isExporting = execution.state !== 'Completed';
          const longer = Math.min(attempt, 8);
          await time.sleep(isExporting ? world.rng(execution.name).between(10, 60) * longer * second : 50);
        }
      };
      const startNext = () => {
        while (!self.isStopped && active < parallel && pending.length > 0) {
          const window = pending.shift();
          if (window === undefined) return;
          active += 1;
          begun += 1;
          void exportWindow(window, begun).then(() => {
            active -= 1;
            startNext();
            if (active === 0) running.splice(0, running.length, ...running.filter((each) => each !== self));
          });
        }
      };
      startNext();
    },
    stop() {
      const newest = running.at(-1);
      if (newest === undefined) return;
      newest.isStopped = true;
      running.pop();
    },
    onEvent({ type, execution }) {
      if (type !== 'ended' && type !== 'stopped') return;
      waiting.get(execution)?.();
      waiting.delete(execution);
    },
  };
}
