/** One invocation of the deployed function FinishRun, with its adapters. */

import { finishRunHandler } from '../../functions/finish-run.ts';
import type { RunResult } from '../../lib/core/model.ts';
import { settingsVersion } from '../../lib/settings/deployed-settings.ts';
import { deploymentOf } from '../harness/deployment.ts';
import { startMeasurement } from '../harness/processes.ts';
import { run } from '../servers/run-of-pages.ts';

const settings = {
  version: settingsVersion,
  ...deploymentOf({ baseUrl: 'http://127.0.0.1' }, { name: run.export }),
} as const;
const input = { export: run.export, run: run.run, executionNumber: 1, page: 1, iterations: 0, waits: 0 };

const finishRun = finishRunHandler(process.env, () => settings);
const { finish } = startMeasurement();
const { pages } = (await finishRun(
  { input, execution: run.execution },
  { awsRequestId: 'measured', getRemainingTimeInMillis: () => 900_000 },
)) as RunResult;
finish(pages);
