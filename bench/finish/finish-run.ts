/** One invocation of the deployed function FinishRun. */

import { finishRunHandler } from '../../functions/finish-run.ts';
import type { RunResult } from '../../lib/core/model.ts';
import { startMeasurement } from '../harness/measured-process.ts';
import { execution, exportName, runId } from './stores.ts';

const { env } = process;
/** Set by the parent process. */
const loadSettings = () => JSON.parse(env.SETTINGS ?? '') as unknown;
const input = { export: exportName, run: runId, executionNumber: 1, page: 1, iterations: 0, waits: 0 };

const finishRun = finishRunHandler(env, loadSettings);
const { finish } = startMeasurement();
const { pages } = (await finishRun(
  { input, execution },
  { awsRequestId: 'measured', getRemainingTimeInMillis: () => 900_000 },
)) as RunResult;
finish({ pages });
