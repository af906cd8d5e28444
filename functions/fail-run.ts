/** The FailRun function: records why the run failed. The next start resumes it. */

import { stepDependencies } from '../lib/aws/lambda/dependencies.ts';
import { type StepHandler, stepHandler } from '../lib/aws/lambda/step-handler.ts';
import type { Environment } from '../lib/aws/sdk-config.ts';
import type { FailedRun } from '../lib/core/model.ts';
import { readFunctionEnvironment, stepVariables } from '../lib/core/settings/environment.ts';
import { failRun } from '../lib/core/steps/fail-run.ts';

export function failRunHandler(env: Environment): StepHandler<FailedRun> {
  return stepHandler((telemetry) => {
    const settings = readFunctionEnvironment(env, stepVariables.FailRun);
    const deps = stepDependencies(settings, telemetry);
    return ({ input, execution }) => failRun(deps, { failure: input, execution });
  });
}

export const handler = failRunHandler(process.env);
