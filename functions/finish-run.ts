/** Lambda's door to FinishRun. */

import { stepNeeds, stepVariables } from '../lib/aws/lambda/dependencies.ts';
import { type Environment, type StepHandler, stepHandler } from '../lib/aws/lambda/step-handler.ts';
import { createS3Client } from '../lib/aws/s3/client.ts';
import { createS3PageStore } from '../lib/aws/s3/page-store.ts';
import { asRunId, type RunResult, type Turn } from '../lib/core/model.ts';
import { readFunctionEnvironment } from '../lib/core/settings/environment.ts';
import { finishRun } from '../lib/core/steps/finish-run.ts';

export const handler = finishRunHandler(process.env);

// MERGED finish-run-handler.ts: FinishRun as a function: publishes the manifest, then moves the watermark.

export function finishRunHandler(env: Environment): StepHandler<RunResult> {
  return stepHandler((telemetry) => {
    const settings = readFunctionEnvironment(env, [...stepVariables, 'BUCKET_NAME', 'KEY_PREFIX']);
    const { BUCKET_NAME: bucket, KEY_PREFIX: prefix } = settings;
    const common = stepNeeds(settings, telemetry);
    const { surroundings } = common;
    const needs = {
      ...common,
      store: createS3PageStore({ client: createS3Client(env), bucket, prefix, surroundings }),
    };
    return ({ input, execution }) => finishRun(needs, { run: asRunId((input as Turn).run), execution });
  });
}
