/**
 * Says what is wrong with a value from outside, every problem at once, each with the place it stands in. What is wrong may
 * be of any size and hold anything, so of its own words no more is repeated than a person needs to find the place.
 */

import { en } from 'zod/locales';
import * as z from 'zod/mini';
import { toPrintable, truncate } from '../sanitize.ts';

type Issue = z.core.$ZodIssue;

// The words for what our schemas have none of their own: the small form of zod comes without any.
z.config(en());

/** More problems than a person mends in one go are counted, not told. */
const maxProblems = 100;
const maxNames = 10;
const maxNameLength = 40;

/** `settings size: must be 1 to 10; settings filter.date: must be an object`. */
export function describeProblems(what: string, { issues }: { readonly issues: readonly Issue[] }): string {
  return problemLines(what, issues).join('; ');
}

/** The same, a line for each problem. */
export function problemLines(what: string, issues: readonly Issue[]): string[] {
  const lines = issues
    .slice(0, maxProblems)
    .map((issue) => `${[what, formatPath(issue.path)].filter(Boolean).join(' ')}: ${describeProblem(issue)}`);
  const more = issues.length - lines.length;
  return more === 0 ? lines : [...lines, `${what}: and ${more} more`];
}

/** What is wrong there. The schemas' own words are ours; but of what does not belong there, only the names are known. */
export function describeProblem(issue: Issue): string {
  if (issue.code !== 'unrecognized_keys') return issue.message;
  const names = issue.keys.slice(0, maxNames).map((key) => JSON.stringify(nameOf(key)));
  const more = issue.keys.length - names.length;
  return `has no such field: ${names.join(', ')}${more === 0 ? '' : ` and ${more} more`}`;
}

/** `exports[0].filter.date`. */
export function formatPath(path: readonly PropertyKey[]): string {
  return path.reduce<string>((place, step) => {
    if (typeof step === 'number') return `${place}[${step}]`;
    const name = nameOf(String(step));
    if (!/^[\w-]+$/.test(name)) return `${place}[${JSON.stringify(name)}]`;
    return place === '' ? name : `${place}.${name}`;
  }, '');
}

const nameOf = (key: string): string => truncate(toPrintable(key), maxNameLength);
