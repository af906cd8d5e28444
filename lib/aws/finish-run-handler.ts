/** FinishRun as a function: publishes the manifest, then moves the watermark. */

import { asRunId, type RunResult } from '../core/model.ts';
import { readFunctionEnvironment } from '../core/settings/environment.ts';
import { finishRun } from '../core/steps/finish-run.ts';
import type { Turn } from '../core/turn.ts';
import { stepNeeds, stepVariables } from './lambda/dependencies.ts';
import { type Environment, type StepHandler, stepHandler } from './lambda/step-handler.ts';
import { createS3Client } from './s3/client.ts';
import { createS3PageStore } from './s3/page-store.ts';

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
