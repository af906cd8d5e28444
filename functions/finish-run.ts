/** The FinishRun function: publishes the manifest, then moves the watermark. */

import { S3Client } from '@aws-sdk/client-s3';
import { lambdaPlatform } from '../lib/aws/lambda/platform.ts';
import { type LoadSettings, openServiceContext, settingsIn } from '../lib/aws/lambda/service-context.ts';
import { type StepHandler, stepHandler } from '../lib/aws/lambda/step-handler.ts';
import { s3ClientConfig } from '../lib/aws/s3/client.ts';
import { createS3PageStore } from '../lib/aws/s3/page-store.ts';
import type { Environment } from '../lib/aws/sdk-config.ts';
import { asRunId, type LoopState, type RunResult } from '../lib/core/model.ts';
import { finishRun } from '../lib/core/steps/finish-run.ts';

export function finishRunHandler(
  env: Environment,
  loadSettings: LoadSettings,
  platform = lambdaPlatform,
): StepHandler<RunResult> {
  return stepHandler((telemetry) => {
    const context = openServiceContext('FinishRun', env, loadSettings, telemetry, platform);
    const store = createS3PageStore({
      client: platform.createClient(S3Client, s3ClientConfig(env)),
      bucket: context.environment.BUCKET_NAME,
      prefix: context.environment.KEY_PREFIX,
      objects: context.objects,
      kmsKeyArn: context.environment.BUCKET_KMS_KEY_ARN || undefined,
      runtime: platform.runtime,
      partBytes: platform.partBytes,
    });
    return async ({ input, execution }) => {
      const deps = { ...context.dependenciesFor(input), store };
      return await finishRun(deps, { run: asRunId((input as LoopState).run), execution });
    };
  }, platform);
}

export const handler = finishRunHandler(process.env, settingsIn(import.meta.dirname));
