/** The BeginRun function: begins a run, resumes an unfinished one, or skips. */

import { SFNClient } from '@aws-sdk/client-sfn';
import { type LoadSettings, openServiceContext, settingsIn } from '../lib/aws/lambda/service-context.ts';
import { lambdaPlatform } from '../lib/aws/lambda/platform.ts';
import { type StepHandler, stepHandler } from '../lib/aws/lambda/step-handler.ts';
import { type Environment, sdkConfig } from '../lib/aws/sdk-config.ts';
import { createExecutions } from '../lib/aws/step-functions/executions.ts';
import { type BeginRunOutcome, beginRun } from '../lib/core/steps/begin-run.ts';

export function beginRunHandler(
  env: Environment,
  loadSettings: LoadSettings,
  platform = lambdaPlatform,
): StepHandler<BeginRunOutcome> {
  return stepHandler((telemetry) => {
    const context = openServiceContext(env, loadSettings, telemetry, platform);
    const client = platform.createClient(SFNClient, sdkConfig);
    return async ({ input, execution }) => {
      const executions = createExecutions(client, execution);
      return await beginRun({ ...context.dependenciesFor(input), executions }, { input, execution });
    };
  }, platform);
}

export const handler = beginRunHandler(process.env, settingsIn(import.meta.dirname));
