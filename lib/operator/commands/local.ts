/** `report-exporter local`: one run on this machine, with the settings of the command line. */

import { systemRuntime } from '../../core/clock.ts';
import { startLocalExport } from '../../local/deployment.ts';
import type { CommandContext } from '../context.ts';
import { followRun } from '../follow-run.ts';
import { type LocalOptions, readLocalSettings } from '../run-options.ts';

/** Resolves to the exit status of the run. */
export async function localCommand(
  options: LocalOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  const { env } = context;
  const followOptions = {
    exportName: String(options.export),
    follow: true,
    json: options.json === true,
    next: { help: 'npx report-exporter local --help', watch: `npx report-exporter status --out ${options.out}` },
  };
  return await followRun(followOptions, context, async (startOptions) => {
    const { settings, out, start } = readLocalSettings(options, usageErrors, env);
    return await startLocalExport({ out, env, runtime: systemRuntime }, settings, start, startOptions);
  });
}
