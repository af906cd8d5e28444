/** `report-exporter start`: a run by hand, of an export that is there already. */

import * as z from 'zod/mini';
import { describeProblems } from '../../core/settings/validation-errors.ts';
import { instantSchema } from '../../core/timestamps.ts';
import { type CommandContext, openExport, operate, type PlaceOptions } from '../context.ts';
import { followRun } from '../follow-run.ts';

export interface StartOptions extends PlaceOptions {
  readonly since?: string;
  readonly restart?: boolean;
  readonly follow?: boolean;
}

/** Resolves to the exit status: the run's own where it is followed, as it always is on this machine. */
export async function startCommand(
  exportName: string | undefined,
  options: StartOptions,
  problems: readonly string[],
  world: CommandContext,
): Promise<number> {
  const since = z.optional(instantSchema).safeParse(options.since);
  const found = since.success ? problems : [...problems, describeProblems('--since', since.error)];
  return await operate(
    options,
    found,
    world,
    async (installation) => {
      const installed = await openExport(installation, exportName);
      const following = {
        exportName: installed.name,
        follow: options.follow === true || options.stack === undefined,
        json: options.json === true,
        next: {
          help: 'npx report-exporter start --help',
          watch: `npx report-exporter status ${installed.name} ${installation.option} --watch`,
        },
      };
      const request = { since: since.data, restart: options.restart };
      return await followRun(following, world, (watching) => installed.start(defined(request), watching));
    },
    { endsItself: true },
  );
}

/** Without what was not said: a start input knows no `undefined`. */
function defined<Value extends object>(value: Value): Value {
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as Value;
}
