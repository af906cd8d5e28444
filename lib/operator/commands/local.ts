/**
 * `report-exporter local`: one run on this machine, told to a person or to a program.
 * Exit status: 0 completed or skipped, 1 the run failed, 2 wrong usage or settings, 130 interrupted.
 */

import { systemRuntime } from '../../core/clock.ts';
import { startLocalExport } from '../../local/deployment.ts';
import type { CommandContext } from '../context.ts';
import { followRun } from '../follow-run.ts';
import { type LocalOptions, readLocalSettings } from '../run-options.ts';

/** Makes the run, tells how it went, and resolves to the exit status. `problems` are those found before, in the usage. */
export async function localCommand(
  options: LocalOptions,
  problems: readonly string[],
  world: CommandContext,
): Promise<number> {
  const { env } = world;
  const following = {
    exportName: String(options.export),
    follow: true,
    json: options.json === true,
    next: { help: 'npx report-exporter local --help', watch: `npx report-exporter status --out ${options.out}` },
  };
  return await followRun(following, world, async (watching) => {
    const { settings, out, start } = readLocalSettings(options, problems, env);
    return await startLocalExport({ out, env, runtime: systemRuntime }, settings, start, watching);
  });
}
