/**
 * A backfill on AWS as a model, and one walk of the same pages: the deployment of `../aws-loop/modelled-aws.ts`, in simulated time.
 * A Distributed Map is not interpreted: each window takes the times of the states of its child execution.
 */

import { beginBackfill } from '../../lib/backfill/plan.ts';
import { remainingWindows } from '../../lib/backfill/window-states.ts';
import type { StartInput } from '../../lib/core/steps/start-input.ts';
import { instantOf } from '../../lib/core/timestamps.ts';
import { type Window, windowName } from '../../lib/backfill/windows.ts';
import type { SimulatedExecution } from '../../test/simulation/step-functions/step-functions.ts';
import type { Latencies } from '../aws-loop/latencies.ts';
import { createModelledAws, exportName, type ModelledAws, untilOperator } from '../aws-loop/modelled-aws.ts';

export interface BackfillModel {
  readonly latencies: Latencies;
  readonly windows: number;
  readonly pagesPerWindow: number;
  /** How many windows are exported at the same time. The service responds to as many requests at the same time. */
  readonly parallel: number;
}

/** The default of the settings. */
const pagesPerInvocation = 25;

const day = 86_400_000;

/** From the start of the execution to its end, in ms: one run of all pages. */
export async function modelOneWalk(model: Omit<BackfillModel, 'parallel'>): Promise<number> {
  const pages = model.windows * model.pagesPerWindow;
  return await measure({ ...model, pages, parallel: 1 }, async ({ runToEnd }) => await runToEnd('walk', {}));
}

/** From the probe to the end of the last window, in ms. */
export async function modelBackfill(model: BackfillModel): Promise<number> {
  const { windows, parallel, latencies } = model;
  const { transitionMs, invokeMs, mapStartMs, serviceFirstByteMs, serviceBodyMs } = latencies;
  const from = Date.UTC(2020, 0, 1);
  const request = { from: instantOf(from), to: instantOf(from + windows * day), windowMs: day, parallel };
  return await measure(
    { ...model, pages: model.pagesPerWindow },
    async ({ aws: { time, log, definition }, runToEnd }) => {
      // Two requests, one after the other, in one invocation.
      await time.sleep(invokeMs + 2 * (serviceFirstByteMs + serviceBodyMs));
      const backfill = await beginBackfill(
        {
          log,
          backfills: log.backfills,
          store: emptyStore,
          definition,
          untilOperator,
          runtime: { now: () => time.now() },
        },
        request,
        undefined,
      );
      const pending = [...(await remainingWindows(log.backfills, backfill))];
      await time.sleep(transitionMs + mapStartMs);
      const work = async () => {
        for (let window = pending.shift(); window !== undefined; window = pending.shift()) {
          await exportWindow(window);
        }
      };
      /** The states of a child execution, as in lib/core/state-machine/backfill-definition.ts: ExportWindow, HasEnded, WindowDone. */
      const exportWindow = async (window: Window) => {
        await time.sleep(transitionMs + invokeMs);
        await runToEnd(`${exportName}-w-${window.since}`, { export: windowName(exportName, window) });
        await time.sleep(latencies.syncEndMs + 2 * transitionMs);
      };
      await Promise.all(Array.from({ length: parallel }, work));
    },
  );
}

/** A backfill that begins with nothing published. The model leaves out the time that the listing takes. */
const emptyStore = { read: async () => undefined, listFolders: async function* () {}, locate: (key: string) => key };

interface Modelled {
  readonly aws: ModelledAws;
  /** Runs an execution, and those in which it continues. @throws Error if the run does not complete with all its pages */
  readonly runToEnd: (name: string, input: unknown) => Promise<void>;
}

interface MeasuredModel extends Omit<BackfillModel, 'windows'> {
  readonly pages: number;
}

async function measure(model: MeasuredModel, work: (modelled: Modelled) => Promise<void>): Promise<number> {
  const { latencies, pages, parallel: concurrentResponses } = model;
  const ends = new Map<SimulatedExecution, () => void>();
  const aws = createModelledAws({ latencies, pages, pagesPerInvocation, concurrentResponses }, (event) => {
    if (event.type === 'ended') ends.get(event.execution)?.();
  });
  const { time, stepFunctions } = aws;
  const runToEnd = async (name: string, input: unknown) => {
    let execution: SimulatedExecution | undefined = stepFunctions.start(name, input);
    for (let next: SimulatedExecution | undefined = execution; next !== undefined;) {
      const running: SimulatedExecution = next;
      if (running.status === 'RUNNING') await new Promise<void>((resolve) => ends.set(running, resolve));
      execution = running;
      next = stepFunctions.executions.find((one) => (one.input as StartInput).continues === running.arn);
    }
    const { status, output } = execution;
    if (status !== 'SUCCEEDED' || (output as { pages?: number }).pages !== pages) {
      throw new Error(`The modelled run ${name} ended as ${status} with ${JSON.stringify(output)}`);
    }
  };
  const startedAt = time.now();
  let wallMs: number | undefined;
  const done = work({ aws, runToEnd }).then(() => {
    wallMs = time.now() - startedAt;
  });
  await time.run({ until: Number.POSITIVE_INFINITY, stop: () => wallMs !== undefined });
  await done;
  return wallMs ?? Number.NaN;
}
