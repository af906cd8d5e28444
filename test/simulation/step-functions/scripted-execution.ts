/** The real definition in the simulated Step Functions and in the local interpreter, its steps played by a script. */

import { byStep, type StepName, stateMachine, stepNames } from '../../../lib/core/state-machine/definition.ts';
import { type ExecutionTold, execute, executionArn } from '../../support/function-machine.ts';
import { createTimeline } from '../world/virtual-time.ts';
import { createStepFunctions, type SimulatedExecution, TaskFailure } from './step-functions.ts';

export const definition = stateMachine({
  exportName: 'reports',
  functions: byStep((step) => step),
  eventBus: 'default',
  partition: 'aws',
  stepTimeoutSeconds: byStep(() => 900),
  executionTimeoutSeconds: 3_600 * 24 * 30,
});

/** What a step answers, or the name of the error it throws. */
type Answer = object | string;
export type Script = Readonly<Record<StepName, readonly Answer[]>>;

export const loop = { export: 'reports', run: 'run-1', executionNumber: 1, page: 1, iterations: 0, waits: 0 };
export const failed = { run: 'run-1', since: null, pages: 0, reports: 0, bytes: 0, message: 'm', resumable: true };

/** Answers in the order of the script; its last one for ever. */
function scripted(script: Script) {
  const asked = byStep(() => ({ times: 0 }));
  return (step: StepName): object => {
    const answers = script[step];
    const answer = answers[Math.min(asked[step].times, answers.length - 1)] ?? {};
    asked[step].times += 1;
    if (typeof answer === 'string') throw Object.assign(new Error(`${answer} was thrown`), { name: answer });
    return answer;
  };
}

export async function simulate(
  script: Script,
  name = 'one',
): Promise<{ states: string[]; execution: SimulatedExecution }> {
  const answer = scripted(script);
  const time = createTimeline(0);
  const states: string[] = [];
  const machine = createStepFunctions({
    definition,
    machine: executionArn('').replace(':execution:', ':stateMachine:').replace(/:$/, ''),
    time,
    random: () => 0.5,
    async perform({ state }) {
      const step = stepNames.find((each) => each === state);
      if (step === undefined) return {};
      try {
        return { Payload: answer(step) };
      } catch (error) {
        const { name: error_, message } = error as Error;
        throw new TaskFailure(error_, message);
      }
    },
    on(fact) {
      if (fact.what === 'entered') states.push(fact.state);
    },
  });
  const execution = machine.start(name, {});
  await time.run({ until: Number.POSITIVE_INFINITY, stop: () => execution.status !== 'RUNNING' });
  return { states, execution };
}

export function interpret(script: Script): Promise<ExecutionTold> {
  const answer = scripted(script);
  const functions = byStep((step) => async () => answer(step));
  return execute(functions, { name: 'one' });
}
