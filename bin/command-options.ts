/** Reports all problems of a command's arguments at once. The argument parser itself stops at the first one. */

import { type Command, Option } from 'commander';
import { sanitizeArgument } from '../lib/operator/arguments.ts';
import { flagOf, type OptionName, type Options, optionTable } from '../lib/operator/option-table.ts';

/**
 * An option of the parser. A value is optional for it, so that {@link readArguments} can report a missing one together
 * with all other problems. All values are collected, because the parser would use the last one without a word.
 */
export function commandOption(name: OptionName, about: string = optionTable[name].about): Option {
  const definition = optionTable[name];
  if (!('value' in definition)) return new Option(flagOf(name), about);
  return new Option(`${flagOf(name)} [${definition.value}]`, about).argParser<readonly string[]>((value, previous) => [
    ...(Array.isArray(previous) ? (previous as readonly string[]) : []),
    value,
  ]);
}

/**
 * The names among the arguments, of which the command takes `maxNames`, and problems: unknown options, further names,
 * repeated options, and options without their value. The latter count as not given, so that the command can check its
 * other settings too.
 */
export function readArguments(command: Command, maxNames: number) {
  // The parser leaves unknown options among the names. The word after one is its value.
  const isUnknown = (word = '') => word.startsWith('-');
  const hasValue = (word = '') => isUnknown(word) && !word.includes('=');
  const unknown = command.args.filter(isUnknown).map((word) => word.split('=')[0] ?? '');
  const names = command.args.filter((word, index, all) => !isUnknown(word) && !hasValue(all[index - 1]));
  const advice = command.name() === 'local' ? '; most settings need a settings file: local --settings' : '';
  const given: Record<string, string | boolean | readonly string[]> = {};
  const repeated: Option[] = [];
  const incomplete: Option[] = [];
  for (const option of command.options) {
    const value: unknown = command.getOptionValue(option.attributeName());
    if (!option.optional) given[option.attributeName()] = value as boolean;
    else if (Array.isArray(value)) {
      const [text = '', ...more] = value as readonly string[];
      const isRepeatable = 'isRepeatable' in optionTable[option.attributeName() as OptionName];
      if (more.length > 0 && !isRepeatable) repeated.push(option);
      // An empty value is usually a variable that is not set.
      if (text === '' || more.includes('')) incomplete.push(option);
      else if (isRepeatable) given[option.attributeName()] = value as readonly string[];
      else given[option.attributeName()] = text;
    } else if (value === true) incomplete.push(option);
  }
  const problems = [
    ...unknown.map((option) => sanitizeArgument(`${option}: no such option${advice}`)),
    ...names.slice(maxNames).map((name) => sanitizeArgument(`${name}: unexpected argument`)),
    ...repeated.map(({ long }) => `${long}: is given more than once`),
    ...incomplete.map(({ long }) => `${long}: needs a value`),
  ];
  return { names, options: given as Options, problems };
}
