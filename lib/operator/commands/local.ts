/**
 * `report-exporter local`: one run on this machine, with the settings of the command line; with `--all`, a run of every export
 * in the directory, with its saved settings.
 */

import { systemRuntime } from '../../core/clock.ts';
import { startLocalExport } from '../../local/deployment.ts';
import { type CommandContext, runOnDeployment } from '../context.ts';
import { followRun } from '../follow-run.ts';
import { type LocalOptions, readLocalSettings } from '../run-options.ts';
import { runOneByOne } from '../start-many.ts';
import { allExports, readStartRequest } from './start.ts';

/** Resolves to the exit status of the run. */
export async function localCommand(
  options: LocalOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  if (options.all === true) return await localAllCommand(options, usageErrors, context);
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

async function localAllCommand(
  { out, json = false, ...start }: LocalOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  const problems = [...usageErrors];
  const request = readStartRequest(start, problems);
  return await runOnDeployment(
    { out, json },
    problems,
    context,
    async (deployment) => {
      const names = await allExports(deployment);
      return await runOneByOne(deployment, names, { request, json, follow: true }, context);
    },
    { handlesInterruption: true },
  );
}
