/** Reports all problems of a command's arguments at once. The argument parser itself stops at the first one. */

import { type Command, Option } from 'commander';
import { sanitizeArgument } from '../lib/operator/arguments.ts';

/** Options that were given more than once. The parser would use the last value without a word. */
const repeatedOptions = new WeakSet<Option>();

/**
 * An option of the parser. A value is optional for it, so that {@link readArguments} can report a missing one together with all other
 * problems. The help shows it as required.
 */
export function commandOption(flags: string, description: string, defaultValue?: string): Option {
  const option = new Option(flags.replace('<', '[').replace('>', ']'), description);
  if (!flags.includes('<')) return option;
  option.flags = flags;
  let isGiven = false;
  option.argParser((value: string) => {
    if (isGiven) repeatedOptions.add(option);
    isGiven = true;
    return value;
  });
  return defaultValue === undefined ? option : option.default(defaultValue);
}

/** Settings that have no option, by the option that one may expect. */
const settingsWithoutOption: Readonly<Record<string, string>> = {
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

function describeUnknown(option: string): string {
  const setting = settingsWithoutOption[option];
  const advice = setting === undefined ? '' : `; set ${setting} in a settings file, and use local --settings`;
  return sanitizeArgument(`${option}: no such option${advice}`);
}

/**
 * The names among the arguments, of which the command takes `maxNames`, and problems: unknown options, further names, repeated options,
 * and options without their value. The latter get their default value, so that the command can check its other settings too.
 */
export function readArguments(command: Command, maxNames: number) {
  // The parser leaves unknown options among the names. The word after one is its value.
  const isUnknown = (word = '') => word.startsWith('-');
  const hasValue = (word = '') => isUnknown(word) && !word.includes('=');
  const unknown = command.args.filter(isUnknown).map((word) => word.split('=')[0] ?? '');
  const names = command.args.filter((word, index, all) => !isUnknown(word) && !hasValue(all[index - 1]));
  // An empty value is usually a variable that is not set.
  const incomplete = command.options.filter(
    (option) => option.optional && [true, ''].includes(command.getOptionValue(option.attributeName())),
  );
  for (const option of incomplete) command.setOptionValue(option.attributeName(), option.defaultValue);
  const repeated = command.options.filter((option) => repeatedOptions.has(option));
  const problems = [
    ...unknown.map(describeUnknown),
    ...names.slice(maxNames).map((name) => sanitizeArgument(`${name}: unexpected argument`)),
    ...repeated.map(({ long }) => `${long}: is given more than once`),
    ...incomplete.map(({ long }) => `${long}: needs a value`),
  ];
  return { names, problems };
}
