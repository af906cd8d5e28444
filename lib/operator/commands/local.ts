/** `report-exporter local`: one run on this machine, with the settings of the command line; with `--settings`, runs of exports of a settings file. */

import { resolve } from 'node:path';
import { systemRuntime } from '../../core/clock.ts';
import type { ExportState } from '../../core/model.ts';
import { describeLocalExport, directoryOption, startLocalExport } from '../../local/directory.ts';
import { openStateFile, stateFileIn } from '../../local/sqlite/state-file.ts';
import type { LocalExport } from '../../local/settings.ts';
import { pageLogIn } from '../../local/sqlite/page-log.ts';
import { type CommandContext, defaultDirectory, exitStatuses, reportError } from '../context.ts';
import { readExports, type SettingOptions } from '../local-settings.ts';
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
  const { simulate, compress } = options;
  const source = file === undefined ? undefined : { file: resolve(file), simulate, compress };
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

/** The options that describe the only export, and what there is instead with a settings file. */
const insteadOfOptions = {
  export: '--export: cannot be combined with --settings; name the exports as arguments',
  baseUrl: '--base-url: cannot be combined with --settings; set services.<name>.baseUrl in the file, or use --simulate',
  vendor: '--vendor: cannot be combined with --settings; set services.<name>.vendor in the file',
  cursorIn: '--cursor-in: cannot be combined with --settings; set services.<name>.cursorIn in the file',
  filterUntil: '--filter-until: cannot be combined with --settings; set services.<name>.filterUntil in the file',
  size: '--size: cannot be combined with --settings; set exports[].size in the file',
} as const;

function findConflicts(names: readonly string[], options: LocalOptions): readonly string[] {
  const { all = false, simulate, baseUrl } = options;
  if (options.settings !== undefined) {
    const given = Object.entries(insteadOfOptions).filter(
      ([name]) => options[name as keyof SettingOptions] !== undefined,
    );
    const both = all && names.length > 0 ? ['--all: runs every export; leave out the names of exports'] : [];
    return [...given.map(([, problem]) => problem), ...both];
  }
  const isBoth = simulate !== undefined && baseUrl !== undefined;
  return [
    ...names.map((name) => sanitizeArgument(`${name}: unexpected argument`)),
    ...(all ? ['--all: needs --settings. To run every export in a directory again: start --all'] : []),
    ...(isBoth ? ['--simulate: cannot be combined with --base-url, which names a service'] : []),
  ];
}

/** None in a directory in which nothing has run. */
async function* readBoundedStates(stateFile: string, exportName: string): AsyncIterable<ExportState> {
  using state = openStateFile(stateFile);
  yield* pageLogIn(state).boundedStates(exportName);
}
