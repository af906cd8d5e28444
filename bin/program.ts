/** The command line: reads the words, and hands them to the command, which is loaded when it is called. */

import { Command, CommanderError } from 'commander';
import type { Asking } from '../lib/operator/commands/abandon.ts';
import type { ServiceOptions } from '../lib/operator/commands/service.ts';
import type { CommandContext } from '../lib/operator/context.ts';
import { exitStatuses } from '../lib/operator/context.ts';
import type { LocalOptions } from '../lib/operator/run-options.ts';
import { problemsIn, withValue } from './command-options.ts';
import { addOperatorCommands } from './operator-commands.ts';

export type ProgramContext = CommandContext & Asking;

/** Does what `words` say, and resolves to the exit status. */
export async function runProgram(words: readonly string[], world: ProgramContext): Promise<number> {
  let status: number = exitStatuses.ok;
  const program = new Command('report-exporter')
    .description(
      'Pulls every report that matches a filter out of a paged export service, page by page, each exactly once.',
    )
    .exitOverride()
    .configureOutput({
      writeOut: (text) => world.stdout.write(text),
      writeErr: (text) => world.stderr.write(text),
    });

  program
    .command('local', { isDefault: true })
    .description('make one run on this machine: pages and state go to a directory')
    .addOption(
      withValue(
        '--base-url <url>',
        'the service, https (http to loopback only); left out: a simulator of it on loopback',
      ),
    )
    .addOption(
      withValue(
        '--vendor <name>',
        "the vendor's part of the header names X-<name>-API-KEY and X-<name>-CURSOR",
        'SERVICE',
      ),
    )
    .addOption(
      withValue('--api-key-env <variable>', 'environment variable that holds the API key', 'REPORT_EXPORT_API_KEY'),
    )
    .addOption(withValue('--export <name>', "the export's name; its pages and state stand under it", 'reports'))
    .addOption(withValue('--since <instant>', 'ISO 8601 UTC; where to start, instead of at the watermark'))
    .addOption(withValue('--overlap <duration>', 'how far to reach back behind the watermark, ISO 8601', 'PT0S'))
    .addOption(withValue('--size <n>', "reports per page, 1 to 10; left out: the service's own page size, up to 100"))
    .addOption(withValue('--filter <json>', 'further filter fields, merged beside date.gte'))
    .addOption(withValue('--format <format>', 'output format; XML is checked, others pass through', 'XML'))
    .addOption(withValue('--container <container>', 'packaging; only XML in NONE is checked', 'NONE'))
    .addOption(withValue('--cursor-in <route>', 'how the cursor goes back: query or body', 'query'))
    .addOption(withValue('--out <directory>', 'where pages and state live', './exports'))
    .option('--restart', 'abandon an unfinished run and start afresh')
    .addOption(withValue('--max-pages <n>', 'stop with an error past so many pages'))
    .option('--json', 'one JSON object on the last line of stdout')
    .addHelpText(
      'after',
      `
Run it again, and it exports what is new since the last run. Interrupt it, and the next run goes on where it stopped.

Examples:
  $ npm start                                                    a first run, against the simulator
  $ npm start -- --size 3 --since 2026-11-20T00:00:00Z
  $ REPORT_EXPORT_API_KEY=… npm start -- --base-url https://reports.example.com --vendor ACME --out /data/acme

Exit status: 0 completed or skipped, 1 the run failed, 2 wrong usage or settings, 130 interrupted.`,
    )
    .allowUnknownOption()
    .allowExcessArguments()
    .action(async (_: unknown, command: Command) => {
      const problems = problemsIn(command);
      const { localCommand } = await import('../lib/operator/commands/local.ts');
      status = await localCommand(command.opts<LocalOptions>(), problems, world);
    });

  program
    .command('service')
    .description('run the simulator of the service by itself, until interrupted')
    .addOption(withValue('--port <port>', 'port on 127.0.0.1; 0: any free one', '0'))
    .addOption(withValue('--vendor <name>', "the vendor's part of the header names", 'SERVICE'))
    .addOption(
      withValue(
        '--api-key-env <variable>',
        'environment variable that holds the key it accepts',
        'REPORT_EXPORT_API_KEY',
      ),
    )
    .addOption(withValue('--reports <n>', 'how many generated reports it starts with (250)'))
    .addOption(
      withValue(
        '--from <directory>',
        'serve the XML files below this directory, one report each, dated by their modification',
      ),
    )
    .addHelpText(
      'after',
      `
Examples:
  $ export REPORT_EXPORT_API_KEY=only-for-trying
  $ npx report-exporter service --port 8080 --from /usr/share/xml &
  $ npm start -- --base-url http://127.0.0.1:8080 --out /tmp/out`,
    )
    .allowUnknownOption()
    .allowExcessArguments()
    .action(async (_: unknown, command: Command) => {
      const problems = problemsIn(command);
      const { serviceCommand } = await import('../lib/operator/commands/service.ts');
      status = await serviceCommand(command.opts<ServiceOptions>(), problems, world);
    });

  addOperatorCommands(program, world, (ended) => {
    status = ended;
  });

  try {
    await program.parseAsync(words, { from: 'user' });
    return status;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return error.exitCode === 0 ? exitStatuses.ok : exitStatuses.usage;
  }
}
