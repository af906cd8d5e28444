/** Lambda's door to BeginRun. */

import { SFNClient } from '@aws-sdk/client-sfn';
import { stepDependencies, stepVariables } from '../lib/aws/lambda/dependencies.ts';
import { type Environment, type StepHandler, stepHandler } from '../lib/aws/lambda/step-handler.ts';
import { sdkConfig } from '../lib/aws/sdk-config.ts';
import { createExecutions } from '../lib/aws/step-functions/executions.ts';
import { readFunctionEnvironment } from '../lib/core/settings/environment.ts';
import { type BeginRunOutcome, beginRun } from '../lib/core/steps/begin-run.ts';

export const handler = beginRunHandler(process.env);

// MERGED begin-run-handler.ts: BeginRun as a function: a new run, the rest of an unfinished one, or nothing.

export function beginRunHandler(env: Environment): StepHandler<BeginRunOutcome> {
  return stepHandler((telemetry) => {
    const deps = {
      ...stepDependencies(readFunctionEnvironment(env, stepVariables), telemetry),
      executions: createExecutions(new SFNClient(sdkConfig)),
    };
    return ({ input, execution }) => beginRun(deps, { input, execution });
  });
}
