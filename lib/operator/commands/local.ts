/**
 * `report-exporter local`: one run on this machine, with the settings of the command line; with `--settings`, runs of
 * exports of a settings file; with `--all` alone, a run of every export in the directory, with its saved settings.
 */

import { systemRuntime } from '../../core/clock.ts';
import type { ExportState } from '../../core/model.ts';
import { describeLocalExport, directoryOption, startLocalExport } from '../../local/directory.ts';
import { isFilePresent } from '../../local/durable-fs.ts';
import { stateFileIn } from '../../local/sqlite/state-file.ts';
import type { LocalExport } from '../../local/settings.ts';
import { openSqlitePageLog } from '../../local/sqlite/page-log.ts';
import {
  allExports,
  type CommandContext,
  defaultDirectory,
  exitStatuses,
  reportError,
  runOnDeployment,
} from '../context.ts';
import { readExports, type SettingOptions, settingsSource } from '../local-settings.ts';
import { sanitizeArgument, settingOptions } from '../arguments.ts';
import { readMaxAttempts, readStartRequest, type RunOptions } from '../run-options.ts';
import { type Startable, startExports } from '../start-exports.ts';

export interface LocalOptions extends SettingOptions, RunOptions {
  readonly out?: string;
  /** How often a step is tried at most. */
  readonly maxAttempts?: string;
  readonly json?: boolean;
  /** Show only warnings, errors and the result. */
  readonly quiet?: boolean;
}

/** `names` are exports of the settings file. Resolves to the exit status of the runs. */
export async function localCommand(
  names: readonly string[],
  options: LocalOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  const { env, stderr, program } = context;
  const { out = defaultDirectory, settings: file, json = false, quiet = false, all = false } = options;
  const problems = [...usageErrors, ...findConflicts(names, options)];
  const maxAttempts = readMaxAttempts(options.maxAttempts, problems);
  const request = readStartRequest(options, problems);
  const start = { request, follow: true, json, quiet, maxAttempts, command: 'local' };
  if (all && file === undefined) {
    return await runOnDeployment(
      { out, json },
      problems,
      context,
      async (deployment) => await startExports(deployment, await allExports(deployment), start, context),
      { handlesInterruption: true },
    );
  }

  let exports: readonly LocalExport[];
  try {
    exports = await readExports(options, names, problems);
  } catch (error) {
    const exitStatus = reportError(error, { json }, context);
    if (file === undefined && exitStatus === exitStatuses.usage) stderr.write(`For help: ${program} local --help\n`);
    return exitStatus;
  }
  const source = file === undefined ? undefined : settingsSource(file, options);
  const startable: Startable = {
    option: directoryOption(out),
    open: async (name) => {
      const settings = exports.find((each) => each.export.name === name) as LocalExport;
      return {
        definition: describeLocalExport(settings, { env, runtime: systemRuntime }).definition,
        log: { boundedStates: () => readBoundedStates(stateFileIn(out), name) },
        start: async (...args) =>
          await startLocalExport({ out, env, runtime: systemRuntime }, settings, ...args, source),
      };
    },
  };
  const selected = exports.map((each) => each.export.name);
  return await startExports(startable, selected, start, context);
}

function findConflicts(names: readonly string[], options: LocalOptions): readonly string[] {
  const { settings, all = false, simulate, baseUrl } = options;
  const given = Object.entries({ ...settingOptions, simulate: ['--simulate'] as const }).flatMap(([name, [option]]) =>
    options[name as keyof LocalOptions] === undefined ? [] : [option],
  );
  const conflicts: readonly (readonly [string, boolean])[] = [
    ...(settings === undefined ? names : []).map(
      (name) => [sanitizeArgument(`${name}: unexpected argument`), true] as const,
    ),
    ...given.map((option) => {
      const problem = `${option}: cannot be combined with --all, which uses the saved settings of each export`;
      return [problem, all && settings === undefined] as const;
    }),
    [
      '--export: cannot be combined with --settings; name the exports as arguments',
      options.export !== undefined && settings !== undefined,
    ],
    ['--all: runs every export; leave out the names of exports', all && settings !== undefined && names.length > 0],
    [
      '--simulate: cannot be combined with --base-url, which names a service',
      simulate !== undefined && baseUrl !== undefined,
    ],
  ];
  return conflicts.flatMap(([problem, applies]) => (applies ? [problem] : []));
}

/** None in a directory in which nothing has run. */
async function* readBoundedStates(stateFile: string, exportName: string): AsyncIterable<ExportState> {
  if (!isFilePresent(stateFile)) return;
  const log = openSqlitePageLog(stateFile);
  try {
    yield* log.boundedStates(exportName);
  } finally {
    log.close();
  }
}
