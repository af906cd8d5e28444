/**
 * `report-exporter local`: one run on this machine, with the settings of the command line; with `--settings`, runs of exports of
 * a settings file; with `--all` alone, a run of every export in the directory, with its saved settings.
 */

import { systemRuntime } from '../../core/clock.ts';
import type { DeployedExport } from '../../target/target.ts';
import { directoryOption, startLocalExport } from '../../local/directory.ts';
import type { LocalExportInput } from '../../local/settings.ts';
import { type CommandContext, reportError, runOnDeployment } from '../context.ts';
import { followRun } from '../follow-run.ts';
import { type LocalOptions, readLocalSettings, readMaxAttempts } from '../run-options.ts';
import type { FileExports } from '../settings-file.ts';
import { runOneByOne } from '../start-many.ts';
import { allExports, readStartRequest } from './start.ts';

/** `names` are exports of the settings file. Resolves to the exit status of the runs. */
export async function localCommand(
  names: readonly string[],
  options: LocalOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  const problems = [...usageErrors];
  const maxAttempts = readMaxAttempts(options.maxAttempts, problems);
  if (options.settings !== undefined) {
    return await localSettingsCommand(options.settings, names, options, { problems, maxAttempts }, context);
  }
  if (options.all === true) return await localAllCommand(options, { problems, maxAttempts }, context);
  const { env, program } = context;
  const followOptions = {
    exportName: String(options.export),
    follow: true,
    json: options.json === true,
    maxAttempts,
    next: { help: `${program} local --help`, watch: `${program} status ${directoryOption(options.out)}` },
  };
  return await followRun(followOptions, context, async (startOptions) => {
    const { settings, out, start } = readLocalSettings(options, problems, env);
    return await startLocalExport({ out, env, runtime: systemRuntime }, settings, start, startOptions);
  });
}

/** What was found when the options were read. */
interface Checked {
  readonly problems: readonly string[];
  readonly maxAttempts: number | undefined;
}

async function localSettingsCommand(
  file: string,
  names: readonly string[],
  options: LocalOptions,
  { problems, maxAttempts }: Checked,
  context: CommandContext,
): Promise<number> {
  const { env, program } = context;
  const json = options.json === true;
  // With its parser it takes long to load, and most runs have no settings file.
  const { readFileExports } = await import('../settings-file.ts');
  let selected: FileExports;
  try {
    selected = readFileExports(file, names, options, problems, env);
  } catch (error) {
    return reportError(error, { json }, context);
  }
  const { out, start: request, exports } = selected;
  const localOptions = { out, env, runtime: systemRuntime };
  const [first] = exports;
  if (first !== undefined && exports.length === 1 && options.all !== true) {
    const next = {
      help: `${program} local --help`,
      watch: `${program} status ${directoryOption(out)}`,
    };
    const followOptions = { exportName: first.export.name, follow: true, json, maxAttempts, next };
    return await followRun(followOptions, context, (startOptions) =>
      startLocalExport(localOptions, first, request, startOptions),
    );
  }
  const byName = new Map(exports.map((each) => [each.export.name, each]));
  const startable = {
    option: directoryOption(out),
    open: async (name: string) => ({
      start: async (...start: Parameters<DeployedExport['start']>) =>
        await startLocalExport(localOptions, byName.get(name) as LocalExportInput, ...start),
    }),
  };
  return await runOneByOne(startable, [...byName.keys()], { request, json, follow: true, maxAttempts }, context);
}

async function localAllCommand(
  { out, json = false, ...start }: LocalOptions,
  { problems: usageErrors, maxAttempts }: Checked,
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
      return await runOneByOne(deployment, names, { request, json, follow: true, maxAttempts }, context);
    },
    { handlesInterruption: true },
  );
}
