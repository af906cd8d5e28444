/** Lambda's door to FailRun. */

import { stepDependencies, stepVariables } from '../lib/aws/lambda/dependencies.ts';
import { type Environment, type StepHandler, stepHandler } from '../lib/aws/lambda/step-handler.ts';
import type { FailedRun } from '../lib/core/model.ts';
import { readFunctionEnvironment } from '../lib/core/settings/environment.ts';
import { failRun } from '../lib/core/steps/fail-run.ts';

export const handler = failRunHandler(process.env);

// MERGED fail-run-handler.ts: FailRun as a function: records the failure; the next start goes on from it.

export function failRunHandler(env: Environment): StepHandler<FailedRun> {
  return stepHandler((telemetry) => {
    const deps = stepDependencies(readFunctionEnvironment(env, stepVariables), telemetry);
    return ({ input, execution }) => failRun(deps, { failure: input, execution });
  });
}
