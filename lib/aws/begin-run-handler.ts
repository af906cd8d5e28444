/** BeginRun as a function: a new run, the rest of an unfinished one, or nothing. */

import { SFNClient } from '@aws-sdk/client-sfn';
import { type BeginRunOutcome, beginRun } from '../core/begin-run.ts';
import { readFunctionEnvironment } from '../core/function-environment.ts';
import { createExecutions } from './executions.ts';
import { sdkSettings } from './sdk-settings.ts';
import { type Environment, type StepHandler, stepHandler } from './step-handler.ts';
import { stepNeeds, stepVariables } from './step-needs.ts';

export function beginRunHandler(env: Environment): StepHandler<BeginRunOutcome> {
  return stepHandler((telemetry) => {
    const needs = {
      ...stepNeeds(readFunctionEnvironment(env, stepVariables), telemetry),
      executions: createExecutions(new SFNClient(sdkSettings)),
    };
    return ({ input, execution }) => beginRun(needs, { input, execution });
  });
}
