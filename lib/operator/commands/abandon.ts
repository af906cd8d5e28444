/** `report-exporter abandon`: abandons an unfinished run, after a confirmation. */

import { ExportError } from '../../core/errors.ts';
import { abandonRun, requireAbandonableRun } from '../../core/operations/abandon-run.ts';
import { type CommandContext, exitStatuses, openExport, runOnDeployment, type TargetOptions } from '../context.ts';
import { plural } from '../output/format.ts';
import { ask, type TerminalInput } from '../output/question.ts';

export interface AbandonOptions extends TargetOptions {
  readonly yes?: boolean;
}

/** A context in which a command can ask a question. */
export interface InteractiveContext extends CommandContext {
  readonly stdin: TerminalInput;
}

export async function abandonCommand(
  exportName: string | undefined,
  options: AbandonOptions,
  usageErrors: readonly string[],
  context: InteractiveContext,
): Promise<number> {
  const { stdout, stderr, signal } = context;
  return await runOnDeployment(
    options,
    usageErrors,
    context,
    async (deployment) => {
      const { name, log, store, executions } = await openExport(deployment, exportName);
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
      if (options.yes !== true && !(await confirm(`Abandon run ${run.run}?`, context))) {
        stderr.write('Nothing was changed.\n');
        return signal.aborted ? exitStatuses.interrupted : exitStatuses.failed;
      }
      await abandonRun({ log, store, executions }, run);
      if (options.json === true) {
        stdout.write(`${JSON.stringify({ status: 'abandoned', export: name, run: run.run, pages })}\n`);
      } else {
        stdout.write(`Abandoned: run ${run.run}\n  → next: ${context.program} plan ${name} ${deployment.option}\n`);
      }
      return exitStatuses.ok;
    },
    { handlesInterruption: true },
  );
}

/** Whether the person at the terminal says yes. @throws ConfigurationError if there is no terminal */
async function confirm(question: string, { stdin, stderr, signal }: InteractiveContext): Promise<boolean> {
  if (stdin.isTTY !== true || stderr.isTTY !== true) {
    throw new ExportError('ConfigurationError', '--yes: required if there is no terminal to ask for confirmation');
  }
  return /^y(es)?$/i.test((await ask(`${question} [y/N] `, { stdin, stderr, signal }))?.trim() ?? '');
}
