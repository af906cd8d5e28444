/** Reports all problems of a command's arguments at once. The argument parser itself stops at the first one. */

import { type Command, Option } from 'commander';
import { sanitizeArgument } from '../lib/operator/arguments.ts';

/** Options that were given more than once. The parser would use the last value without a word. */
const repeatedOptions = new WeakSet<Option>();

/**
 * An option of the parser. A value is optional for it, so that {@link readArguments} can report a missing one together with all other
 * problems. The help shows it as required.
 */
export function commandOption([flags, description]: readonly [flags: string, description: string]): Option {
  const option = new Option(flags.replace('<', '[').replace('>', ']'), description);
  if (!flags.includes('<')) return option;
  option.flags = flags;
  let isGiven = false;
  option.argParser((value: string) => {
    if (isGiven) repeatedOptions.add(option);
    isGiven = true;
    return value;
  });
  return option;
}

/**
 * The names among the arguments, of which the command takes `maxNames`, and problems: unknown options, further names, repeated options,
 * and options without their value. The latter count as not given, so that the command can check its other settings too.
 */
export function readArguments(command: Command, maxNames: number) {
  // The parser leaves unknown options among the names. The word after one is its value.
  const isUnknown = (word = '') => word.startsWith('-');
  const hasValue = (word = '') => isUnknown(word) && !word.includes('=');
  const unknown = command.args.filter(isUnknown).map((word) => word.split('=')[0] ?? '');
  const names = command.args.filter((word, index, all) => !isUnknown(word) && !hasValue(all[index - 1]));
  const advice = command.name() === 'local' ? '; most settings need a settings file: local --settings' : '';
  // An empty value is usually a variable that is not set.
  const incomplete = command.options.filter(
    (option) => option.optional && [true, ''].includes(command.getOptionValue(option.attributeName())),
  );
  for (const option of incomplete) command.setOptionValue(option.attributeName(), undefined);
  const repeated = command.options.filter((option) => repeatedOptions.has(option));
  const problems = [
    ...unknown.map((option) => sanitizeArgument(`${option}: no such option${advice}`)),
    ...names.slice(maxNames).map((name) => sanitizeArgument(`${name}: unexpected argument`)),
    ...repeated.map(({ long }) => `${long}: is given more than once`),
    ...incomplete.map(({ long }) => `${long}: needs a value`),
  ];
  return { names, problems };
}
