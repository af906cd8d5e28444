/** Reports all problems of a command's arguments at once. The argument parser itself stops at the first one. */

import { type Command, Option } from 'commander';
import type { CommandContext } from '../lib/operator/context.ts';
import { sanitizeArgument } from '../lib/operator/run-options.ts';

/**
 * The action of a command for the parser: loads the command when it is called, and runs it. `Names` is a list if the
 * command takes any number of names.
 */
export type CommandAction = <Names extends string | undefined | readonly string[], Options>(
  load: (
    command: Command,
  ) => Promise<
    (names: Names, options: Options, usageErrors: readonly string[], context: CommandContext) => Promise<number>
  >,
) => (this: Command) => Promise<void>;

/**
 * An option with a value. For the parser the value is optional, so that {@link usageErrors} can report a missing one
 * together with all other problems. The help shows it as required.
 */
export function optionWithValue(flags: string, description: string, defaultValue?: string): Option {
  const option = new Option(flags.replace('<', '[').replace('>', ']'), description);
  option.flags = flags;
  let isGiven = false;
  option.argParser((value: string) => {
    if (isGiven) repeatedOptions.add(option);
    isGiven = true;
    return value;
  });
  return defaultValue === undefined ? option : option.default(defaultValue);
}

/**
 * Options that there are not, because settings have the field. They are known to the parser, and hidden, so that their values are not
 * taken for names.
 */
const fieldsOfOptions: Readonly<Record<string, string>> = {
  '--api-key-env': 'services.<name>.apiKeyEnv',
  '--proxy-url': 'services.<name>.proxyUrl',
  '--ca': 'services.<name>.tls.ca',
  '--client-certificate': 'services.<name>.tls.clientCertificate',
  '--client-key': 'services.<name>.tls.clientKey',
  '--client-key-passphrase-env': 'services.<name>.tls.clientKeyPassphraseEnv',
  '--header': 'services.<name>.headers',
  '--no-compression': 'services.<name>.compression',
  '--root-element': 'services.<name>.rootElement',
  '--overlap': 'exports[].since.overlap',
  '--filter': 'exports[].filter',
  '--format': 'exports[].format',
  '--container': 'exports[].container',
  '--max-pages': 'exports[].maxPages',
  '--max-empty-pages': 'exports[].maxEmptyPages',
};

export function addFieldOptions(command: Command): void {
  for (const name of Object.keys(fieldsOfOptions)) {
    command.addOption(new Option(name.startsWith('--no-') ? name : `${name} [value]`).hideHelp());
  }
}

/** What a run is started with, beside its lower bound. */
export function addRunOptions(command: Command): Command {
  return command
    .addOption(optionWithValue('--until <instant>', 'with --since: export what is dated before it, in a bounded run'))
    .addOption(optionWithValue('--each <duration>', 'in runs that are so long, one after the other: P7D, or month'))
    .option('--again', 'export bounds again that were exported before')
    .addOption(optionWithValue('--parallel <n>', 'export n slices of the run at the same time, 1 to 16'))
    .addOption(optionWithValue('--slice <duration>', 'how long a slice is: PT1H (default: chosen for each run)'));
}

/** Options that were given more than once. The parser would use the last value without a word. */
const repeatedOptions = new WeakSet<Option>();

const unexpectedArgument = (word: string): string => sanitizeArgument(`${word}: unexpected argument`);

/**
 * Unknown options, arguments other than `expected`, repeated options, and options without their value. The latter get
 * their default value, so that the command can check its other settings too.
 */
export function usageErrors(command: Command, expected: readonly string[] = []): string[] {
  const remaining = [...expected];
  const excess = command.args
    .filter((word) => {
      const index = remaining.indexOf(word);
      if (index >= 0) remaining.splice(index, 1);
      return index < 0;
    })
    .map((word) =>
      word.startsWith('-') ? sanitizeArgument(`${word.split('=')[0]}: no such option`) : unexpectedArgument(word),
    );
  // An empty value is usually a variable that is not set.
  const incomplete = command.options.filter(
    (option) =>
      option.optional && !option.hidden && [true, ''].includes(command.getOptionValue(option.attributeName())),
  );
  for (const option of incomplete) command.setOptionValue(option.attributeName(), option.defaultValue);
  const repeated = command.options.filter((option) => repeatedOptions.has(option));
  const ofSettings = command.options.filter(
    (option) => option.hidden && command.getOptionValueSource(option.attributeName()) === 'cli',
  );
  return [
    ...excess,
    ...ofSettings.map(
      ({ long = '' }) => `${long}: no such option; set ${fieldsOfOptions[long]} in a settings file and use --settings`,
    ),
    ...repeated.map(({ long }) => `${long}: is given more than once`),
    ...incomplete.map(({ long }) => `${long}: needs a value`),
  ];
}
