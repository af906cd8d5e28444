/**
 * `report-exporter local`: one run on this machine, with the settings of the command line; with `--settings`, runs of
 * exports of a settings file; with `--all` alone, a run of every export in the directory, with its saved settings.
 */

import { systemRuntime } from '../../core/clock.ts';
import type { ExportState } from '../../core/model.ts';
import { describeLocalExport, directoryOption, startLocalExport } from '../../local/directory.ts';
import { isFilePresent } from '../../local/durable-fs.ts';
import { stateFileIn } from '../../local/run.ts';
import { findSecretProblem } from '../../local/service.ts';
import type { LocalExport, SettingsSource } from '../../local/settings.ts';
import { openSqlitePageLog } from '../../local/sqlite/page-log.ts';
import { errorLines, textStyleFor, withProblemCount } from '../output/terminal.ts';
import { allExports, type CommandContext, reportError, runOnDeployment } from '../context.ts';
import { type LocalOptions, readLocalSettings, readMaxAttempts, readStartRequest } from '../run-options.ts';
import { type Startable, startExports } from '../start-exports.ts';

/** `names` are exports of the settings file. Resolves to the exit status of the runs. */
export async function localCommand(
  names: readonly string[],
  options: LocalOptions,
  usageErrors: readonly string[],
  context: CommandContext,
): Promise<number> {
  const { env } = context;
  const { out, json = false, quiet = false, all = false } = options;
  const problems = [...usageErrors];
  const maxAttempts = readMaxAttempts(options.maxAttempts, problems);
  const request = readStartRequest(options, problems);
  const start = { request, follow: true, json, quiet, maxAttempts, all, command: 'local' };
  const startable = (settingsOf: (name: string) => LocalExport, source?: SettingsSource): Startable => ({
    option: directoryOption(out),
    open: async (name) => ({
      get definition() {
        return describeLocalExport(settingsOf(name), { env, runtime: systemRuntime }).definition;
      },
      log: { boundedStates: () => readBoundedStates(stateFileIn(out), name) },
      start: async (...args) =>
        await startLocalExport({ out, env, runtime: systemRuntime }, settingsOf(name), ...args, source),
    }),
  });

  if (options.settings !== undefined) {
    // With its parser it takes long to load, and most runs have no settings file.
    const { readFileExports, settingsSource } = await import('../settings-file.ts');
    let exports: ReadonlyMap<string, LocalExport>;
    try {
      const selected = readFileExports(options.settings, names, options, problems);
      exports = new Map(selected.map((each) => [each.export.name, each]));
    } catch (error) {
      return reportError(error, { json }, context);
    }
    const source = settingsSource(options.settings, options);
    const ofFile = startable((name) => exports.get(name) as LocalExport, source);
    if (!quiet && (exports.size > 1 || all)) warnOfSecrets([...exports.values()], context);
    return await startExports(ofFile, [...exports.keys()], start, context);
  }
  if (all) {
    return await runOnDeployment(
      { out, json },
      problems,
      context,
      async (deployment) => await startExports(deployment, await allExports(deployment), start, context),
      { handlesInterruption: true },
    );
  }
  const ofOptions = startable(() => readLocalSettings(options, problems));
  return await startExports(ofOptions, [options.export], start, context);
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

/** Some of several exports cannot start. Their failures say so, too, but that can be after hours. */
function warnOfSecrets(exports: readonly LocalExport[], { env, stderr }: CommandContext): void {
  const problems = new Set(exports.flatMap((each) => findSecretProblem(each, env) ?? []));
  if (problems.size === 0) return;
  stderr.write(errorLines(textStyleFor(stderr, env), withProblemCount([...problems].join('\n'))));
  stderr.write('The exports that need it fail. The others are run.\n\n');
}
