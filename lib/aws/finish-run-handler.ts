/** FinishRun as a function: publishes the manifest, then moves the watermark. */

import { finishRun } from '../core/finish-run.ts';
import { readFunctionEnvironment } from '../core/function-environment.ts';
import { asRunId, type RunResult } from '../core/model.ts';
import type { Turn } from '../core/turn.ts';
import { createS3Client } from './s3-client.ts';
import { createS3PageStore } from './s3-page-store.ts';
import { type Environment, type StepHandler, stepHandler } from './step-handler.ts';
import { stepNeeds, stepVariables } from './step-needs.ts';

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
