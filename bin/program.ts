/** The command line: parses the arguments and runs the command, which is imported when it is called. */

import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { Command, CommanderError } from 'commander';
import { type CommandContext, exitStatuses } from '../lib/operator/context.ts';
import { errorLines, textStyleFor } from '../lib/operator/output/terminal.ts';
import { sanitizeArgument } from '../lib/operator/arguments.ts';
import { commandOption, readArguments } from './command-options.ts';
import { commands, exitStatusHelp } from './commands.ts';
import { packageFile } from './package-file.ts';

/** Runs the command that `args` name, and resolves to its exit status. Without a command, prints the help. */
export async function runProgram(args: readonly string[], context: CommandContext): Promise<number> {
  const { stdout, stderr, env, program: programName } = context;
  const { version } = JSON.parse(readFileSync(packageFile, 'utf8')) as { version: string };
  const program = new Command('report-exporter')
    .description('Exports all reports that match a filter from a paginated service, each page exactly once.')
    .version(version, '--version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .helpCommand('help [command]', 'print the help of a command')
    .exitOverride()
    .configureHelp({
      subcommandTerm: (command) => command.name(),
      // A value is required, also where the parser accepts none.
      optionTerm: ({ flags }) => flags.replace('[', '<').replace(']', '>'),
    })
    .configureOutput({
      writeOut: (text) => stdout.write(text),
      writeErr: (text) => stderr.write(text),
      outputError: (text, write) => write(errorLines(textStyleFor(stderr, env), parserMessage(text))),
    })
    .showHelpAfterError(`For help: ${programName} --help`);

  let exitStatus: number = exitStatuses.ok;
  for (const [name, { argument, description, options, about, help, load }] of Object.entries(commands)) {
    const command = program.command(name).description(description);
    if (argument !== undefined) command.argument(...argument);
    for (const option of options) command.addOption(commandOption(option, about?.[option]));
    command
      .addHelpText('after', `${help}\n${exitStatusHelp}`.replaceAll(' report-exporter ', ` ${programName} `))
      .allowUnknownOption()
      .allowExcessArguments()
      .action(async () => {
        const isList = argument?.[0].endsWith('...]') ?? false;
        const {
          names,
          options: given,
          problems,
        } = readArguments(command, isList ? Infinity : argument === undefined ? 0 : 1);
        const run = await load();
        const packageFolder = dirname(packageFile);
        exitStatus = await run({ ...context, names, options: given, problems, version, packageFolder });
      });
  }

  try {
    await program.parseAsync(args, { from: 'user' });
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
