/** The functions of a service as they are deployed, on a fake AWS. */

import { lambdaPlatform } from '../../../lib/aws/lambda/platform.ts';
import { afterEach, beforeEach, vi } from 'vitest';
import { beginRunHandler } from '../../../functions/begin-run.ts';
import { exportPageHandler } from '../../../functions/export-page.ts';
import { failRunHandler } from '../../../functions/fail-run.ts';
import { finishRunHandler } from '../../../functions/finish-run.ts';
import {
  environmentVariable,
  type FunctionEnvironment,
  functionSettings,
  settingsVersion,
} from '../../../lib/settings/deployed-settings.ts';
import type { BucketSettings } from '../../../lib/settings/deployment-settings.ts';
import { type Functions, monotonicNow } from '../export/function-machine.ts';
import { aDeployment } from '../settings.ts';
import type { FakeAws } from './fake-aws.ts';

/** The environment variables of the functions. The API key is the whole secret `reports/api-key`. */
export const functionEnvironment = ({ table }: Pick<FakeAws, 'table'>, changes: Partial<FunctionEnvironment> = {}) => {
  const environment: FunctionEnvironment = {
    version: settingsVersion,
    deployment: 'ReportExporter',
    service: 'acme',
    table,
    bucket: 'bucket',
    prefix: '',
    apiKeySecret: 'reports/api-key',
    ...changes,
  };
  return { [environmentVariable]: JSON.stringify(environment) };
};

/** The settings of a service as they are written. */
export interface WrittenSettings extends Pick<Partial<BucketSettings>, 'compression'> {
  readonly service: object;
  readonly exports: readonly object[];
}

/** The content of their settings file. */
const settingsOf = ({ service, exports, compression }: WrittenSettings) =>
  functionSettings(aDeployment(service, ...exports), compression);

/** The functions in new containers, whose settings file contains `settings`, with `env` as variables. */
export function deployedFunctions(
  aws: FakeAws,
  settings: WrittenSettings,
  env: Partial<FunctionEnvironment> = {},
): Functions {
  const environment = functionEnvironment(aws, env);
  const loadSettings = () => settingsOf(settings);
  const runtime = { ...lambdaPlatform.runtime, monotonicNow };
  const platform = { ...lambdaPlatform, createClient: aws.createClient, runtime };
  return {
    BeginRun: beginRunHandler(environment, loadSettings, platform),
    ExportPage: exportPageHandler(environment, loadSettings, platform),
    FinishRun: finishRunHandler(environment, loadSettings, platform),
    FailRun: failRunHandler(environment, loadSettings, platform),
  };
}

/** Captures what functions write to stdout and stderr, in each test of this file. Restores the environment. */
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
