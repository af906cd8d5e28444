/** The input of an execution: from the scheduler, from an operator, or from the execution that it continues. */

import * as z from 'zod/mini';
import { ExportError } from '../errors.ts';
import { toPrintable } from '../sanitize.ts';
import { describeProblems } from '../validation-errors.ts';
import { instantSchema } from '../timestamps.ts';

/** Stored in the export state and shown in the reason of a skip, so its length and its characters are limited. */
const printableName = (maxLength: number) =>
  z.string().check(
    z.minLength(1, 'must not be empty'),
    z.maxLength(maxLength, `must be at most ${maxLength} characters`),
    z.refine((text) => toPrintable(text) === text, 'must be printable, on one line'),
  );

const executionSchema = printableName(400);
const fields = {
  /** The export to run. May be absent if there is only one. Its name is checked by `selectExport`. */
  export: z.string(),
  /** From the scheduler: the same in each delivery of one schedule event. */
  scheduledTime: printableName(100),
  since: instantSchema,
  restart: z.boolean(),
  /** The execution that this one continues. */
  continues: executionSchema,
  /** With `continues`: the consecutive long waits that the previous execution ended with. */
  waits: z
    .int('must be a whole number')
    .check(z.minimum(0, 'must not be negative'), z.maximum(1_000, 'must be at most 1000')),
};
/** An unknown field is probably mistyped, and ignoring it would start another run than the operator intended. */
const startInputSchema = z.partial(z.strictObject(fields));
/**
 * The state machine writes this input for its next execution. After a rollback of the deployment, the execution before may
 * be of a newer version, which may write more fields. Ignoring them resumes the run after its last logged page.
 */
const continuationSchema = z.partial(z.object(fields));
export type StartInput = z.infer<typeof startInputSchema>;

/** @throws ConfigurationError that names every problem of the input */
export function parseStartInput(input: unknown): StartInput {
  const { success: isContinuation } = z.object({ continues: executionSchema }).safeParse(input);
  const parsed = (isContinuation ? continuationSchema : startInputSchema).safeParse(input);
  if (parsed.success) return parsed.data;
  throw new ExportError(
    'ConfigurationError',
    `Invalid start input. Pass {"export": "<name>"}, and optionally "since": "2026-11-20T02:00:00Z" and "restart": true. ` +
      describeProblems('start input', parsed.error),
  );
}
