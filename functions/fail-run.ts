/** The FailRun function: records why the run failed. The next start resumes it. */

import { lambdaPlatform } from '../lib/aws/lambda/platform.ts';
import { type LoadSettings, openServiceContext, settingsIn } from '../lib/aws/lambda/service-context.ts';
import { type StepHandler, stepHandler } from '../lib/aws/lambda/step-handler.ts';
import type { Environment } from '../lib/aws/sdk-config.ts';
import { isExportError } from '../lib/core/errors.ts';
import { failRun, failUnknownExport, type RecordedFailure, recordedFailure } from '../lib/core/steps/fail-run.ts';

export function failRunHandler(
  env: Environment,
  loadSettings: LoadSettings,
  platform = lambdaPlatform,
): StepHandler<RecordedFailure> {
  return stepHandler((telemetry) => {
    const context = openServiceContext(env, loadSettings, telemetry, platform);
    return async ({ input: failure, execution, startInput }) => {
      let deps: ReturnType<typeof context.dependenciesFor>;
      try {
        deps = context.dependenciesFor(startInput);
      } catch (error) {
        if (!isExportError(error, 'ConfigurationError')) throw error;
        return recordedFailure(failUnknownExport(telemetry, failure));
      }
      return recordedFailure(await failRun(deps, { failure, execution, startInput }));
    };
  }, platform);
}

export const handler = failRunHandler(process.env, settingsIn(import.meta.dirname));
