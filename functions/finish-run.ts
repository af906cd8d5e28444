/** Lambda's door to FinishRun. */

import { stepDependencies, stepVariables } from '../lib/aws/lambda/dependencies.ts';
import { type Environment, type StepHandler, stepHandler } from '../lib/aws/lambda/step-handler.ts';
import { createS3Client } from '../lib/aws/s3/client.ts';
import { createS3PageStore } from '../lib/aws/s3/page-store.ts';
import { asRunId, type LoopState, type RunResult } from '../lib/core/model.ts';
import { readFunctionEnvironment } from '../lib/core/settings/environment.ts';
import { finishRun } from '../lib/core/steps/finish-run.ts';

export const handler = finishRunHandler(process.env);

// MERGED finish-run-handler.ts: FinishRun as a function: publishes the manifest, then moves the watermark.

export function finishRunHandler(env: Environment): StepHandler<RunResult> {
  return stepHandler((telemetry) => {
    const settings = readFunctionEnvironment(env, [...stepVariables, 'BUCKET_NAME', 'KEY_PREFIX']);
    const { BUCKET_NAME: bucket, KEY_PREFIX: prefix } = settings;
    const common = stepDependencies(settings, telemetry);
    const { runtime } = common;
    const deps = {
      ...common,
      store: createS3PageStore({ client: createS3Client(env), bucket, prefix, runtime }),
    };
    return ({ input, execution }) => finishRun(deps, { run: asRunId((input as LoopState).run), execution });
  });
}
