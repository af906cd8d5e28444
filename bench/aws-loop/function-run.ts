/**
 * A run by the functions as they are deployed, with the state machine interpreted around them. Of two runs the second is
 * told of, as nearly all of a long run finds its functions warm; and of that the loop, from its first page to its last.
 */

import { beginRunHandler } from '../../functions/begin-run.ts';
import { exportPageHandler } from '../../functions/export-page.ts';
import { failRunHandler } from '../../functions/fail-run.ts';
import { finishRunHandler } from '../../functions/finish-run.ts';
import { execute, type Functions } from '../../test/support/export/function-machine.ts';
import { measuring } from '../harness/measured-process.ts';

const { env } = process;
const moment = () => ({ wallMs: performance.now(), cpu: process.cpuUsage() });
let loop: { readonly begun: ReturnType<typeof moment>; ended?: ReturnType<typeof moment> } | undefined;

const exportPage = exportPageHandler(env);
const functions: Functions = {
  BeginRun: beginRunHandler(env),
  async ExportPage(event, context) {
    loop ??= { begun: moment() };
    const outcome = await exportPage(event, context);
    loop.ended = moment();
    return outcome;
  },
  FinishRun: finishRunHandler(env),
  FailRun: failRunHandler(env),
};

/** As long as a function may run. */
const remainingMs = 900_000;

async function run(name: string): Promise<number> {
  let told = await execute(functions, { name, remainingMs });
  while (told.next !== undefined) told = await execute(functions, { ...told.next, remainingMs });
  if (told.status !== 'succeeded') throw new Error(`The run failed: ${told.error} ${String(told.cause)}`);
  return (told.output as { pages: number }).pages;
}

await run('warming-up');
loop = undefined;
const { tell } = measuring();
const pages = await run('measured');
const { begun, ended = begun } = loop ?? { begun: moment() };
const cpu = (of: NodeJS.CpuUsage) => (of.user + of.system) / 1_000;
tell({ pages, loopMs: ended.wallMs - begun.wallMs, loopCpuMs: cpu(ended.cpu) - cpu(begun.cpu) });
