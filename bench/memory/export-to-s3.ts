/** A run by begin-run and export-page as they are deployed, until its pages are all in S3: one container, warm throughout. */

import { beginRunHandler } from '../../functions/begin-run.ts';
import { exportPageHandler } from '../../functions/export-page.ts';
import type { ExportPageOutcome } from '../../lib/core/steps/export-page.ts';
import { executionArn } from '../../test/support/export/function-machine.ts';
import { measuring } from '../harness/measured-process.ts';

const { env } = process;
const execution = executionArn('measured');
/** As long as a function may run. */
const context = { awsRequestId: 'measured', getRemainingTimeInMillis: () => 900_000 };

const { tell } = measuring();
const exportPage = exportPageHandler(env);
let loop: unknown = await beginRunHandler(env)({ input: {}, execution }, context);
let pages = 0;
for (let next = ''; next !== 'finish'; ) {
  const outcome: ExportPageOutcome = await exportPage({ input: loop, execution }, context);
  if (outcome.next === 'wait') throw new Error('the service asked to wait');
  ({ next } = outcome);
  pages = outcome.page - 1;
  // Another execution would take the run over here; to the function that makes no difference.
  loop = { ...outcome, iterations: 0 };
}
tell({ pages });
