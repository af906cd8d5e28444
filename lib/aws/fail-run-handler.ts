/** FailRun as a function: records the failure; the next start goes on from it. */

import { failRun } from '../core/fail-run.ts';
import { readFunctionEnvironment } from '../core/function-environment.ts';
import type { FailedRun } from '../core/model.ts';
import { type Environment, type StepHandler, stepHandler } from './step-handler.ts';
import { stepNeeds, stepVariables } from './step-needs.ts';

export function failRunHandler(env: Environment): StepHandler<FailedRun> {
  return stepHandler((telemetry) => {
    const needs = stepNeeds(readFunctionEnvironment(env, stepVariables), telemetry);
    return ({ input, execution }) => failRun(needs, { failure: input, execution });
  });
}
