/**
 * Describes what is wrong with external data: every problem at once, each with its path. The data may be of any size
 * and content, so field names are sanitized and truncated, and long lists end with a count.
 */

import { en } from 'zod/locales';
import * as z from 'zod/mini';
import { toPrintable, truncate } from './sanitize.ts';

type Issue = z.core.$ZodIssue;

// Messages for checks that specify none: zod/mini has no default locale. Wrong types are not described by the locale,
// because
// `zod` sets its own when it is loaded.
z.config({ ...en(), customError: describeType });

const typeNames: Readonly<Record<string, string>> = {
  object: 'an object',
  record: 'an object',
  array: 'a list',
  string: 'a string',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
};

function describeType(issue: z.core.$ZodRawIssue): string | undefined {
  if (issue.code !== 'invalid_type') return undefined;
  if (issue.input === undefined) return 'is required';
  const name = typeNames[issue.expected];
  return name === undefined ? undefined : `must be ${name}`;
}

/** The error of an object's schema that shows an `example`. */
export const orExample =
  (example: string) =>
  ({ code, input }: z.core.$ZodRawIssue): string | undefined =>
    code === 'invalid_type' && input !== undefined ? `must be an object such as ${example}` : undefined;

const maxProblems = 100;
const maxNames = 10;
const maxNameLength = 40;

/** `settings size: must be 1 to 10; settings filter.date: must be an object`. `subject` names the data. */
export function describeProblems(subject: string, error: { readonly issues: readonly Issue[] }): string {
  return problemLines(subject, error.issues).join('; ');
}

/** The same as lines, one per problem. `place` says more about where the problem is, after the subject: `:7`. */
export function problemLines(
  subject: string,
  issues: readonly Issue[],
  place: (issue: Issue) => string = () => '',
): string[] {
  const lines = issues.slice(0, maxProblems).map((issue) => {
    const where = [`${subject}${place(issue)}`, formatPath(issue.path)].filter(Boolean).join(' ');
    return `${where}: ${describeProblem(issue)}`;
  });
  const more = issues.length - lines.length;
  return more === 0 ? lines : [...lines, `${subject}: and ${more} more`];
}

/** The problem without its path. */
export const describeProblem = (issue: Issue): string =>
  issue.code !== 'unrecognized_keys' || issue.message.startsWith(unknownField)
    ? issue.message
    : describeUnknownFields(issue.keys);

const unknownField = 'unknown field';

/** `unknown fields: "a", "b"`. */
export function describeUnknownFields(keys: readonly string[]): string {
  const names = keys.slice(0, maxNames).map((key) => JSON.stringify(shortName(key)));
  const more = keys.length - names.length;
  return `${unknownField}${keys.length === 1 ? '' : 's'}: ${names.join(', ')}${more === 0 ? '' : ` and ${more} more`}`;
}

/** `exports[0].filter.date`. */
export function formatPath(path: readonly PropertyKey[]): string {
  return path.reduce<string>((parent, key) => {
    if (typeof key === 'number') return `${parent}[${key}]`;
    const name = shortName(String(key));
    if (!/^[\w-]+$/.test(name)) return `${parent}[${JSON.stringify(name)}]`;
    return parent === '' ? name : `${parent}.${name}`;
  }, '');
}

const shortName = (key: string): string => truncate(toPrintable(key), maxNameLength);
