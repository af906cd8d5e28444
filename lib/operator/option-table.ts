/** Every option of every command, once: for the parser, for the help, and as the type that the commands read. */

interface OptionDefinition {
  /** What its value is called in the help. Absent: it has none. */
  readonly value?: string;
  readonly about: string;
  readonly isRepeatable?: true;
}

/** `baseUrl` is the option `--base-url`. A command takes some, and may describe one itself: `bin/commands.ts`. */
export const optionTable = {
  out: {
    value: 'directory',
    about: 'a directory on this machine (default: ./exports, or ./simulated for local with a simulator)',
  },
  settings: { value: 'file', about: 'the settings file (default: report-exporter.json in the directory)' },
  stack: { value: 'name', about: 'a deployed stack; uses AWS_PROFILE and AWS_REGION' },
  json: { about: 'print JSON on stdout, everything else on stderr' },
  all: { about: 'every export' },

  simulate: { about: 'use a simulator of the Report Export Service instead of the one in the settings file' },
  baseUrl: { value: 'url', about: 'the service (default: a simulator)' },
  vendor: { value: 'name', about: 'vendor part of the headers X-<name>-…' },
  export: { value: 'name', about: 'name of the export, and first part of its keys (default: reports)' },

  since: { value: 'instant', about: 'start here, not at the watermark (ISO 8601 UTC, or a date)' },
  until: { value: 'instant', about: 'with --since: in a bounded run of what is dated before it' },
  each: { value: 'duration', about: 'split the period into runs of this length, one after the other: P7D, or month' },
  parents: { value: 'run', about: 'in a bounded run, the children of this run of the export of the parents' },
  again: { about: 'export bounds, or the children of a run, again that were exported before' },
  parallel: { value: 'n', about: 'export n slices of the run at the same time, 1 to 16' },
  slice: { value: 'duration', about: 'how long a slice is: PT1H (default: chosen for each run)' },
  restart: { about: 'abandon an unfinished run and start over' },
  skipParent: {
    value: 'value',
    about: 'export the run without the pages of this parent; may be repeated',
    isRepeatable: true,
  },
  follow: { about: 'wait for the end of the runs; always on for a directory' },
  maxAttempts: { value: 'n', about: 'try each step of a local run at most n times; 1: no retries' },
  quiet: { about: 'show only warnings, and how each run ended' },

  failed: { about: 'in the overview, show only exports that need attention' },
  runs: { about: 'list the published runs of one export instead, lowest sequence first' },
  run: { value: 'id', about: 'the run (default: the newest one)' },
  request: { about: 'send the first request and the one after it, and show what is found' },
  createJob: { about: 'with --request: create a report job, wait for it, and request its result' },
  toEnd: { about: 'send the requests of all pages up to the last one, and show how it ends; stores nothing' },
  yes: { about: 'abandon it; without it, the command only says what it would abandon' },
  to: { value: 'path', about: 'the file (default: <export>-<run>.html)' },

  api: { about: 'describe another API, by an example to be edited' },
  package: {
    value: 'version',
    about: 'the report-exporter to install: a version, or a tarball (default: this version)',
  },
} as const satisfies Record<string, OptionDefinition>;

type OptionTable = typeof optionTable;
export type OptionName = keyof OptionTable;

/** The options of a command, as the parser returns them. */
export type Options = {
  readonly [Name in OptionName]?: OptionTable[Name] extends { readonly isRepeatable: true }
    ? readonly string[]
    : OptionTable[Name] extends { readonly value: string }
      ? string
      : boolean;
};

/** `--base-url` for `baseUrl`. */
export const flagOf = (name: OptionName): string =>
  `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
