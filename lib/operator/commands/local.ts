/** `report-exporter local`: one run on this machine, with the settings of the command line; with `--settings`, runs of exports of a settings file. */

import { resolve } from 'node:path';
import { systemRuntime } from '../../core/clock.ts';
import { openLocalDeployment } from '../../local/directory.ts';
import { defaultDirectory, simulatedDirectory } from '../../local/settings.ts';
import { type Call, runCommand } from '../context.ts';
import type { Options } from '../option-table.ts';
import { optionOf, readExports } from '../local-settings.ts';
import { sanitizeArgument } from '../arguments.ts';
import { readMaxAttempts, readStartRequest } from '../run-options.ts';
import { startExports } from '../start-exports.ts';

/** The names are exports of the settings file. Resolves to the exit status of the runs. */
export async function localCommand(call: Call): Promise<number> {
  const { names, options, problems, env, stderr, program } = call;
  const { settings: file, simulate, compress } = options;
  const isSimulated = simulate === true || (file === undefined && options.baseUrl === undefined);
  const { out = isSimulated ? simulatedDirectory : defaultDirectory } = options;
  problems.push(...findConflicts(names, options));
  const maxAttempts = readMaxAttempts(options.maxAttempts, problems);
  const request = readStartRequest(options, problems);
  const exports = await readExports(options, names, problems);
  const selected = exports.map((each) => each.export.name);
  const from = file === undefined ? undefined : { file: resolve(file), simulate, compress };
  const exitStatus = await runCommand(call, async () => {
    await using target = openLocalDeployment({ out, env, runtime: systemRuntime, given: { exports, from } });
    const start = { request, follow: true, maxAttempts, command: 'local' };
    return await startExports(target, selected, start, call);
  });
  if (problems.length > 0 && file === undefined) stderr.write(`For help: ${program} local --help\n`);
  return exitStatus;
}

/** The options that describe the only export, and are settings in a file. */
const fileSettings = ['baseUrl', 'vendor', 'cursorIn', 'filterUntil', 'size'] as const;

function findConflicts(names: readonly string[], options: Options): readonly string[] {
  const { all = false, settings, simulate, baseUrl } = options;
  if (settings !== undefined) {
    const given = fileSettings.filter((field) => options[field] !== undefined);
    return [
      ...given.map((field) => `--${optionOf(field)}: cannot be combined with --settings; set it in the file`),
      ...(options.export === undefined
        ? []
        : ['--export: cannot be combined with --settings; name the exports as arguments']),
      ...(all && names.length > 0 ? ['--all: runs every export; leave out the names of exports'] : []),
    ];
  }
  const isBoth = simulate !== undefined && baseUrl !== undefined;
  return [
    ...names.map((name) => sanitizeArgument(`${name}: unexpected argument`)),
    ...(all ? ['--all: needs --settings. To run every export in a directory again: start --all'] : []),
    ...(isBoth ? ['--simulate: cannot be combined with --base-url, which names a service'] : []),
  ];
}
