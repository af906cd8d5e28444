/** How a backfill is stored. Its windows are exports, whose states are stored as those of all exports. */

import * as z from 'zod/mini';
import { ExportError } from '../core/errors.ts';
import type { ExportState, Instant } from '../core/model.ts';
import { type Checksummed, instant, messageOf, parseRecord, type RecordStore } from '../core/storage/stored-records.ts';

/** A backfill of an export: one item, always replaced as a whole, by compare-and-set on `version`. Its windows follow from it. */
export interface Backfill {
  readonly export: string;
  /** 1 for the first backfill of the export. Each replacement adds one. */
  readonly version: number;
  /** The ID of the plan of its windows (`ExportState.plan`). A backfill that is continued keeps it. */
  readonly plan: number;
  readonly from: Instant;
  readonly to: Instant;
  /** The length of each window but the last, which may be shorter. */
  readonly windowMs: number;
  /** How many windows are exported at the same time. */
  readonly parallel: number;
  /** Of its windows (`ExportDefinition.once`): one with another request is not exported. */
  readonly requestChecksum: string;
  readonly startedAt: Instant;
  /** Set first when it is abandoned. Then the plan of each window is. */
  readonly abandonedAt?: Instant | undefined;
}

/** Reads are strongly consistent, and detect changes, as those of the page log. */
export interface BackfillStore {
  /** The newest backfill of the export. */
  read(exportName: string): Promise<Backfill | undefined>;
  /** Compare-and-set: as `PageLog.replaceState`. */
  replace(backfill: Backfill): Promise<boolean>;
  /** The states of all windows of the export that were ever planned, in any order, in as few requests as possible. */
  windowStates(exportName: string): AsyncIterable<ExportState>;
}

const ordinal = z.int().check(z.minimum(1));
const backfillSchema = z.object({
  export: z.string(),
  version: ordinal,
  plan: ordinal,
  from: instant,
  to: instant,
  windowMs: ordinal,
  parallel: ordinal,
  requestChecksum: z.string(),
  startedAt: instant,
  abandonedAt: z.optional(instant),
}) satisfies z.ZodMiniType<Backfill>;

/**
 * The backfill of the export, from what `read` returns.
 * @throws PageConflictError if `read` throws, or if the record was changed or belongs to another export
 */
export function parseBackfill(exportName: string, store: RecordStore, read: () => Checksummed): Backfill {
  try {
    const backfill = parseRecord(backfillSchema, read);
    if (backfill.export !== exportName) throw new Error(`it is the backfill of export ${backfill.export}`);
    return backfill;
  } catch (cause) {
    throw new ExportError(
      'PageConflictError',
      `The backfill of export ${exportName} in ${store.name} does not match what this exporter wrote: ${messageOf(cause)}. ` +
        'Nothing was changed. Restore it, or delete it and start the backfill again with the same bounds',
      { cause },
    );
  }
}
