/** `report-exporter local`: one run on this machine, with the settings of the command line; with `--settings`, runs of exports of a settings file. */

import { systemRuntime } from '../../core/clock.ts';
import type { ExportState } from '../../core/model.ts';
import { describeLocalExport, directoryOption, startLocalExport } from '../../local/directory.ts';
import { openStateFile, stateFileIn } from '../../local/sqlite/state-file.ts';
import type { LocalExport } from '../../local/settings.ts';
import { pageLogIn } from '../../local/sqlite/page-log.ts';
import { type CommandContext, defaultDirectory, exitStatuses, reportError } from '../context.ts';
import { readExports, type SettingOptions, settingsSource } from '../local-settings.ts';
import { sanitizeArgument } from '../arguments.ts';
import { readMaxAttempts, readStartRequest, type RunOptions } from '../run-options.ts';
import { type Startable, startExports } from '../start-exports.ts';

export interface LocalOptions extends SettingOptions, RunOptions {
  readonly out?: string;
  /** How often a step is tried at most. */
  readonly maxAttempts?: string;
  readonly json?: boolean;
  /** Show only warnings and the ends of runs. */
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
  const { out = defaultDirectory, settings: file, json = false, quiet = false } = options;
  const problems = [...usageErrors, ...findConflicts(names, options)];
  const maxAttempts = readMaxAttempts(options.maxAttempts, problems);
  const request = readStartRequest(options, problems);

  let exports: readonly LocalExport[];
  try {
    exports = await readExports(options, names, problems);
  } catch (error) {
    const exitStatus = reportError(error, { json }, context);
    if (file === undefined && exitStatus === exitStatuses.usage) stderr.write(`For help: ${program} local --help\n`);
    return exitStatus;
  }
  const source = file === undefined ? undefined : settingsSource(file, options);
  const machine = { env, runtime: systemRuntime };
  const startable: Startable = {
    option: directoryOption(out),
    open: async (name) => {
      const settings = exports.find((each) => each.export.name === name) as LocalExport;
      return {
        definition: describeLocalExport(settings, machine).definition,
        log: { boundedStates: () => readBoundedStates(stateFileIn(out), name) },
        start: async (...args) => await startLocalExport({ out, ...machine }, settings, ...args, source),
      };
    },
  };
  const selected = exports.map((each) => each.export.name);
  const start = { request, follow: true, json, quiet, maxAttempts, command: 'local' };
  return await startExports(startable, selected, start, context);
}

function findConflicts(names: readonly string[], options: LocalOptions): readonly string[] {
  const { all = false, simulate, baseUrl, export: exportName } = options;
  const hasFile = options.settings !== undefined;
  const conflicts = {
    '--export: cannot be combined with --settings; name the exports as arguments': hasFile && exportName !== undefined,
    '--all: needs --settings. To run every export in a directory again: start --all': all && !hasFile,
    '--all: runs every export; leave out the names of exports': all && hasFile && names.length > 0,
    '--simulate: cannot be combined with --base-url, which names a service':
      simulate !== undefined && baseUrl !== undefined,
  };
  return [
    ...(hasFile ? [] : names).map((name) => sanitizeArgument(`${name}: unexpected argument`)),
    ...Object.entries(conflicts).flatMap(([problem, applies]) => (applies ? [problem] : [])),
  ];
}

/** None in a directory in which nothing has run. */
async function* readBoundedStates(stateFile: string, exportName: string): AsyncIterable<ExportState> {
  using state = openStateFile(stateFile);
  yield* pageLogIn(state).boundedStates(exportName);
}
