/**
 * Validates records that are read back from a store.
 *
 * Tables, files and object metadata can be edited, restored in part or mixed up, and a plausible value could be
 * published as the truth. So each record is stored with a checksum. A read verifies the checksum, then the type of
 * every field, then that the record is the one that was requested. A checksum detects mistakes, partial restores and
 * mixed-up copies, but not deliberate changes: anyone who can write to the store can recompute it.
 */

import { hash } from 'node:crypto';
import type * as z from 'zod/mini';
import { parseStateName } from '../bounded-runs.ts';
import { ExportError } from '../errors.ts';
import {
  entrySchema,
  type ExportState,
  type LatestPointer,
  metadataSchema,
  type LogEntry,
  type PageMetadata,
  stateSchema,
} from '../model.ts';
import type { ChainRef } from '../ports.ts';
import { describePage } from './keys.ts';
import { describeProblems } from '../validation-errors.ts';

/** A record in a page log: its JSON, which keeps the order of names, beside its checksum. Neither can be trusted. */
export interface StoredRecord {
  readonly json?: unknown;
  readonly checksum?: unknown;
}

/** The checksum is the SHA-256 of the JSON, in lower-case hexadecimal. */
export function toStoredRecord(record: ExportState | LogEntry) {
  const json = JSON.stringify(record);
  return { json, checksum: hash('sha256', json) };
}

/** Describes a store in errors. */
export interface RecordStore {
  /** `table page-log`, `./exports/state.sqlite`. */
  readonly name: string;
  /** How to restore or remove a changed state: a clause without a full stop. */
  repairHint(stateName: string): string;
  /** How an export whose state was removed starts where it should. */
  readonly startHint: string;
}

/**
 * The state of the export. `version` is the one that the store compares when it replaces the state.
 * @throws PageConflictError if the state was changed or belongs to another export
 */
export function parseExportState(
  stateName: string,
  store: RecordStore,
  stored: StoredRecord & { readonly version?: number | undefined },
): ExportState {
  try {
    const state = parseRecord(stateSchema, stored);
    if (state.export !== stateName) throw new Error(`it is the state of export ${state.export}`);
    if (state.version !== stored.version)
      throw new Error(`its version is ${state.version}, but stored as ${stored.version}`);
    return state;
  } catch (cause) {
    const { bounds, parentRun } = parseStateName(stateName);
    const next = bounds === undefined && parentRun === undefined ? store.startHint : 'start the bounded run again';
    throw new ExportError(
      'PageConflictError',
      `The state of export ${stateName} in ${store.name} does not match what this exporter wrote: ${messageOf(cause)}. ` +
        `Nothing was changed; ${store.repairHint(stateName)} and ${next}`,
      { cause },
    );
  }
}

/** The page-log entry of `requested`. @throws PageConflictError if the entry was changed or belongs to another page */
export function parseLogEntry(
  requested: ChainRef & Pick<LogEntry, 'page'>,
  store: RecordStore,
  stored: StoredRecord,
): LogEntry {
  try {
    const entry = parseRecord(entrySchema, stored);
    const isRequested = (['export', 'run', 'slice', 'attempt', 'page'] as const).every(
      (field) => entry[field] === requested[field],
    );
    if (isRequested) return entry;
    throw new Error(`it is the entry of ${describePage(entry)} of run ${entry.run} of export ${entry.export}`);
  } catch (cause) {
    throw new ExportError(
      'PageConflictError',
      `The entry of ${describePage(requested)} of run ${requested.run} of export ${requested.export} in ${store.name} is not ` +
        `as this exporter wrote it: ${messageOf(cause)}. Nothing was changed or published. Restore the entry, or start ` +
        'with --restart to abandon the run and begin a new one',
      { cause },
    );
  }
}

/** The metadata of a page. @throws Error that says why it is not as it was written */
export function parsePageMetadata(value: unknown, checksum: unknown): PageMetadata {
  assertChecksum(checksum, checksumOf(value));
  return validated(metadataSchema, value);
}

/** The sequence in the text of a `latest.json`, or 0 if there is none: then any pointer may replace it. */
export function sequenceOfPointer(text: string): number {
  try {
    const { sequence } = JSON.parse(text) as Partial<LatestPointer>;
    return sequence !== undefined && Number.isSafeInteger(sequence) ? sequence : 0;
  } catch {
    return 0;
  }
}

/** More than any `latest.json` or summary of a run has. A larger object is not one and need not be read. */
export const maxDocumentBytes = 65_536;

/** @throws Error if the checksum or the schema does not match */
function parseRecord<Value>(schema: z.ZodMiniType<Value>, { json, checksum }: StoredRecord): Value {
  if (typeof json !== 'string') throw new Error('it has no JSON');
  assertChecksum(checksum, hash('sha256', json));
  return validated(schema, JSON.parse(json));
}

function assertChecksum(checksum: unknown, expected: string): void {
  if (typeof checksum !== 'string') throw new Error('it has no checksum');
  if (checksum !== expected) throw new Error('its checksum does not match, so it was edited');
}

/** The value as it was read, so that fields which a newer version wrote are kept. */
function validated<Value>(schema: z.ZodMiniType<Value>, value: unknown): Value {
  const parsed = schema.safeParse(value);
  if (!parsed.success) throw new Error(describeProblems('', parsed.error));
  return value as Value;
}

const messageOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause));

/**
 * The SHA-256, in lower-case hexadecimal, of the canonical JSON of `value`: of what has no certain order of fields, as
 * page metadata and the settings of a run.
 */
export function checksumOf(value: unknown): string {
  return hash('sha256', JSON.stringify(canonical(value)));
}

/** `value` with sorted field names, because stores do not preserve their order, and without undefined fields. */
function canonical(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(canonical);
  const sorted: Record<string, unknown> = {};
  for (const name of Object.keys(value).sort()) {
    const given = (value as Record<string, unknown>)[name];
    // Most fields are no objects. A call for each of them takes as long as the rest.
    const field = typeof given === 'object' ? canonical(given) : given;
    // Assigning to __proto__ would set the prototype.
    if (name === '__proto__') Object.defineProperty(sorted, name, { value: field, enumerable: true });
    else sorted[name] = field;
  }
  return sorted;
}
