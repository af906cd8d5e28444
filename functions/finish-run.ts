/** The FinishRun function: publishes the manifest, then moves the watermark. */

import { functionPageStore } from '../lib/aws/lambda/page-store.ts';
import { lambdaPlatform } from '../lib/aws/lambda/platform.ts';
import { type LoadSettings, openServiceContext, settingsIn } from '../lib/aws/lambda/service-context.ts';
import { type StepHandler, stepHandler } from '../lib/aws/lambda/step-handler.ts';
import type { Environment } from '../lib/aws/sdk-config.ts';
import { asRunId, type LoopState, type RunResult } from '../lib/core/model.ts';
import { finishRun } from '../lib/core/steps/finish-run.ts';

export function finishRunHandler(
  env: Environment,
  loadSettings: LoadSettings,
  platform = lambdaPlatform,
): StepHandler<RunResult> {
  return stepHandler((telemetry) => {
    const context = openServiceContext(env, loadSettings, telemetry, platform);
    const store = functionPageStore(context, env, platform);
    return async ({ input, execution }) => {
      const deps = { ...context.dependenciesFor(input), store };
      return await finishRun(deps, { run: asRunId((input as LoopState).run), execution });
    };
  }, platform);
}

export const handler = finishRunHandler(process.env, settingsIn(import.meta.dirname));
