/** BeginRun as a function: a new run, the rest of an unfinished one, or nothing. */

import { SFNClient } from '@aws-sdk/client-sfn';
import { readFunctionEnvironment } from '../core/settings/environment.ts';
import { type BeginRunOutcome, beginRun } from '../core/steps/begin-run.ts';
import { stepNeeds, stepVariables } from './lambda/dependencies.ts';
import { type Environment, type StepHandler, stepHandler } from './lambda/step-handler.ts';
import { sdkSettings } from './sdk-config.ts';
import { createExecutions } from './step-functions/executions.ts';

export function beginRunHandler(env: Environment): StepHandler<BeginRunOutcome> {
  return stepHandler((telemetry) => {
    const needs = {
      ...stepNeeds(readFunctionEnvironment(env, stepVariables), telemetry),
      executions: createExecutions(new SFNClient(sdkSettings)),
    };
    return ({ input, execution }) => beginRun(needs, { input, execution });
  });
}
