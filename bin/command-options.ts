/** Options whose mistakes are all told at once, where the parser by itself would stop at the first. */

import { type Command, Option } from 'commander';

/**
 * An option that takes a value. To the parser the value may be left out, so that this mistake too is named together with
 * every other; the help shows that it may not.
 */
export function withValue(flags: string, description: string, standard?: string): Option {
  const option = new Option(flags.replace('<', '[').replace('>', ']'), description);
  option.flags = flags;
  return standard === undefined ? option : option.default(standard);
}

/**
 * What the parser could not place or complete, behind the first `expected` words. Options without their value are set back
 * to what they stand for.
 */
export function problemsIn(command: Command, expected = 0): string[] {
  const strangers = command.args
    .slice(expected)
    .map((word) => (word.startsWith('-') ? `${word.split('=')[0]}: no such option` : `${word}: unexpected argument`));
  const incomplete = command.options.filter(
    (option) => option.optional && command.getOptionValue(option.attributeName()) === true,
  );
  for (const option of incomplete) command.setOptionValue(option.attributeName(), option.defaultValue);
  return [...strangers, ...incomplete.map(({ long }) => `${long}: needs a value`)];
}
