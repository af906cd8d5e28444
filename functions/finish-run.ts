/** The FinishRun function: publishes the manifest, then moves the watermark. */

import { stepDependencies } from '../lib/aws/lambda/dependencies.ts';
import { type StepHandler, stepHandler } from '../lib/aws/lambda/step-handler.ts';
import { createS3Client } from '../lib/aws/s3/client.ts';
import { createS3PageStore } from '../lib/aws/s3/page-store.ts';
import type { Environment } from '../lib/aws/sdk-config.ts';
import { asRunId, type LoopState, type RunResult } from '../lib/core/model.ts';
import { readFunctionEnvironment, stepVariables } from '../lib/core/settings/environment.ts';
import { finishRun } from '../lib/core/steps/finish-run.ts';

export function finishRunHandler(env: Environment): StepHandler<RunResult> {
  return stepHandler((telemetry) => {
    const settings = readFunctionEnvironment(env, stepVariables.FinishRun);
    const common = stepDependencies(settings, telemetry);
    const deps = {
      ...common,
      store: createS3PageStore({
        client: createS3Client(env),
        bucket: settings.BUCKET_NAME,
        prefix: settings.KEY_PREFIX,
        runtime: common.runtime,
      }),
    };
    return ({ input, execution }) => finishRun(deps, { run: asRunId((input as LoopState).run), execution });
  });
}

export const handler = finishRunHandler(process.env);
