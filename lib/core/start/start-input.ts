/**
 * The input of an execution, and the export that it names. It comes from the scheduler, from an operator, or from the
 * execution that it continues.
 */

import * as z from 'zod/mini';
import { definitionOfState } from '../bounded-runs.ts';
import { ExportError } from '../errors.ts';
import { type ExportDefinition, runIdPattern } from '../model.ts';
import { listNames, toPrintable, truncate } from '../sanitize.ts';
import { describeProblems } from '../validation-errors.ts';
import { maxParallel, maxSkipped } from '../slices.ts';
import { durationSchema, instantSchema } from '../timestamps.ts';

/** A text that the export state and the reason of a skip contain, so its length and its characters are limited. */
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
  /** The upper bound of a bounded run, which also needs `since`. */
  until: instantSchema,
  /** The run whose reports are the parents of a bounded run. */
  parents: z.string().check(z.regex(runIdPattern, 'must be the ID of a run, such as 20261120T020000Z-1f3a5cb2d407')),
  /** Whether to export bounds that were exported before. */
  again: z.boolean(),
  /** How many slices of the run are walked at the same time. */
  parallel: z
    .int('must be a whole number')
    .check(z.minimum(1, 'must be at least 1'), z.maximum(maxParallel, `must be at most ${maxParallel}`)),
  /** How long a slice is. */
  slice: durationSchema.check(z.refine((ms) => ms > 0 && ms % 60_000 === 0, 'must be whole minutes, such as PT1H')),
  restart: z.boolean(),
  /** The values of parents that the run has no pages of, also if it has begun. */
  skipParent: z
    .array(z.string().check(z.minLength(1, 'must not be empty')))
    .check(z.maxLength(maxSkipped, `must have at most ${maxSkipped} values`)),
  /** The execution that this one continues. */
  continues: executionSchema,
  /** With `continues`: the consecutive long waits that the previous execution ended with. */
  waits: z
    .int('must be a whole number')
    .check(z.minimum(0, 'must not be negative'), z.maximum(1_000, 'must be at most 1000')),
};
/** An unknown field is probably mistyped, and ignoring it would start another run than the operator intended. */
export const startInputSchema = z.partial(z.strictObject(fields)).check(
  z.refine(({ since, until }) => until === undefined || since !== undefined, {
    path: ['until'],
    error: 'needs since: a run with an upper bound has both',
  }),
  z.refine(({ until, parents }) => until === undefined || parents === undefined, {
    path: ['parents'],
    error: 'names a bounded run, and so does until: leave out one of them',
  }),
  z.refine(({ again, until, parents }) => again !== true || until !== undefined || parents !== undefined, {
    path: ['again'],
    error: 'needs since and until, or parents',
  }),
);
/**
 * The state machine writes this input for its next execution. After a rollback of the deployment, the execution before
 * may be of a newer version, which may write more fields. Ignoring them resumes the run after its last logged page.
 */
const continuationSchema = z.partial(z.object(fields));
export type StartInput = z.infer<typeof startInputSchema>;

/** A start input without the name of the export; `slice` is written as a duration. */
export type StartRequest = Omit<StartInput, 'export' | 'scheduledTime' | 'slice' | 'continues' | 'waits'> & {
  readonly slice?: string | undefined;
};

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

/**
 * The export that `input` names; if it names none, the only export of the service. The input of a step names the state
 * of its run: then it is the definition of that run, which may be a bounded one.
 * @throws ConfigurationError that lists the exports, if there is no such export
 */
export function selectExport(exports: ReadonlyMap<string, ExportDefinition>, input: unknown): ExportDefinition {
  const name = nameIn(input);
  const [only] = exports.values();
  if (name === undefined && only !== undefined && exports.size === 1) return only;
  const stateName = typeof name === 'string' ? name : '';
  const named = exports.get(stateName.split('/')[0] ?? '');
  const definition = named && definitionOfState(named, stateName);
  if (definition !== undefined) return definition;
  const problem =
    name === undefined
      ? 'The start input does not name an export. Add a field, such as {"export": "nightly"}'
      : `There is no export ${truncate(toPrintable(JSON.stringify(name)), 60)}`;
  throw new ExportError('ConfigurationError', `${problem}. Exports of this service: ${listNames([...exports.keys()])}`);
}

/** The field `export` of a start input. Neither has been checked. */
export function nameIn(input: unknown): unknown {
  if (typeof input !== 'object' || input === null || !Object.hasOwn(input, 'export')) return undefined;
  return (input as { readonly export: unknown }).export;
}
