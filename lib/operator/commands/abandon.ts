/** `report-exporter abandon`: abandons an unfinished run, or a backfill, after a confirmation. */

import { ExportError } from '../../core/errors.ts';
import { abandonRun, requireAbandonableRun } from '../abandon-run.ts';
import { systemRuntime } from '../../core/clock.ts';
import { abandonBackfill, maxFunctionMs } from '../../backfill/abandon.ts';
import { readBackfillStatus } from '../../backfill/status.ts';
import type { DeployedExport } from '../../target/target.ts';
import { type CommandContext, exitStatuses, openExport, runOnDeployment, type TargetOptions } from '../context.ts';
import { backfillLines, publishingText } from '../output/backfill-table.ts';
import { plural } from '../output/format.ts';
import { ask } from '../output/question.ts';
import { textStyleFor } from '../output/terminal.ts';

export interface AbandonOptions extends TargetOptions {
  /** The backfill instead of the run. */
  readonly backfill?: boolean;
  readonly yes?: boolean;
}

export async function abandonCommand(
  exportName: string | undefined,
  options: AbandonOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  const { stdout, stderr } = context;
  return await runOnDeployment(
    options,
    usageErrors,
    context,
    async (deployment) => {
      const deployed = await openExport(deployment, exportName);
      if (options.backfill === true) return await abandonPeriod(deployed, options, context);
      const { name, log, store, executions } = deployed;
      const run = await requireAbandonableRun({ store, executions }, await log.exportState(name), name);
      const pages = (await log.last(run))?.page ?? 0;
      stderr.write(
        `Run ${run.run} of export ${name}, since ${run.since}: ${plural(pages, 'page')} stored, none published.\n`,
      );
      stderr.write(
        'An abandoned run is never published. The next start begins a new run, which exports its reports again.\n',
      );
      if (await executions.isRunning(run.execution)) {
        stderr.write(`Execution ${run.execution} is working on it and will end at its next step.\n`);
      }
      if (options.yes !== true && !(await confirm(`Abandon run ${run.run}?`, context))) return unconfirmed(context);
      await abandonRun({ log, store, executions }, run);
      stdout.write(
        options.json === true
          ? `${JSON.stringify({ status: 'abandoned', export: name, run: run.run, pages })}\n`
          : `Abandoned: run ${run.run}\n  → next: ${context.program} plan ${name} ${deployment.option}\n`,
      );
      return exitStatuses.ok;
    },
    { handlesInterruption: true },
  );
}

async function abandonPeriod(
  deployed: DeployedExport,
  { yes, json }: AbandonOptions,
  context: CommandContext,
): Promise<number> {
  const { name, log, backfills, store, executions } = deployed;
  const { stdout, stderr, env } = context;
  const status = await readBackfillStatus(deployed, name);
  if (status !== undefined && status.state !== 'completed') {
    stderr.write(`Backfill of export ${name}:\n${backfillLines(status, textStyleFor(stderr, env)).join('\n')}\n`);
    stderr.write(
      'Windows that are done stay published. No other window will be exported. Unfinished ones are never published, except those that have begun to be published.\n',
    );
    if (yes !== true && !(await confirm(`Abandon the backfill of ${name}?`, context))) return unconfirmed(context);
  }
  // Recorded first: an execution that begins a window meanwhile finds it.
  const maxInvocationMs = deployed.probeFromFunction === undefined ? 0 : maxFunctionMs;
  const { abandonedRuns, publishing } = await abandonBackfill(
    { log, backfills, store, executions, runtime: systemRuntime, maxInvocationMs },
    name,
  );
  const stopped = await deployed.stopBackfill();
  if (stopped !== undefined) stderr.write(`Stopped execution ${stopped}\n`);
  const runs = plural(abandonedRuns, 'unfinished run');
  stdout.write(
    json === true
      ? `${JSON.stringify({ status: 'abandoned', export: name, backfill: true, abandonedRuns, publishing })}\n`
      : `Abandoned: the backfill of ${name}, with ${runs}\n${publishing.map(publishingText).join('')}`,
  );
  return exitStatuses.ok;
}

function unconfirmed({ stderr, signal }: CommandContext): number {
  stderr.write('Nothing was changed.\n');
  return signal.aborted ? exitStatuses.interrupted : exitStatuses.failed;
}

/** Whether the person at the terminal says yes. @throws ConfigurationError if there is no terminal */
async function confirm(question: string, { stdin, stderr, signal }: CommandContext): Promise<boolean> {
  if (stdin.isTTY !== true || stderr.isTTY !== true) {
    throw new ExportError('ConfigurationError', '--yes: required if there is no terminal to ask for confirmation');
  }
  return /^y(es)?$/i.test((await ask(`${question} [y/N] `, { stdin, stderr, signal }))?.trim() ?? '');
}
