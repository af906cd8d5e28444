/** FailRun as a function: records the failure; the next start goes on from it. */

import type { FailedRun } from '../core/model.ts';
import { readFunctionEnvironment } from '../core/settings/environment.ts';
import { failRun } from '../core/steps/fail-run.ts';
import { stepNeeds, stepVariables } from './lambda/dependencies.ts';
import { type Environment, type StepHandler, stepHandler } from './lambda/step-handler.ts';

export function failRunHandler(env: Environment): StepHandler<FailedRun> {
  return stepHandler((telemetry) => {
    const needs = stepNeeds(readFunctionEnvironment(env, stepVariables), telemetry);
    return ({ input, execution }) => failRun(needs, { failure: input, execution });
  });
}
