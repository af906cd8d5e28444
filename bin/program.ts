/** The command line: parses the arguments and runs the command, which is imported when it is called. */

import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { Command, CommanderError } from 'commander';
import type { ServiceOptions } from '../lib/operator/commands/service.ts';
import { type CommandContext, exitStatuses } from '../lib/operator/context.ts';
import { errorLines, textStyleFor } from '../lib/operator/output/terminal.ts';
import { sanitizeArgument } from '../lib/operator/run-options.ts';
import { addFieldOptions, addRunOptions, type CommandAction, optionWithValue, usageErrors } from './command-options.ts';
import { addOperatorCommands } from './operator-commands.ts';
import { packageFile } from './package-file.ts';

/** Runs the command that `args` name, and resolves to its exit status. Without a command, it is `local`. */
export async function runProgram(args: readonly string[], context: CommandContext): Promise<number> {
  const { stdout, stderr, env, program: programName } = context;
  const { version } = JSON.parse(readFileSync(packageFile, 'utf8')) as { version: string };
  const program = new Command('report-exporter')
    .description('Exports all reports that match a filter from a paginated service, each page exactly once.')
    .version(version, '--version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .helpCommand('help [command]', 'print the help of a command')
    .exitOverride()
    .configureHelp({ subcommandTerm: (command) => command.name() })
    .configureOutput({
      writeOut: (text) => stdout.write(text),
      writeErr: (text) => stderr.write(text),
      outputError: (text, write) => write(errorLines(textStyleFor(stderr, env), parserMessage(text))),
    })
    .showHelpAfterError(`For help: ${programName} --help`);

  let exitStatus: number = exitStatuses.ok;
  const action: CommandAction = (load) =>
    async function (this: Command) {
      const [argument] = this.registeredArguments;
      // The parser passes unknown options as arguments.
      const names = [this.processedArgs[0] ?? []].flat().filter((word: string) => !word.startsWith('-'));
      const problems = usageErrors(this, names);
      const run = await load(this);
      exitStatus = await run(argument?.variadic === true ? names : names[0], this.opts<never>(), problems, context);
    };
  addLocalCommand(program, programName, action);
  addOperatorCommands(program, programName, action, version);
  addServiceCommand(program, programName, action);
  addInitCommand(program, programName, action);

  try {
    await program.parseAsync(resolveCommand(program, args), { from: 'user' });
    return exitStatus;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return error.exitCode === 0 ? exitStatuses.ok : exitStatuses.usage;
  }
}

/** `unknown command 'statsu'. Did you mean status?`, without the parser's prefix and line break, and printable. */
function parserMessage(text: string): string {
  const message = text
    .replace(/^error: /, '')
    .trimEnd()
    .replace(/\n\((.*)\)$/, '. $1');
  return sanitizeArgument(message);
}

/**
 * Makes `local` the default command. The parser could do so itself, but would then take a misspelled command as an
 * argument of `local`, where it now suggests the nearest command.
 */
function resolveCommand(program: Command, args: readonly string[]): readonly string[] {
  const [first, second] = args;
  if (first === undefined) return ['local'];
  if (first.startsWith('-')) return ['-h', '--help', '--version'].includes(first) ? args : ['local', ...args];
  // The parser prints the help of the program for `help` with an unknown command.
  const isUnknownTopic =
    first === 'help' && second !== undefined && !program.commands.some((each) => each.name() === second);
  return isUnknownTopic ? [second] : args;
}

function addLocalCommand(program: Command, programName: string, action: CommandAction): void {
  const local = program
    .command('local')
    .argument('[exports...]', 'names of exports of the settings file; optional if there is only one')
    .description('run an export on this machine, into a directory')
    .addOption(optionWithValue('--settings <file>', 'run exports of this settings file; options override it'))
    .option('--all', 'run every export of the settings file; without one, every export in the directory again')
    .option('--simulate', 'use a local simulator of the Report Export Service instead of the one in the settings file')
    .addOption(optionWithValue('--base-url <url>', 'the service (default: a local simulator)'))
    .addOption(optionWithValue('--vendor <name>', 'vendor part of the headers X-<name>-… (default: SERVICE)'))
    .addOption(optionWithValue('--cursor-in <location>', 'send the cursor in query or body (default: query)'))
    .addOption(optionWithValue('--filter-until <field>', 'filter that excludes reports from a date on: date.lt'))
    .addOption(optionWithValue('--export <name>', 'name of the export, and first part of its keys (default: reports)'))
    .addOption(optionWithValue('--size <n>', "reports per page, 1 to 10 (default: the service's)"))
    .addOption(optionWithValue('--since <instant>', 'start here, not at the watermark (ISO 8601 UTC, or a date)'));
  addRunOptions(local)
    .option('--restart', 'abandon an unfinished run and start over')
    .addOption(optionWithValue('--out <directory>', 'directory for pages and state (default: ./exports)'))
    .option('--compress', 'store each page as a gzip file: page-000001.xml.gz')
    .addOption(optionWithValue('--max-attempts <n>', 'try each step at most n times; 1: no retries'))
    .option('--quiet', 'show only warnings, errors and the result')
    .option('--json', 'print JSON on stdout, everything else on stderr')
    .addHelpText(
      'after',
      `
Run it again to export what is new since the last run, or to resume an interrupted run. The API key comes from the environment
variable REPORT_EXPORT_API_KEY, or the one in apiKeyEnv of a settings file. All else that can be set needs a settings file.

With --settings, the exports run as they would be deployed, one after the other, except for schedules. A directory holds any
number of exports, and saves the settings of each. With --all they run one after the other; one that fails does not stop the others.

Examples:
  $ ${programName} local                                           # a first run, against the simulator
  $ ${programName} local --size 3 --since 2026-11-20T00:00:00Z
  $ REPORT_EXPORT_API_KEY=… ${programName} local --base-url https://reports.example.com --vendor ACME --out /data/acme
  $ ${programName} local --export invoices                         # a second export in the same directory
  $ ${programName} local --all                                     # each of them again
  $ ${programName} local --since 2026-10-01 --until 2026-11-01 --parallel 8 # a month, 8 slices at a time
  $ ${programName} local --settings report-exporter.json nightly   # an export of a settings file
  $ ${programName} local --settings report-exporter.json --all --simulate --out /tmp/try # all of them, without the service

Exit status: 0 completed or skipped; 1 failed; 2 wrong usage or settings; 130 interrupted.`,
    )
    .allowUnknownOption()
    .allowExcessArguments()
    .action(action(async () => (await import('../lib/operator/commands/local.ts')).localCommand));
  addFieldOptions(local);
}

function addServiceCommand(program: Command, programName: string, action: CommandAction): void {
  program
    .command('service')
    .description('run the simulator of the service until interrupted')
    .addOption(optionWithValue('--port <port>', 'on 127.0.0.1; 0 picks a free port', '0'))
    .addOption(optionWithValue('--vendor <name>', 'vendor part of the headers X-<name>-… (default: SERVICE)'))
    .addOption(optionWithValue('--reports <n>', 'generated reports at the start (default: 250)'))
    .addOption(optionWithValue('--from <directory>', 'serve its XML files instead, one report each'))
    .addHelpText(
      'after',
      `
Examples:
  $ export REPORT_EXPORT_API_KEY=only-for-testing
  $ ${programName} service --port 8080 --from ./reports &
  $ ${programName} local --base-url http://127.0.0.1:8080 --out /tmp/out

Exit status: 1 failed; 2 wrong usage or settings; 130 interrupted.`,
    )
    .allowUnknownOption()
    .allowExcessArguments()
    .action(
      action(async () => {
        const { serviceCommand } = await import('../lib/operator/commands/service.ts');
        return async (_: undefined, options: ServiceOptions, problems, context) =>
          await serviceCommand(options, problems, context);
      }),
    );
}

function addInitCommand(program: Command, programName: string, action: CommandAction): void {
  program
    .command('init')
    .argument('[directory]', 'directory of the project; is created')
    .description('create a project that deploys exports: a CDK app and its settings')
    .addOption(optionWithValue('--base-url <url>', 'the service (default: an example, to be edited)'))
    .addOption(optionWithValue('--vendor <name>', 'vendor part of the headers X-<name>-… (default: an example)'))
    .option('--api', 'describe another API, by an example to be edited')
    .addOption(
      optionWithValue(
        '--package <version>',
        'what the project installs as report-exporter: a version, or a tarball (default: what runs now)',
      ),
    )
    .option('--json', 'print JSON on stdout')
    .addHelpText(
      'after',
      `
Writes package.json, cdk.json, app.js, report-exporter.json, .gitignore and README.md. Existing files are not overwritten.

Examples:
  $ ${programName} init my-exports
  $ ${programName} init my-exports --base-url https://reports.example.com --vendor ACME
  $ ${programName} init my-exports --api

Exit status: 0 created; 1 files cannot be written; 2 wrong usage, or a file exists already.`,
    )
    .allowUnknownOption()
    .allowExcessArguments()
    .action(
      action(async () => {
        const { initCommand } = await import('../lib/operator/commands/init.ts');
        return async (directory: string | undefined, options: object, problems, context) =>
          await initCommand(directory, { ...options, packageFolder: dirname(packageFile) }, problems, context);
      }),
    );
}
