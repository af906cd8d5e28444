/** The FinishRun function: publishes the manifest, then moves the watermark. */

import { type LoadSettings, openServiceContext, settingsIn } from '../lib/aws/lambda/service-context.ts';
import { type StepHandler, stepHandler } from '../lib/aws/lambda/step-handler.ts';
import { createS3Client } from '../lib/aws/s3/client.ts';
import { createS3PageStore } from '../lib/aws/s3/page-store.ts';
import type { Environment } from '../lib/aws/sdk-config.ts';
import { systemRuntime } from '../lib/core/clock.ts';
import { asRunId, type LoopState, type RunResult } from '../lib/core/model.ts';
import { finishRun } from '../lib/core/steps/finish-run.ts';

export function finishRunHandler(env: Environment, loadSettings: LoadSettings): StepHandler<RunResult> {
  return stepHandler((telemetry) => {
    const context = openServiceContext('FinishRun', env, loadSettings, telemetry);
    const store = createS3PageStore({
      client: createS3Client(env),
      bucket: context.environment.BUCKET_NAME,
      prefix: context.environment.KEY_PREFIX,
      objects: context.objects,
      kmsKeyArn: context.environment.BUCKET_KMS_KEY_ARN || undefined,
      runtime: systemRuntime,
    });
    return async ({ input, execution }) => {
      const deps = { ...context.dependenciesFor(input), store };
      return await finishRun(deps, { run: asRunId((input as LoopState).run), execution });
    };
  });
}

export const handler = finishRunHandler(process.env, settingsIn(import.meta.dirname));
