/** Reports all problems of a command's arguments at once. The argument parser itself stops at the first one. */

import { type Command, Option } from 'commander';
import { sanitizeArgument } from '../lib/operator/arguments.ts';

/** Options that were given more than once. The parser would use the last value without a word. */
const repeatedOptions = new WeakSet<Option>();

/**
 * An option of the parser. A value is optional for it, so that {@link usageErrors} can report a missing one together with all other
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

/**
 * Unknown options, arguments other than `expected`, repeated options, and options without their value. The latter get
 * their default value, so that the command can check its other settings too. `settings` are named instead of hidden options.
 */
export function usageErrors(
  command: Command,
  expected: readonly string[],
  settings: Readonly<Record<string, string>> = {},
): string[] {
  const remaining = [...expected];
  const excess = command.args
    .filter((word) => {
      const index = remaining.indexOf(word);
      if (index >= 0) remaining.splice(index, 1);
      return index < 0;
    })
    .map((word) =>
      sanitizeArgument(word.startsWith('-') ? `${word.split('=')[0]}: no such option` : `${word}: unexpected argument`),
    );
  const options = command.options.filter(({ hidden }) => !hidden);
  const given = command.options.filter((option) => command.getOptionValueSource(option.attributeName()) === 'cli');
  // An empty value is usually a variable that is not set.
  const incomplete = options.filter(
    (option) => option.optional && [true, ''].includes(command.getOptionValue(option.attributeName())),
  );
  for (const option of incomplete) command.setOptionValue(option.attributeName(), option.defaultValue);
  return [
    ...excess,
    ...given
      .filter(({ hidden }) => hidden)
      .map(({ long }) => `${long}: no such option; set ${settings[long ?? '']} in a settings file and use --settings`),
    ...options.filter((option) => repeatedOptions.has(option)).map(({ long }) => `${long}: is given more than once`),
    ...incomplete.map(({ long }) => `${long}: needs a value`),
  ];
}
