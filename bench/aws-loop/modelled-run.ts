/** A run of the modelled deployment: the loop alone, without what begins and publishes the run. */

import type { RunModel } from './modelled-adapters.ts';
import { createModelledAws } from './modelled-aws.ts';

/** Figures of the loop, from the start of the first page to the end of the last iteration. */
export interface RunFigures {
  readonly [figure: string]: number;
  readonly wallMs: number;
  /** State transitions, which AWS bills. */
  readonly transitions: number;
  readonly invocations: number;
  /** The billed duration of export-page. */
  readonly lambdaMs: number;
}

/** @throws Error if the run does not complete without a failed task */
export async function runModel(model: RunModel): Promise<RunFigures> {
  let loopStartedAt: number | undefined;
  let wallMs = 0;
  let transitions = 0;
  const { time, stepFunctions, figures } = createModelledAws(model, (event) => {
    if (event.type !== 'entered') return;
    if (event.state === 'ExportPage') loopStartedAt ??= time.now();
    if (event.state === 'FinishRun') wallMs = time.now() - (loopStartedAt ?? 0);
    if (loopStartedAt !== undefined && wallMs === 0) transitions += 1;
  });
  stepFunctions.start('first', {});
  await time.run({
    until: Number.POSITIVE_INFINITY,
    stop: () => stepFunctions.executions.every(({ status }) => status !== 'RUNNING'),
  });
  const { status, output } = stepFunctions.executions.at(-1) ?? {};
  if (status !== 'SUCCEEDED' || (output as { pages?: number }).pages !== model.pages) {
    throw new Error(`The modelled run ended as ${status} with ${JSON.stringify(output)}`);
  }
  return { ...figures, wallMs, transitions };
}
