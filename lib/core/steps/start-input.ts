/** What an execution may be started with: by the scheduler, by an operator, or by the segment before. */

import * as z from 'zod/mini';
import { ExportError } from '../errors.ts';
import { toPrintable } from '../sanitize.ts';
import { describeProblems } from '../settings/validation-errors.ts';
import { instantSchema } from '../timestamps.ts';

/** Kept in the head, and told in the reason of a skip: so neither of any length, nor of anything that is not seen. */
const nameOfAtMost = (most: number) =>
  z.string().check(
    z.minLength(1, 'must not be empty'),
    z.maxLength(most, `must be at most ${most} characters`),
    z.refine((text) => toPrintable(text) === text, 'must be printable, on one line'),
  );

const startInputSchema = z.partial(
  z.strictObject({
    /** From the scheduler: stable across its repeated deliveries. */
    scheduledTime: nameOfAtMost(100),
    since: instantSchema,
    restart: z.boolean(),
    /** From the segment before: the execution this one takes over from. */
    continues: nameOfAtMost(400),
    /** With `continues`: the long waits in a row that it had behind it. */
    waits: z
      .int('must be a whole number')
      .check(z.minimum(0, 'must not be negative'), z.maximum(1_000, 'must be at most 1000')),
  }),
);
export type StartInput = z.infer<typeof startInputSchema>;

/** @throws ConfigurationError that names everything that cannot be used. */
export function parseStartInput(input: unknown): StartInput {
  const parsed = startInputSchema.safeParse(input);
  if (parsed.success) return parsed.data;
  throw new ExportError(
    'ConfigurationError',
    `The start input cannot be used. Give {}, {"since": "2026-11-20T02:00:00Z"}, {"restart": true} or both. ` +
      describeProblems('start input', parsed.error),
  );
}
