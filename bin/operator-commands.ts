/** The operator's commands, as the command line knows them; each is loaded when it is called. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import type { AbandonOptions, Asking } from '../lib/operator/commands/abandon.ts';
import type { PagesOptions } from '../lib/operator/commands/pages.ts';
import type { ReportOptions } from '../lib/operator/commands/report.ts';
import type { StartOptions } from '../lib/operator/commands/start.ts';
import type { StatusOptions } from '../lib/operator/commands/status.ts';
import type { VerifyOptions } from '../lib/operator/commands/verify.ts';
import type { CommandContext, PlaceOptions } from '../lib/operator/context.ts';
import { problemsIn, withValue } from './command-options.ts';

/** `end` is told each command's exit status. */
export function addOperatorCommands(
  program: Command,
  world: CommandContext & Asking,
  end: (status: number) => void,
): void {
  placed(program.command('status'))
    .description('where exports stand, and how their recent runs went')
    .option('--watch', 'look again every few seconds')
    .addOption(withValue('--runs <n>', 'so many recent runs of each export', '5'))
    .addHelpText(
      'after',
      `
Off a terminal it prints tab-separated values, a line for each run.

Examples:
  $ npx report-exporter status
  $ npx report-exporter status nightly --stack ReportExporter --watch
  $ npx report-exporter status --json | jq '.exports[] | select(.runs[0].state == "failed")'

Exit status: 0, or 1 where an export's state cannot be read, 2 wrong usage or nothing there.`,
    )
    .action(
      doing<StatusOptions>(end, async (name, options, problems) => {
        const { statusCommand } = await import('../lib/operator/commands/status.ts');
        return await statusCommand(name, options, problems, world);
      }),
    );

  placed(program.command('start'))
    .description('make a run by hand, or go on with an unfinished one')
    .addOption(withValue('--since <instant>', 'ISO 8601 UTC; where to start, instead of at the watermark'))
    .option('--restart', 'abandon an unfinished run and start afresh')
    .option('--follow', 'stay until its end; on this machine it always does')
    .addHelpText(
      'after',
      `
In a directory the export runs with the settings it was last started with. Ctrl-C interrupts a run on this machine (the next
start goes on with it), and ends the watching of one that is deployed.

Examples:
  $ npx report-exporter start reports
  $ npx report-exporter start nightly --stack ReportExporter --follow
  $ npx report-exporter start nightly --stack ReportExporter --since 2026-11-01T00:00:00Z

Exit status: that of the run: 0 completed, skipped, or started and not followed, 1 failed, 2 wrong usage, 130 interrupted.`,
    )
    .action(
      doing<StartOptions>(end, async (name, options, problems) => {
        const { startCommand } = await import('../lib/operator/commands/start.ts');
        return await startCommand(name, options, problems, world);
      }),
    );

  placed(program.command('verify'))
    .description('read a run again, from its manifest to its last byte, and say what is wrong where')
    .addOption(withValue('--run <id>', 'the run; left out: the newest that is published'))
    .addHelpText(
      'after',
      `
Checks presence, bytes, SHA-256 and facts of every page, numbering and cursor chain, manifest against log, and latest.json.

Examples:
  $ npx report-exporter verify
  $ npx report-exporter verify nightly --stack ReportExporter --run 20261120T020000Z-1f3a5c

Exit status: 0 all is as it was exported, 1 something is wrong, 2 wrong usage or no such run.`,
    )
    .action(
      doing<VerifyOptions>(end, async (name, options, problems) => {
        const { verifyCommand } = await import('../lib/operator/commands/verify.ts');
        return await verifyCommand(name, options, problems, world);
      }),
    );

  placed(program.command('pages'))
    .description('print where the published pages of a run lie, in order; or their bytes, or their reports')
    .addOption(withValue('--run <id>', 'the run; left out: the newest that is published'))
    .option('--cat', 'the bytes of the pages, one after the other')
    .option('--reports', 'one report after the other, as it stands in its page')
    .addHelpText(
      'after',
      `
With --json a line of JSON for each page, or with --reports for each report (its text is the field xml).

Examples:
  $ npx report-exporter pages | xargs -d '\\n' sha256sum
  $ npx report-exporter pages nightly --stack ReportExporter | head -1
  $ npx report-exporter pages --reports --json | jq -r .xml | head -1

Exit status: 0, 1 a page is gone, 2 wrong usage or nothing published.`,
    )
    .action(
      doing<PagesOptions>(end, async (name, options, problems) => {
        const { pagesCommand } = await import('../lib/operator/commands/pages.ts');
        return await pagesCommand(name, options, problems, world);
      }),
    );

  placed(program.command('plan'))
    .description('what the next start would ask the service for, and why; nothing is asked or changed')
    .addHelpText(
      'after',
      `
Examples:
  $ npx report-exporter plan
  $ npx report-exporter plan nightly --stack ReportExporter

Exit status: 0, or 1 where a start would fail, 2 wrong usage.`,
    )
    .action(
      doing<PlaceOptions>(end, async (name, options, problems) => {
        const { planCommand } = await import('../lib/operator/commands/plan.ts');
        return await planCommand(name, options, problems, world);
      }),
    );

  placed(program.command('abandon'))
    .description('give up an unfinished run: it is never published, and the next start begins a new one')
    .option('--yes', 'do not ask')
    .addHelpText(
      'after',
      `
Example:
  $ npx report-exporter abandon nightly --stack ReportExporter

Exit status: 0 given up, 1 not meant, 2 wrong usage or nothing to give up.`,
    )
    .action(
      doing<AbandonOptions>(end, async (name, options, problems) => {
        const { abandonCommand } = await import('../lib/operator/commands/abandon.ts');
        return await abandonCommand(name, options, problems, world);
      }),
    );

  placed(program.command('doctor'))
    .description('look for whatever would keep an export from running, with its remedy')
    .addHelpText(
      'after',
      `
Checks settings, credentials, state, store, schedule, the API key, the service (one page of size 1; nothing is stored), the
clocks and versions.

Examples:
  $ npx report-exporter doctor
  $ npx report-exporter doctor --stack ReportExporter

Exit status: 0, or 1 where something stands in the way, 2 wrong usage or nothing there.`,
    )
    .action(
      doing<PlaceOptions>(end, async (name, options, problems) => {
        const { doctorCommand } = await import('../lib/operator/commands/doctor.ts');
        return await doctorCommand(name, { ...options, version: versionIn(packageFile) }, problems, world);
      }),
    );

  placed(program.command('report'))
    .description('write one HTML file that shows how a run went')
    .addOption(withValue('--run <id>', 'the run; left out: the newest'))
    .addOption(withValue('--to <file>', 'the file to write (<export>-<run>.html)'))
    .option('--open', 'open it in the browser')
    .addHelpText(
      'after',
      `
Examples:
  $ npx report-exporter report --open
  $ npx report-exporter report nightly --stack ReportExporter --run 20261120T020000Z-1f3a5c --to incident.html

Exit status: 0, 2 wrong usage or no such run.`,
    )
    .action(
      doing<ReportOptions>(end, async (name, options, problems) => {
        const { reportCommand } = await import('../lib/operator/commands/report.ts');
        return await reportCommand(name, options, problems, world);
      }),
    );
}

/** The options of every command that looks at a place where exports run. */
function placed(command: Command): Command {
  return command
    .argument('[export]', 'its name; may be left out where there is only one')
    .addOption(withValue('--out <directory>', 'a directory on this machine (./exports)'))
    .addOption(withValue('--stack <name>', 'a deployed stack; AWS profile, region and endpoint are the usual settings'))
    .option('--json', 'one JSON object on stdout; words for people go to stderr')
    .allowUnknownOption()
    .allowExcessArguments();
}

/** Runs `act` with what the parser has understood, and what it has not. */
function doing<Options>(
  end: (status: number) => void,
  act: (exportName: string | undefined, options: Options, problems: readonly string[]) => Promise<number>,
) {
  return async (exportName: string | undefined, _: unknown, command: Command) => {
    // An option that the parser does not know is taken for the name.
    const name = exportName?.startsWith('-') === true ? undefined : exportName;
    const problems = problemsIn(command, name === undefined ? 0 : 1);
    end(await act(name, command.opts() as Options, problems));
  };
}

const packageFile = join(import.meta.dirname, '../package.json');

const versionIn = (file: string): string => (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
