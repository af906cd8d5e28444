/** `report-exporter abandon`: abandons an unfinished run after a confirmation. */

import { boundedStateName } from '../../core/bounded-runs.ts';
import { ExportError } from '../../core/errors.ts';
import { readProgress } from '../../core/run-progress.ts';
import { abandonRun, requireAbandonableRun } from '../abandon-run.ts';
import { type CommandContext, exitStatuses, openExport, runOnDeployment, type TargetOptions } from '../context.ts';
import { plural } from '../output/format.ts';
import { ask } from '../output/question.ts';
import { readBounds } from '../run-options.ts';

export interface AbandonOptions extends TargetOptions {
  /** With `until`: the bounded run of these bounds. */
  readonly since?: string;
  readonly until?: string;
  readonly yes?: boolean;
}

export async function abandonCommand(
  exportName: string | undefined,
  options: AbandonOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  const { stdout, stderr } = context;
  const problems = [...usageErrors];
  const bounds = readBounds(options, problems);
  return await runOnDeployment(
    options,
    problems,
    context,
    async (deployment) => {
      const deployed = await openExport(deployment, exportName);
      const { name, log, store, executions } = deployed;
      const stateName = bounds === undefined ? name : boundedStateName(name, bounds);
      const run = await requireAbandonableRun({ store, executions }, await log.exportState(stateName), stateName);
      const { pages } = (await readProgress(log, run)).totals;
      const { since, until, bounded } = run;
      const period = bounded === true ? `from ${since} to ${until}` : `since ${since}`;
      stderr.write(`Run ${run.run} of export ${name}, ${period}: ${plural(pages, 'page')} stored, none published.\n`);
      stderr.write(
        bounded === true
          ? 'An abandoned run is never published. Another start with these bounds begins a new one. A series that it is part of ends.\n'
          : 'An abandoned run is never published. The next start begins a new run, which exports its reports again.\n',
      );
      if (await executions.isRunning(run.execution)) {
        stderr.write(`Execution ${run.execution} is working on it and will end at its next step.\n`);
      }
      if (options.yes !== true && !(await confirm(`Abandon run ${run.run}?`, context))) return unconfirmed(context);
      const next = bounded === true ? `start ${name} --since ${since} --until ${until}` : `plan ${name}`;
      await abandonRun({ log, store, executions }, run);
      stdout.write(
        options.json === true
          ? `${JSON.stringify({ status: 'abandoned', export: name, run: run.run, ...(bounded && { since, until, bounded }), pages })}\n`
          : `Abandoned: run ${run.run}\n  → next: ${context.program} ${next} ${deployment.option}\n`,
      );
      return exitStatuses.ok;
    },
    { handlesInterruption: true },
  );
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
