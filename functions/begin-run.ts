/** The BeginRun function: begins a run, resumes an unfinished one, or skips. */

import { SFNClient } from '@aws-sdk/client-sfn';
import { stepDependencies } from '../lib/aws/lambda/dependencies.ts';
import { type StepHandler, stepHandler } from '../lib/aws/lambda/step-handler.ts';
import { type Environment, sdkConfig } from '../lib/aws/sdk-config.ts';
import { createExecutions } from '../lib/aws/step-functions/executions.ts';
import { readFunctionEnvironment, stepVariables } from '../lib/core/settings/environment.ts';
import { type BeginRunOutcome, beginRun } from '../lib/core/steps/begin-run.ts';

export function beginRunHandler(env: Environment): StepHandler<BeginRunOutcome> {
  return stepHandler((telemetry) => {
    const settings = readFunctionEnvironment(env, stepVariables.BeginRun);
    const deps = {
      ...stepDependencies(settings, telemetry),
      executions: createExecutions(new SFNClient(sdkConfig)),
    };
    return ({ input, execution }) => beginRun(deps, { input, execution });
  });
}

export const handler = beginRunHandler(process.env);
