/** The checks of stored data: they see every write to S3 and DynamoDB before it takes effect. */

import { unmarshall } from '@aws-sdk/util-dynamodb';
import { type Item, text } from '../world/dynamodb.ts';
import type { SimulatedReport } from '../world/reports.ts';
import type { StoredObject } from '../world/s3.ts';
import { checkExportState } from './export-state.ts';
import type { Completion, LogEntry, Observations, Seen, StateItem } from './observations.ts';
import { checkLogEntry } from './page-log.ts';
import { checkSlots, type SlotItem } from './slots.ts';
import type { StartChecks } from './starts.ts';
import { checkObject } from './stored-objects.ts';

export interface WriteChecks {
  readonly onObject: (key: string, object: StoredObject, existing: StoredObject | undefined) => void;
  readonly onItem: (item: Item, existing: Item | undefined) => void;
  /** The reports in the export's published runs. */
  publishedReports(exportName: string): ReadonlySet<SimulatedReport>;
  publishedRunCount(): number;
  /** Completed runs, in order. */
  readonly completions: readonly Completion[];
  /** The date from which the export must miss nothing; undefined before its first watermark. */
  lowerBound(exportName: string): number | undefined;
}

/** IAM does not separate the exports of a service, so the code must. */
function checkWriter({ world, writer, findExecution }: Observations, exportName: string): void {
  const { id, payload } = writer();
  const started = exportOf(findExecution(payload.execution)?.input);
  if (started !== undefined && started !== exportName) {
    world.violate('an execution changes only its own export', `${id} of ${started} writes to ${exportName}`);
  }
}

/** The export that a start input names. */
export const exportOf = (input: unknown): string | undefined => (input as { export?: string } | undefined)?.export;

export function createWriteChecks(observations: Observations, starts: StartChecks): WriteChecks {
  const seen: Seen = {
    manifests: new Map(),
    firstPagesAt: new Map(),
    pagesStoredAt: new Map(),
    summaries: new Map(),
    latestSequences: new Map(),
    publishedReports: new Map(),
    completions: [],
    lowerBounds: new Map(),
  };
  return {
    onObject(key, object, existing) {
      checkWriter(observations, key.slice(observations.prefix.length).split('/')[0] ?? '');
      checkObject(observations, seen, key, object, existing);
    },
    onItem(item, existing) {
      const [service, name = ''] = text(item, 'pk').split('/');
      if (service === 'acme' && name === '#slots') {
        const { world, maxConcurrentPages, maxSkewMs, writer } = observations;
        const exportName = exportOf(writer().payload.input) ?? '';
        const previous = existing === undefined ? undefined : (unmarshall({ ...existing }) as SlotItem);
        checkSlots(world, maxConcurrentPages, maxSkewMs, exportName, unmarshall({ ...item }) as SlotItem, previous);
        return;
      }
      const observed = observations.exports.get(name);
      if (service !== 'acme' || observed === undefined) {
        observations.world.violate('every item has an expected key', text(item, 'pk'));
        return;
      }
      checkWriter(observations, name);
      if (text(item, 'sk') === 'state') {
        const previous = existing === undefined ? undefined : (unmarshall({ ...existing }) as StateItem);
        const state = unmarshall({ ...item }) as StateItem;
        checkExportState(observations, seen, observed, state, previous);
        starts.onState(observed, state, previous);
      } else {
        const entry = unmarshall({ ...item }) as LogEntry;
        checkLogEntry(observations, observed, entry, existing !== undefined);
        if (entry.page === 1) seen.firstPagesAt.set(entry.run, observations.world.time.now());
      }
    },
    publishedReports: (exportName) => seen.publishedReports.get(exportName) ?? new Set(),
    publishedRunCount: () => seen.manifests.size,
    completions: seen.completions,
    lowerBound: (exportName) => seen.lowerBounds.get(exportName),
  };
}
