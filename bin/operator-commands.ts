/** The commands that act on a deployment, for the argument parser. */

import type { Command } from 'commander';
import type { DoctorOptions } from '../lib/operator/commands/doctor.ts';
import { addRunOptions, type CommandAction, optionWithValue } from './command-options.ts';

export function addOperatorCommands(
  program: Command,
  programName: string,
  action: CommandAction,
  version: string,
): void {
  addTargetOptions(program.command('status'), '[export]', 'name of the export (default: an overview of all)')
    .description('show one export and its newest runs, or an overview of all')
    .option('--failed', 'in the overview, show only exports that need attention')
    .option('--watch', 'refresh every few seconds')
    .addOption(optionWithValue('--runs <n>', 'number of recent runs to show of one export', '5'))
    .addHelpText(
      'after',
      `
Without a name, and if there are several exports, it is an overview with a line per export: those that failed, were
interrupted, are stale or cannot be read first. An export is stale if its newest completed run is older than its schedule's freshness.

Examples:
  $ ${programName} status
  $ ${programName} status --stack ReportExporter --failed
  $ ${programName} status nightly --stack ReportExporter --watch
  $ ${programName} status --json | jq -r '.exports[] | select(.stale).export'

Exit status: 0; 1 if the state of an export cannot be read, with --failed also if it lists an export; 2 wrong usage, or no
such directory, stack or export.`,
    )
    .action(action(async () => (await import('../lib/operator/commands/status.ts')).statusCommand));

  const start = addTargetOptions(
    program.command('start'),
    '[exports...]',
    'names of exports; optional if there is only one',
  )
    .description('start runs, or resume unfinished ones')
    .option('--all', 'start every export')
    .addOption(optionWithValue('--since <instant>', 'start here, not at the watermark (ISO 8601 UTC, or a date)'));
  addRunOptions(start)
    .option('--restart', 'abandon an unfinished run and start over')
    .option('--follow', 'wait for the end of the runs; always on for a directory')
    .addOption(optionWithValue('--max-attempts <n>', 'try each step of a local run at most n times; 1: no retries'))
    .addHelpText(
      'after',
      `
A local export reads the settings file of its last start again; without one, it uses that start's options. Ctrl-C interrupts a local run; a deployed run continues.

Several exports of a stack start at the same time, those of a directory run one after the other. One that fails does not
stop the others. What a run is started with applies to each. With --json, prints a JSON object per export, one per line.

With --parallel, a run is cut into slices by date, and so many of them are exported at the same time. With --since and --until, it is
a bounded run: it exports what is dated from the one and before the other, beside scheduled runs, whose watermark it leaves alone.
Bounds that overlap those of another bounded run are refused. With --each, they are exported in parts, one run after the other; the
same command continues with the parts that are left. The requests of the service need an upper bound: see filterUntil.

Examples:
  $ ${programName} start reports
  $ ${programName} start nightly --stack ReportExporter --follow
  $ ${programName} start nightly --stack ReportExporter --since 2026-11-01T00:00:00Z
  $ ${programName} start nightly --stack ReportExporter --parallel 8 --slice PT1H
  $ ${programName} start nightly --stack ReportExporter --since 2020-01-01 --until 2021-01-01 --parallel 16 --each month
  $ ${programName} start invoices orders --stack ReportExporter
  $ ${programName} start --all --stack ReportExporter --follow

Exit status: 0 completed, skipped, or started without --follow; 1 any failed; 2 wrong usage, or no such export;
130 interrupted.`,
    )
    .action(action(async () => (await import('../lib/operator/commands/start.ts')).startCommand));

  addTargetOptions(program.command('verify'))
    .description('read a run again and report what has changed')
    .addOption(optionWithValue('--run <id>', 'the run (default: the newest published run)'))
    .option('--all', 'verify the newest published run of every export')
    .addHelpText(
      'after',
      `
Checks every page (existence, size, SHA-256, metadata, and what is in a compressed one), the page numbers and cursors, the
manifest against the page log, and latest.json. If the newest run has no reports, the newest run with reports is checked, too.

Examples:
  $ ${programName} verify
  $ ${programName} verify nightly --stack ReportExporter --run 20261120T020000Z-1f3a5c
  $ ${programName} verify --all --stack ReportExporter

Exit status: 0 verified; 1 problems found, or a run cannot be read; 2 wrong usage, or no such run. With --all: 1 if that
applies to one of the exports. An export without a run is no problem.`,
    )
    .action(action(async () => (await import('../lib/operator/commands/verify.ts')).verifyCommand));

  addTargetOptions(program.command('pages'))
    .description('list the pages of a published run, or print them')
    .addOption(optionWithValue('--run <id>', 'the run (default: the newest published run)'))
    .option('--cat', 'print the content of the pages, decompressed')
    .addHelpText(
      'after',
      `
With --json, prints a JSON object per page.

Examples:
  $ ${programName} pages | xargs -d '\\n' sha256sum
  $ ${programName} pages nightly --stack ReportExporter | head -1
  $ ${programName} pages --cat | grep -c '<report '

Exit status: 0; 1 a page does not exist; 2 wrong usage, or nothing published.`,
    )
    .action(action(async () => (await import('../lib/operator/commands/pages.ts')).pagesCommand));

  addTargetOptions(program.command('runs'))
    .description('list the published runs of an export, in order')
    .addOption(optionWithValue('--after <sequence>', 'only the runs with a higher sequence', '0'))
    .option('--bounded', 'list bounded runs instead, by date')
    .addHelpText(
      'after',
      `
The lowest sequence comes first. Bounded runs are none of these: a reader does not catch up with them. With --json, prints a JSON object per run: the fields of its run.json, and location, the
address of its manifest.

If the run.json of a run was changed, the runs before it are printed, and the command fails.

Examples:
  $ ${programName} runs
  $ ${programName} runs nightly --stack ReportExporter --after 1795140003 --json | jq -r .run

Exit status: 0; 1 a run.json was changed; 2 wrong usage, or no such export.`,
    )
    .action(action(async () => (await import('../lib/operator/commands/runs.ts')).runsCommand));

  const plan = addTargetOptions(
    program.command('plan'),
    '[exports...]',
    'names of exports; optional if there is only one',
  )
    .description('show what the next start would request, and why')
    .addOption(optionWithValue('--settings <file>', 'exports of this settings file, before anything has run'))
    .option('--request', 'send the first request and the one after it, and show what is found')
    .option('--all', 'show it for every export, a line each')
    .addOption(optionWithValue('--since <instant>', 'as for start'));
  addRunOptions(plan)
    .option('--restart', 'as for start')
    .addHelpText(
      'after',
      `
Stores nothing, and without --request sends nothing. With the options of start, shows what that start would do. Several exports have a
line each. --request sends from here, also for a stack, and shows how many reports a page has and which next page was found where.

Examples:
  $ ${programName} plan
  $ ${programName} plan nightly --stack ReportExporter --since 2020-01-01 --until 2021-01-01 --parallel 8
  $ ${programName} plan --all --stack ReportExporter
  $ ${programName} plan audit --settings report-exporter.json --request

Exit status: 0; 1 if a start would fail, or for an error of the service; 2 wrong usage or settings; 130 interrupted.`,
    )
    .action(action(async () => (await import('../lib/operator/commands/plan.ts')).planCommand));

  addTargetOptions(program.command('abandon'))
    .description('abandon an unfinished run')
    .addOption(optionWithValue('--since <instant>', 'abandon the bounded run that begins here, with --until'))
    .addOption(optionWithValue('--until <instant>', 'where it ends'))
    .option('--yes', 'do not ask for confirmation')
    .addHelpText(
      'after',
      `
An abandoned run is never published. The next start begins a new run at the watermark; of a bounded run, at its lower bound.

Examples:
  $ ${programName} abandon nightly --stack ReportExporter
  $ ${programName} abandon nightly --stack ReportExporter --since 2020-01-01 --until 2021-01-01

Exit status: 0 abandoned; 1 not confirmed; 2 wrong usage, or nothing to abandon.`,
    )
    .action(action(async () => (await import('../lib/operator/commands/abandon.ts')).abandonCommand));

  addTargetOptions(program.command('doctor'), '[export]', 'name of the export (default: all)')
    .description('check whether exports can run, and how to fix them')
    .addOption(optionWithValue('--settings <file>', 'exports of this settings file, before anything has run'))
    .addHelpText(
      'after',
      `
Checks settings, state, runs, store, schedule, proxy and certificates, API key, service, clocks and versions; of a stack, also whether
its alarms reach anyone. The check of a service requests one page of size 1 and does not store it; of a stack, the function
requests another one. A service that several exports use is checked once. In a directory, a file is written and removed again.

With --settings, checks the file, API keys and services from here; stores nothing.

Examples:
  $ ${programName} doctor
  $ ${programName} doctor --settings report-exporter.json
  $ ${programName} doctor --stack ReportExporter

Exit status: 0 no problems; 1 problems found; 2 wrong usage, or no such export.`,
    )
    .action(
      action(async () => {
        const { doctorCommand } = await import('../lib/operator/commands/doctor.ts');
        return async (name: string | undefined, options: DoctorOptions, problems, context) =>
          await doctorCommand(name, { ...options, version }, problems, context);
      }),
    );

  addTargetOptions(program.command('report'))
    .description('write HTML files that show how runs went')
    .addOption(optionWithValue('--run <id>', 'the run (default: the newest run)'))
    .addOption(optionWithValue('--to <path>', 'the file (default: <export>-<run>.html), or with --all the directory'))
    .option('--all', 'write a page per run and an index, of one export or of all')
    .addOption(optionWithValue('--runs <n>', 'with --all: the number of newest runs per export (default: 100)'))
    .option('--open', 'open the file in the browser')
    .addHelpText(
      'after',
      `
Examples:
  $ ${programName} report --open
  $ ${programName} report nightly --stack ReportExporter --run 20261120T020000Z-1f3a5c --to incident.html
  $ ${programName} report --all --stack ReportExporter --to run-reports

Exit status: 0 written; 1 written, but with --all some runs cannot be read; 2 wrong usage, or no such run.`,
    )
    .action(action(async () => (await import('../lib/operator/commands/report.ts')).reportCommand));
}

function addTargetOptions(
  command: Command,
  argument = '[export]',
  description = 'name of the export; optional if there is only one',
): Command {
  return command
    .argument(argument, description)
    .addOption(optionWithValue('--out <directory>', 'a directory on this machine (default: "./exports")'))
    .addOption(optionWithValue('--stack <name>', 'a deployed stack; uses AWS_PROFILE and AWS_REGION'))
    .option('--json', 'print JSON on stdout, everything else on stderr')
    .allowUnknownOption()
    .allowExcessArguments();
}
