/** Single arguments and options, apart from `run-options.ts`: few commands need the schemas of settings. */

import { ExportError } from '../core/errors.ts';
import { listNames, toPrintable, truncate } from '../core/sanitize.ts';

/** An argument for an error message: long enough to recognize it, printable, and on one line. */
export const sanitizeArgument = (text: string): string => truncate(toPrintable(text), 200);

/** NaN unless `text` is a whole number in decimal digits. Number also accepts blank text, 0x5, 5e0 and 5.0. */
export function parseWholeNumber(text: string): number {
  const number = /^(0|[1-9]\d*)$/.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(number) ? number : Number.NaN;
}

/** Why `names` do not select among several exports of `place`; empty if they do. */
export function selectionProblems(
  place: string,
  names: readonly string[],
  existing: readonly string[],
  advice = `Specify exports of ${place}, or all of them with --all`,
): readonly string[] {
  const unknown = names.filter((name) => !existing.includes(name));
  if (names.length > 0 && unknown.length === 0) return [];
  return [
    ...(names.length === 0 ? [advice] : []),
    ...unknown.map((name) => `${sanitizeArgument(name)}: no such export in ${place}`),
    `  Its exports: ${listNames(existing)}`,
  ];
}

/** @throws ConfigurationError with a line for every problem */
export function assertNoProblems(problems: readonly string[]): void {
  if (problems.length > 0) throw new ExportError('ConfigurationError', problems.join('\n'));
}
