/**
 * One execution environment of a Lambda function. It is reused for later invocations, one at a time, with whatever the
 * one before has left in memory. Between two invocations it is frozen: timers and requests that are still pending then
 * have to wait for the next one.
 */

import type { StepHandler } from '../../../lib/aws/lambda/step-handler.ts';
import type { Runtime } from '../../../lib/core/ports.ts';
import type { Process } from './process.ts';

export interface Container {
  readonly id: string;
  /** The process of the current invocation. Between two invocations: of the next one, once it begins. */
  process(): Promise<Process>;
  /** The process of the current invocation, or of the last one. */
  lastProcess(): Process;
  /** The clock and the timers that the function's code uses. */
  readonly runtime: Runtime;
}

export interface WarmContainer extends Container {
  readonly handler: StepHandler<unknown>;
  begin(process: Process): void;
  /** Freezes the container. */
  end(): void;
}

export function createContainer(
  id: string,
  createHandler: (container: Container) => StepHandler<unknown>,
): WarmContainer {
  let current: Process | undefined;
  let last: Process | undefined;
  let waiting: ((process: Process) => void)[] = [];

  const lastProcess = () => {
    if (last === undefined) throw new Error(`Container ${id} has had no invocation yet`);
    return last;
  };
  const process = async () => current ?? (await new Promise<Process>((resolve) => waiting.push(resolve)));
  const container: Container = {
    id,
    process,
    lastProcess,
    runtime: {
      now: () => lastProcess().runtime.now(),
      monotonicNow: () => lastProcess().runtime.monotonicNow(),
      async sleep(ms, signal) {
        await lastProcess().runtime.sleep(ms, signal);
        if (current === undefined) await process();
      },
      randomHex: (length) => lastProcess().runtime.randomHex(length),
    },
  };
  return {
    ...container,
    handler: createHandler(container),
    begin(next) {
      current = next;
      last = next;
      const thawed = waiting;
      waiting = [];
      for (const resume of thawed) resume(next);
    },
    end() {
      current = undefined;
    },
  };
}
