/**
 * Two runs of the deployed functions, with the state machine interpreted around them. The second is measured, from its first page
 * to its last: in a long run nearly all invocations find a warm function.
 */

import { beginRunHandler } from '../../functions/begin-run.ts';
import { exportPageHandler } from '../../functions/export-page.ts';
import { failRunHandler } from '../../functions/fail-run.ts';
import { finishRunHandler } from '../../functions/finish-run.ts';
import { execute, type Functions } from '../../test/support/export/function-machine.ts';
import { startMeasurement } from '../harness/measured-process.ts';

const { env } = process;
/** Set by the parent process. */
const loadSettings = () => JSON.parse(env.SETTINGS ?? '') as unknown;
const readClocks = () => ({ wallMs: performance.now(), cpu: process.cpuUsage() });
type Clocks = ReturnType<typeof readClocks>;
let loop: { readonly start: Clocks; end?: Clocks } | undefined;

const exportPage = exportPageHandler(env, loadSettings);
const functions: Functions = {
  BeginRun: beginRunHandler(env, loadSettings),
  async ExportPage(event, context) {
    loop ??= { start: readClocks() };
    const outcome = await exportPage(event, context);
    loop.end = readClocks();
    return outcome;
  },
  FinishRun: finishRunHandler(env, loadSettings),
  FailRun: failRunHandler(env, loadSettings),
};

const remainingMs = 900_000;

async function run(name: string): Promise<number> {
  let result = await execute(functions, { name, remainingMs });
  while (result.next !== undefined) result = await execute(functions, { ...result.next, remainingMs });
  if (result.status !== 'succeeded') throw new Error(`The run failed: ${result.error} ${String(result.cause)}`);
  return (result.output as { pages: number }).pages;
}

await run('warm-up');
loop = undefined;
const { finish } = startMeasurement();
const pages = await run('measured');
const { start, end = start } = loop ?? { start: readClocks() };
const cpuMs = ({ cpu }: Clocks) => (cpu.user + cpu.system) / 1_000;
finish({ pages, loopMs: end.wallMs - start.wallMs, loopCpuMs: cpuMs(end) - cpuMs(start) });
