/** The functions of a service as they are deployed, on a local AWS. */

import { afterEach, beforeEach, vi } from 'vitest';
import { beginRunHandler } from '../../../functions/begin-run.ts';
import { exportPageHandler } from '../../../functions/export-page.ts';
import { failRunHandler } from '../../../functions/fail-run.ts';
import { finishRunHandler } from '../../../functions/finish-run.ts';
import { type FunctionOptions, functionSettings } from '../../../lib/cdk/settings/deployed-export.ts';
import { exportSettingsSchema, serviceSettingsSchema } from '../../../lib/settings/settings.ts';
import type { Functions } from '../export/function-machine.ts';
import type { LocalAws } from './local-aws.ts';

/** The environment variables of the functions. The API key is the whole secret `reports/api-key`. */
export const functionEnvironment = (aws: LocalAws, changes: Readonly<Record<string, string>> = {}) => ({
  ...aws.env,
  DEPLOYMENT_NAME: 'ReportExporter',
  SERVICE_NAME: 'acme',
  TABLE_NAME: aws.table,
  BUCKET_NAME: 'bucket',
  KEY_PREFIX: '',
  BUCKET_KMS_KEY_ARN: '',
  API_KEY_SECRET_ID: 'reports/api-key',
  API_KEY_SECRET_FIELD: '',
  ...changes,
});

/** The settings of a service as they are written. */
export interface WrittenSettings extends FunctionOptions {
  readonly service: object;
  readonly exports: readonly object[];
}

/** The content of their settings file. */
export const settingsOf = ({ service, exports, ...options }: WrittenSettings) =>
  functionSettings(
    serviceSettingsSchema.parse(service),
    exports.map((each) => exportSettingsSchema.parse(each)),
    options,
  );

/** The functions in new containers, whose settings file contains `settings`. `env` changes their environment variables. */
export function deployedFunctions(
  aws: LocalAws,
  settings: WrittenSettings,
  env: Readonly<Record<string, string>> = {},
): Functions {
  const environment = functionEnvironment(aws, env);
  // The SDK reads its endpoints, region and credentials from the environment of the process.
  for (const [name, value] of Object.entries(environment)) if (name.startsWith('AWS_')) vi.stubEnv(name, value);
  const loadSettings = () => settingsOf(settings);
  return {
    BeginRun: beginRunHandler(environment, loadSettings),
    ExportPage: exportPageHandler(environment, loadSettings),
    FinishRun: finishRunHandler(environment, loadSettings),
    FailRun: failRunHandler(environment, loadSettings),
  };
}

/** Captures what functions write to stdout and stderr, in each test of this file. Restores the environment after each. */
export function captureOutput() {
  let written: string[] = [];
  const capture = (chunk: unknown) => {
    written.push(String(chunk));
    return true;
  };
  beforeEach(() => {
    written = [];
    vi.spyOn(process.stdout, 'write').mockImplementation(capture);
    vi.spyOn(process.stderr, 'write').mockImplementation(capture);
  });
  afterEach(() => {
    vi.restoreAllMocks();
    vi.unstubAllEnvs();
  });
  const text = () => written.join('');
  return {
    /** What has been written in this test. */
    text,
    /** Its lines, each of which is JSON. */
    lines: () =>
      text()
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line) as Record<string, unknown>),
  };
}
