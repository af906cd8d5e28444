/** Runs the real definition with scripted steps in the simulated Step Functions. */

import { byStep, type StepName, stateMachine, stepNames } from '../../../lib/core/state-machine/definition.ts';
import { executionArn } from '../../support/export/function-machine.ts';
import { createTimeline } from '../world/virtual-time.ts';
import { createStepFunctions, type SimulatedExecution, TaskFailure } from './step-functions.ts';

export const definition = stateMachine({
  functions: byStep((step) => step),
  eventBus: 'default',
  store: { bucket: 'reports', prefix: 'exports/' },
  partition: 'aws',
  stepTimeoutSeconds: byStep(() => 900),
  executionTimeoutSeconds: 3_600 * 24 * 30,
});

/** What a step returns, or the name of the error it throws. */
type StepResult = object | string;
/** The results of each step in order; the last one repeats. */
export type Script = Readonly<Record<StepName, readonly StepResult[]>>;

export const loop = { export: 'reports', run: 'run-1', executionNumber: 1, page: 1, iterations: 0, waits: 0 };
export const failed = {
  export: 'reports',
  run: 'run-1',
  since: null,
  pages: 0,
  reports: 0,
  bytes: 0,
  message: 'm',
  resumable: true,
};

export async function simulate(
  script: Script,
  name = 'one',
): Promise<{ states: string[]; execution: SimulatedExecution }> {
  const runStep = scriptedSteps(script);
  const time = createTimeline(0);
  const states: string[] = [];
  const stepFunctions = createStepFunctions({
    definition,
    stateMachineArn: executionArn('').replace(':execution:', ':stateMachine:').replace(/:$/, ''),
    time,
    random: () => 0.5,
    async perform({ state }) {
      const step = stepNames.find((each) => each === state);
      if (step === undefined) return {};
      try {
        return { Payload: runStep(step) };
      } catch (error) {
        throw new TaskFailure((error as Error).name, (error as Error).message);
      }
    },
    onEvent(event) {
      if (event.type === 'entered') states.push(event.state);
    },
  });
  const execution = stepFunctions.start(name, {});
  await time.run({ until: Number.POSITIVE_INFINITY, stop: () => execution.status !== 'RUNNING' });
  return { states, execution };
}

function scriptedSteps(script: Script) {
  const calls = byStep(() => ({ count: 0 }));
  return (step: StepName): object => {
    const results = script[step];
    const result = results[Math.min(calls[step].count, results.length - 1)] ?? {};
    calls[step].count += 1;
    if (typeof result === 'string') throw Object.assign(new Error(`${result} was thrown`), { name: result });
    return result;
  };
}
