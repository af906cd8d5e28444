/** Says what is wrong with a value from outside, every problem at once, each with the place it stands in. */

import type { z } from 'zod';

/** `settings: size: must be 1 to 10; filter.date: must be an object`. */
export function describeProblems(what: string, error: z.ZodError): string {
  return error.issues
    .map((issue) => `${[what, placeOf(issue.path)].filter(Boolean).join(' ')}: ${issue.message}`)
    .join('; ');
}

function placeOf(path: readonly PropertyKey[]): string {
  return path.reduce<string>(
    (place, step) =>
      typeof step === 'number' ? `${place}[${step}]` : place === '' ? String(step) : `${place}.${String(step)}`,
    '',
  );
}
