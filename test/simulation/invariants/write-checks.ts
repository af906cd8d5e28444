/** The checks of stored data: they see every write to S3 and DynamoDB before it takes effect. */

import { unmarshall } from '@aws-sdk/util-dynamodb';
import { type Item, text } from '../world/dynamodb.ts';
import type { SimulatedReport } from '../world/reports.ts';
import type { StoredObject } from '../world/s3.ts';
import type { Process } from '../world/process.ts';
import { checkDocumentRoot, mustKnowRoot } from './document-roots.ts';
import { checkExportState, checkOwner } from './export-state.ts';
import { checkIncidents } from './incidents.ts';
import {
  type BackfillItem,
  type Completion,
  exportOf,
  type LogEntry,
  type Observations,
  type ObservedExport,
  parseBounds,
  type Seen,
  type StateItem,
  stateNameIn,
  windowKey,
  type WindowManifest,
} from './observations.ts';
import { checkLogEntry } from './page-log.ts';
import { checkSlots, type SlotItem } from './slots.ts';
import type { StartChecks } from './starts.ts';
import { checkObject } from './stored-objects.ts';
import { checkBackfillItem, checkRunId, checkWindowState } from './windows.ts';

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
  /** The manifests of the export's windows. Of a window that an operator has started over, only the last. */
  publishedWindows(exportName: string): readonly WindowManifest[];
  /** Whether the invocation must know which root element page 1 of its run has. */
  mustKnowRoot(process: Process): boolean;
}

/** IAM does not separate the exports of a service, so the code must. */
function checkWriter({ world, writer, findExecution }: Observations, exportName: string): void {
  const { id, payload } = writer();
  const started = exportOf(findExecution(payload.execution)?.input);
  if (started !== undefined && started !== exportName) {
    world.violate('an execution changes only its own export', `${id} of ${started} writes to ${exportName}`);
  }
}

/** A new run has the request of the version that begins it; one that starts over because of a cursor, that of the run before. */
function noteRequest(
  { writer }: Observations,
  { requestMarks }: Seen,
  { requestMark }: ObservedExport,
  { active }: StateItem,
  previous: StateItem | undefined,
): void {
  if (active === undefined || requestMarks.has(active.run)) return;
  const { step, id } = writer();
  requestMarks.set(active.run, step === 'BeginRun' ? requestMark(id) : requestMarks.get(previous?.active?.run ?? ''));
}

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
    windows: new Map(),
    restartedWindows: new Set(),
    runs: new Map(),
    requestMarks: new Map(),
    runOwners: new Set(),
    statesWrittenAt: new Map(),
    rootsKnownSince: new Map(),
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
        const exportName = stateNameIn(writer().payload.input) ?? '';
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
      const sk = text(item, 'sk');
      if (sk === 'state' || sk.startsWith('window#')) {
        const previous = existing === undefined ? undefined : (unmarshall({ ...existing }) as StateItem);
        const state = unmarshall({ ...item }) as StateItem;
        const window = parseBounds(sk);
        checkRunId(observations, seen, name, sk, state);
        noteRequest(observations, seen, observed, state, previous);
        checkOwner(observations, seen, `${name} ${sk}`, state, previous);
        checkDocumentRoot(observations, seen, observed, state, previous, window !== undefined);
        if (window === undefined) {
          checkExportState(observations, seen, observed, state, previous);
          starts.onState(observed, state, previous);
        } else checkWindowState(observations, seen, observed, window, state, previous);
      } else if (sk === 'backfill') {
        checkBackfillItem(observations, name, unmarshall({ ...item }) as BackfillItem, existing);
      } else if (sk.startsWith('incidents#')) {
        checkIncidents(observations.world, item, existing);
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
    mustKnowRoot: (process) => mustKnowRoot(observations, seen, process),
    publishedWindows(exportName) {
      const manifests = seen.windows.get(exportName) ?? [];
      const key = (manifest: WindowManifest) => windowKey(exportName, manifest);
      const last = new Map(manifests.map((manifest) => [key(manifest), manifest]));
      return manifests.filter((each) => !seen.restartedWindows.has(key(each)) || last.get(key(each)) === each);
    },
  };
}
