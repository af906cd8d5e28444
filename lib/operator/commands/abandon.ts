/** `report-exporter abandon`: gives up an unfinished run, once a person has said that this is meant. */

import { createInterface } from 'node:readline/promises';
import { ExportError } from '../../core/errors.ts';
import { requireAbandonableRun, abandonRun } from '../../core/operations/abandon-run.ts';
import { type CommandContext, exitStatuses, openExport, operate, type PlaceOptions } from '../context.ts';
import { plural } from '../output/format.ts';

export interface AbandonOptions extends PlaceOptions {
  readonly yes?: boolean;
}

/** Where the answer comes from. */
export interface Asking {
  readonly stdin: NodeJS.ReadableStream & { readonly isTTY?: boolean };
}

export async function abandonCommand(
  exportName: string | undefined,
  options: AbandonOptions,
  problems: readonly string[],
  world: CommandContext & Asking,
): Promise<number> {
  return await operate(
    options,
    problems,
    world,
    async (installation) => {
      const { name, log, store, executions } = await openExport(installation, exportName);
      const run = await requireAbandonableRun({ store, executions }, await log.exportState(name), name);
      const last = await log.last(run);
      const isRunning = await executions.isRunning(run.execution);
      const about = [
        `Run ${run.run} of export ${name}, since ${run.since}: ${plural(last?.page ?? 0, 'page')} stored, none published.`,
        'Given up, it is never published; the next start begins a new run at the watermark and asks for its reports again.',
        ...(isRunning ? [`It is being worked on by ${run.execution}, which will end at its next step.`] : []),
      ];
      world.stderr.write(`${about.join('\n')}\n`);
      if (options.yes !== true && !(await isMeant(run.run, world))) {
        world.stderr.write('Nothing was changed.\n');
        return world.signal.aborted ? exitStatuses.interrupted : exitStatuses.failed;
      }
      await abandonRun({ log, store, executions }, run);
      if (options.json === true) {
        world.stdout.write(
          `${JSON.stringify({ status: 'abandoned', export: name, run: run.run, pages: last?.page ?? 0 })}\n`,
        );
      } else {
        world.stdout.write(`Given up: run ${run.run}\n  → npx report-exporter plan ${name} ${installation.option}\n`);
      }
      return exitStatuses.ok;
    },
    { endsItself: true },
  );
}

async function isMeant(run: string, { stdin, stderr, signal }: CommandContext & Asking): Promise<boolean> {
  if (stdin.isTTY !== true || stderr.isTTY !== true) {
    throw new ExportError(
      'ConfigurationError',
      '--yes: needed where nobody can be asked; without it nothing is given up',
    );
  }
  const asking = createInterface({ input: stdin, output: stderr as unknown as NodeJS.WritableStream });
  const ended = new AbortController();
  // Without it the question would wait for ever where the input ends.
  asking.once('close', () => ended.abort());
  try {
    const answer = await asking.question(`Give up run ${run}? [y/N] `, {
      signal: AbortSignal.any([signal, ended.signal]),
    });
    return /^y(es)?$/i.test(answer.trim());
  } catch {
    // Interrupted, or the end of the input: nobody said yes.
    return false;
  } finally {
    asking.close();
  }
}
