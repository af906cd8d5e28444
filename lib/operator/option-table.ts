/** Every option of every command, once: for the parser, for the help, and as the types that the commands read. */

/** The flags of each option, and what it is for. A command takes some of them: `bin/commands.ts`. */
export const optionTable = {
  out: [
    '--out <directory>',
    'a directory on this machine (default: ./exports, or ./simulated for local with a simulator)',
  ],
  stack: ['--stack <name>', 'a deployed stack; uses AWS_PROFILE and AWS_REGION'],
  json: ['--json', 'print JSON on stdout, everything else on stderr'],
  all: ['--all', 'every export'],
  everyRun: ['--all', 'every published run of every export'],
  newest: ['--newest', 'the newest run of every export'],
  settings: ['--settings <file>', 'the settings file (default: report-exporter.json in the directory)'],

  simulate: ['--simulate', 'use a simulator of the Report Export Service instead of the one in the settings file'],
  baseUrl: ['--base-url <url>', 'the service (default: a simulator; of init an example)'],
  vendor: ['--vendor <name>', 'vendor part of the headers X-<name>-…'],
  cursorIn: ['--cursor-in <location>', 'send the cursor in query or body (default: query)'],
  filterUntil: ['--filter-until <field>', 'filter that excludes reports from a date on: date.lt'],
  export: ['--export <name>', 'name of the export, and first part of its keys (default: reports)'],
  size: ['--size <n>', "reports per page, 1 to 10 (default: the service's)"],
  compress: ['--compress', 'store each page as a gzip file: page-000001.xml.gz'],

  since: ['--since <instant>', 'start here, not at the watermark (ISO 8601 UTC, or a date)'],
  until: ['--until <instant>', 'with --since: in a bounded run of what is dated before it'],
  each: ['--each <duration>', 'split the period into runs of this length, one after the other: P7D, or month'],
  again: ['--again', 'export bounds again that were exported before'],
  parallel: ['--parallel <n>', 'export n slices of the run at the same time, 1 to 16'],
  slice: ['--slice <duration>', 'how long a slice is: PT1H (default: chosen for each run)'],
  restart: ['--restart', 'abandon an unfinished run and start over'],
  follow: ['--follow', 'wait for the end of the runs; always on for a directory'],
  maxAttempts: ['--max-attempts <n>', 'try each step of a local run at most n times; 1: no retries'],
  quiet: ['--quiet', 'show only warnings, and how each run ended'],

  failed: ['--failed', 'in the overview, show only exports that need attention'],
  watch: ['--watch', 'refresh every few seconds'],
  newestRuns: ['--runs <n>', 'number of recent runs to show of one export (default: 5)'],
  run: ['--run <id>', 'the run (default: the newest one)'],
  cat: ['--cat', 'print the content of the pages, decompressed'],
  after: ['--after <sequence>', 'only the runs with a higher sequence'],
  bounded: ['--bounded', 'list bounded runs instead, by date'],
  request: ['--request', 'send the first request and the one after it, and show what is found'],
  toEnd: ['--to-end', 'send the requests of all pages up to the last one, and show how it ends; stores nothing'],
  boundedSince: ['--since <instant>', 'with --until: the bounded run that begins here'],
  boundedUntil: ['--until <instant>', 'where it ends'],
  yes: ['--yes', 'abandon it; without it, the command only says what it would abandon'],
  to: ['--to <path>', 'the file (default: <export>-<run>.html), or with --all the directory'],
  reportedRuns: ['--runs <n>', 'with --all: the number of newest runs per export (default: 100)'],
  open: ['--open', 'open the file in the browser'],

  port: ['--port <port>', 'on 127.0.0.1; 0 picks a free port (default: 0)'],
  reports: ['--reports <n>', 'generated reports at the start (default: 250)'],
  api: ['--api', 'describe another API, by an example to be edited'],
  package: ['--package <version>', 'the report-exporter to install: a version, or a tarball (default: this version)'],
} as const satisfies Record<string, readonly [flags: string, description: string]>;

type Flags = (typeof optionTable)[keyof typeof optionTable][0];

/** `baseUrl` of `base-url`. */
type CamelCase<Name extends string> = Name extends `${infer First}-${infer Rest}`
  ? `${First}${Capitalize<CamelCase<Rest>>}`
  : Name;

type NameOf<Each extends Flags> = Each extends `--${infer Name} <${string}`
  ? Name
  : Each extends `--${infer Name}`
    ? Name
    : never;

/** The options of a command, as the parser returns them. */
export type Options = {
  readonly [Each in Flags as CamelCase<NameOf<Each>>]?: Each extends `${string} <${string}` ? string : boolean;
};
