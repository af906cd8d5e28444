/**
 * Takes what a store gives back for true only where it is what this exporter wrote there.
 *
 * Tables, files and metadata can be edited by hand, restored in part, or mixed up, and a value that is merely plausible
 * could be published as the truth. So each is kept with a seal, and looked at closely when it is read: first whether the
 * seal fits, then whether every field is of its type, then whether it is the value that was asked for.
 */

import type * as z from 'zod/mini';
import { ExportError } from '../errors.ts';
import type { Head, Latest, PageEntry, PageFacts } from '../model.ts';
import type { RunRef } from '../ports.ts';
import { describeProblems } from '../settings/validation-errors.ts';
import { sealOf } from './checksum.ts';
import { entrySchema, factsSchema, headSchema } from './stored-schemas.ts';

/** A value as a store gave it back, with the seal that lay beside it. */
export interface Sealed {
  readonly value: unknown;
  readonly seal: unknown;
}

/** The store, for the person who has to look there. */
export interface Place {
  /** `table page-log`, `./exports/state.sqlite`. */
  readonly name: string;
  /** What a person does there about a head that was edited; a sentence without its stop. */
  mendHead(exportName: string): string;
}

/**
 * The head of the export that `read` gives.
 * @throws PageConflictError where it is not as it was written, cannot even be read, or is another export's
 */
export function openHead(exportName: string, place: Place, read: () => Sealed): Head {
  try {
    const head = open(headSchema, read);
    if (head.export !== exportName) throw new Error(`it is the head of export ${head.export}`);
    return head;
  } catch (cause) {
    throw new ExportError(
      'PageConflictError',
      `The head of export ${exportName} in ${place.name} is not as this exporter left it: ${why(cause)}. ` +
        `Nothing was changed; ${place.mendHead(exportName)}`,
      { cause },
    );
  }
}

/**
 * The page-log entry that `read` gives.
 * @throws PageConflictError where it is not as it was written, cannot even be read, or is that of another page
 */
export function openEntry(asked: RunRef & Pick<PageEntry, 'page'>, place: Place, read: () => Sealed): PageEntry {
  try {
    const entry = open(entrySchema, read);
    if (entry.page !== asked.page || entry.run !== asked.run || entry.export !== asked.export) {
      throw new Error(`it tells of page ${entry.page} of run ${entry.run} of export ${entry.export}`);
    }
    return entry;
  } catch (cause) {
    throw new ExportError(
      'PageConflictError',
      `The entry of page ${asked.page} of run ${asked.run} of export ${asked.export} in ${place.name} is not as this ` +
        `exporter logged it: ${why(cause)}. Nothing was changed or published; put it back as it was, or start with ` +
        'restart to abandon the run and begin a new one',
      { cause },
    );
  }
}

/** The facts of a page that `read` gives. @throws Error that says why they are not what was written with the page */
export function openFacts(read: () => Sealed): PageFacts {
  return open(factsSchema, read);
}

/**
 * The sequence that a `latest.json` of this text claims. 0 where it cannot be told: such a pointer leads nobody anywhere,
 * and every other takes its place.
 */
export function sequenceOfPointer(text: string): number {
  try {
    const { sequence } = JSON.parse(text) as Partial<Latest>;
    return sequence !== undefined && Number.isSafeInteger(sequence) ? sequence : 0;
  } catch {
    return 0;
  }
}

/** A pointer takes a few hundred bytes. What is larger is none, and not worth reading. */
export const mostPointerBytes = 65_536;

/** The value itself, with the fields of a newer version that this one knows nothing of. */
function open<Value>(schema: z.ZodMiniType<Value>, read: () => Sealed): Value {
  const { value, seal } = read();
  if (typeof seal !== 'string') throw new Error('it bears no seal');
  if (seal !== sealOf(value)) throw new Error('it was edited, as its seal does not fit');
  const looked = schema.safeParse(value);
  if (!looked.success) throw new Error(describeProblems('', looked.error));
  return value as Value;
}

const why = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause));
