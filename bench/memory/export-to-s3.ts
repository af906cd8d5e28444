/** Exports all pages of a run to S3 with the deployed functions begin-run and export-page, in one warm container. */

import { beginRunHandler } from '../../functions/begin-run.ts';
import { exportPageHandler } from '../../functions/export-page.ts';
import type { ExportPageOutcome } from '../../lib/core/steps/export-page.ts';
import { executionArn } from '../../test/support/export/function-machine.ts';
import { startMeasurement } from '../harness/measured-process.ts';

const { env } = process;
/** Set by the parent process. */
const loadSettings = () => JSON.parse(env.SETTINGS ?? '') as unknown;
const execution = executionArn('measured');
const context = { awsRequestId: 'measured', getRemainingTimeInMillis: () => 900_000 };

const { finish } = startMeasurement();
const exportPage = exportPageHandler(env, loadSettings);
let loop: unknown = await beginRunHandler(env, loadSettings)({ input: {}, execution }, context);
let pages = 0;
for (let next = ''; next !== 'finish';) {
  const outcome = (await exportPage({ input: loop, execution }, context)) as ExportPageOutcome;
  if (outcome.next === 'wait' || outcome.next === 'queue') throw new Error('The service requested a wait');
  ({ next } = outcome);
  pages = outcome.page - 1;
  // The run would continue in a new execution here; for the function that makes no difference.
  loop = { ...outcome, iterations: 0 };
}
finish({ pages });
