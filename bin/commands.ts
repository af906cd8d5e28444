/** The commands with their options and help. Examples name a program on the PATH, and are shown as it is run here. */

import type { Call } from '../lib/operator/context.ts';
import type { OptionName } from '../lib/operator/option-table.ts';

export interface CommandDefinition {
  readonly argument?: readonly [name: string, description: string];
  readonly description: string;
  readonly options: readonly OptionName[];
  /** The purpose of an option, where it differs from the table. */
  readonly about?: { readonly [Name in OptionName]?: string };
  readonly help: string;
  readonly load: () => Promise<(call: Call) => Promise<number>>;
}

const oneExport = ['[export]', 'name of the export; optional if there is only one'] as const;
const someExports = ['[exports...]', 'names of exports; optional if there is only one'] as const;
const target = ['out', 'settings', 'stack', 'json'] as const;
/** The options that a run is started with. */
const start = ['since', 'until', 'each', 'parents', 'again', 'parallel', 'slice', 'restart', 'skipParent'] as const;
/** The options that describe the only export, without a settings file. */
const service = ['baseUrl', 'vendor', 'export'] as const;

/** Ends the help of every command. */
export const exitStatusHelp = `
Exit status: 0 success; 1 a run or a start failed, a problem was found, something cannot be read, or status --failed lists an export;
2 wrong usage or settings, a refused start, or nothing to act on; 130 interrupted.`;

export const commands: Readonly<Record<string, CommandDefinition>> = {
  local: {
    argument: ['[exports...]', 'names of exports of the settings file; optional if there is only one'],
    description: 'run an export on this machine, into a directory',
    options: ['settings', 'all', 'simulate', ...service, ...start, 'out', 'maxAttempts', 'quiet', 'json'],
    help: `
Run it again to export what is new since the last run, or to resume an interrupted run. The API key comes from the environment
variable REPORT_EXPORT_API_KEY, or the one in apiKeyEnv of a settings file. All else that can be set needs a settings file.

With --settings, the exports run as they would be deployed, one after the other, except for schedules. With --all, every export
of the settings file runs. One that fails does not stop the others. Without --settings, the settings are in report-exporter.json
in the directory. If that file does not exist, the first stored page writes it from the options.

Examples:
  $ report-exporter local                                           # a first run, against the simulator
  $ REPORT_EXPORT_API_KEY=… report-exporter local --base-url https://reports.example.com --vendor ACME --out /data/acme
  $ report-exporter local --since 2026-10-01 --until 2026-11-01 --parallel 8 # a month, 8 slices at a time
  $ report-exporter local --settings report-exporter.json nightly   # an export of a settings file`,
    load: async () => (await import('../lib/operator/commands/local.ts')).localCommand,
  },

  status: {
    argument: ['[export]', 'name of the export (default: an overview of all)'],
    description: 'show one export and its newest runs, or an overview of all',
    options: [...target, 'failed', 'runs'],
    help: `
The overview shows those first that failed, were interrupted, are stale or cannot be read. An export is stale if its newest
completed run is older than its schedule's freshness.

With --runs, the published runs of one export, bounded ones included, the lowest sequence first. With --json, prints a JSON object
per run: the fields of its run.json, and location, the address of its manifest. If the run.json of a run was changed, the runs before
it are printed, and the command fails.

Examples:
  $ report-exporter status --stack ReportExporter --failed
  $ report-exporter status --json | jq -r '.exports[] | select(.stale).export'
  $ report-exporter status nightly --stack ReportExporter --runs --json | jq -r .run`,
    load: async () => (await import('../lib/operator/commands/status.ts')).statusCommand,
  },

  start: {
    argument: someExports,
    description: 'start runs, or resume unfinished ones',
    options: [...target, 'all', ...start, 'follow', 'maxAttempts'],
    help: `
Ctrl-C interrupts a local run; a deployed run continues. Several exports of a stack start at the same time, those of a directory run one after the other. One that
fails does not stop the others. With --json, prints a JSON object per export, one per line.

With --since and --until, it is a bounded run: it exports what is dated from the one and before the other, and leaves the watermark
alone. Bounds that overlap those of another bounded run are refused. With --each, the command starts one bounded run after the other,
and must stay open; the same command continues with those that are left. Slices and bounds need requests with an upper bound: see
filterUntil in docs/settings.md.

Examples:
  $ report-exporter start nightly --stack ReportExporter --follow
  $ report-exporter start nightly --stack ReportExporter --parallel 8 --slice PT1H
  $ report-exporter start nightly --stack ReportExporter --since 2020-01-01 --until 2021-01-01 --parallel 16 --each month
  $ report-exporter start --all --stack ReportExporter --follow`,
    load: async () => (await import('../lib/operator/commands/start.ts')).startCommand,
  },

  verify: {
    argument: oneExport,
    description: 'read runs again and report what has changed',
    options: [...target, 'run', 'all'],
    about: { all: 'every published run of every export' },
    help: `
Checks every page (existence, size, SHA-256, metadata, and what is in a compressed one), the page numbers and cursors, the
manifest against the page log, and latest.json. Without --run, it is the newest published run that is not a bounded one.
--all verifies every published run of every export, bounded ones included.

Examples:
  $ report-exporter verify nightly --stack ReportExporter --run 20261120T020000Z-1f3a5cb2d407
  $ report-exporter verify --all --stack ReportExporter`,
    load: async () => (await import('../lib/operator/commands/verify.ts')).verifyCommand,
  },

  plan: {
    argument: oneExport,
    description: 'show what the next start would request, and why',
    options: [...target, 'request', 'createJob', 'toEnd', ...start],
    help: `
Stores nothing, and without --request sends nothing. With the options of start, shows what that start would do. --request sends from
here, also for a stack, and shows how many reports a page has, and which next page was found where. Two pages do not show the last
one: --to-end requests all pages of the period. With report jobs, it requests the result of the job that the run waits for; otherwise
--create-job creates one, which the vendor may charge for. Use the --out of local: it has the state and the refresh tokens.

Examples:
  $ report-exporter plan nightly --stack ReportExporter --since 2020-01-01 --until 2021-01-01 --parallel 8
  $ report-exporter plan audit --settings report-exporter.json --request
  $ report-exporter plan audit --settings report-exporter.json --to-end --since 2026-11-20`,
    load: async () => (await import('../lib/operator/commands/plan.ts')).planCommand,
  },

  abandon: {
    argument: oneExport,
    description: 'abandon an unfinished run',
    options: [...target, 'since', 'until', 'parents', 'yes'],
    about: {
      since: 'with --until: the bounded run that begins here',
      until: 'where it ends',
      parents: 'the bounded run with the children of this run',
    },
    help: `
An abandoned run is never published. The next start begins a new run at the watermark. With --since and --until, abandons the bounded
run of these bounds; the next one begins at its lower bound.

Examples:
  $ report-exporter abandon nightly --stack ReportExporter --yes
  $ report-exporter abandon nightly --stack ReportExporter --since 2020-01-01 --until 2021-01-01 --yes`,
    load: async () => (await import('../lib/operator/commands/abandon.ts')).abandonCommand,
  },

  doctor: {
    argument: ['[export]', 'name of the export (default: all)'],
    description: 'check whether exports can run, and how to fix them',
    options: target,
    help: `
Checks settings, state, store, what a start would do, proxy and certificates, API key, service and versions; of a stack, also
whether its alarms reach anyone. Requests page 1 of the next run of each service and does not store it; of a stack, the function
requests another one. For how runs went, use status. In a directory, a file is written and removed again. With --settings, checks the file, API keys and services from here.
Use the --out of local: it has the state and the refresh tokens.

Examples:
  $ report-exporter doctor --settings report-exporter.json
  $ report-exporter doctor --stack ReportExporter`,
    load: async () => (await import('../lib/operator/commands/doctor.ts')).doctorCommand,
  },

  report: {
    argument: oneExport,
    description: 'write an HTML file that shows how a run went',
    options: [...target, 'run', 'to'],
    help: `
Examples:
  $ report-exporter report nightly
  $ report-exporter report nightly --stack ReportExporter --run 20261120T020000Z-1f3a5cb2d407 --to incident.html`,
    load: async () => (await import('../lib/operator/commands/report.ts')).reportCommand,
  },

  init: {
    argument: ['[directory]', 'directory of the project; is created'],
    description: 'create a project that deploys exports: a CDK app and its settings',
    options: ['api', 'package', 'json'],
    help: `
Writes package.json, cdk.json, app.js, report-exporter.json, .nvmrc, .npmrc, .gitignore and README.md. Existing files are not overwritten.

Examples:
  $ report-exporter init my-exports
  $ report-exporter init my-exports --api`,
    load: async () => (await import('../lib/operator/commands/init.ts')).initCommand,
  },
};
