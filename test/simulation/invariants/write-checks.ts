/** The checks of stored data: they see every write to S3 and DynamoDB before it takes effect. */

import { isDeepStrictEqual } from 'node:util';
import { type Item, recordOf, text } from '../world/dynamodb.ts';
import type { SimulatedReport } from '../world/reports.ts';
import type { StoredObject } from '../world/s3.ts';
import type { Process } from '../world/process.ts';
import type { SimulatedService } from '../world/report-service.ts';
import { checkDocumentRoot, mustKnowRoot } from './document-roots.ts';
import { checkExportState, checkOwner } from './export-state.ts';
import {
  boundedRuns,
  boundsOf,
  type Completion,
  exportOf,
  type EndEntry,
  type LogEntry,
  type Manifest,
  type Observations,
  type ObservedExport,
  type ProgressItem,
  isBounded,
  overlaps,
  type Seen,
  type StateItem,
  stateNameIn,
} from './observations.ts';
import { checkLogEntry } from './page-log.ts';
import { checkParents } from './parents.ts';
import { checkNoUrl, type ReportJobChecks } from './report-jobs.ts';
import { checkSlots, type SlotItem } from './slots.ts';
import { checkProgress } from './slices.ts';
import type { StartChecks } from './starts.ts';
import { checkObject } from './stored-objects.ts';

export interface WriteChecks {
  readonly onObject: (key: string, object: StoredObject, existing: StoredObject | undefined) => void;
  readonly onItem: (item: Item, existing: Item | undefined) => void;
  /** The reports in the export's published runs. */
  publishedReports(exportName: string): ReadonlySet<SimulatedReport>;
  /** Completed runs, in order. */
  readonly completions: readonly Completion[];
  /** The date from which the export must miss nothing; undefined before its first watermark. */
  lowerBound(exportName: string): number | undefined;
  /** The manifests of published runs, in the order in which they were written. */
  manifests(): readonly Manifest[];
  /** When the first page of the run was logged. */
  firstPageAt(run: string): number | undefined;
  /** Every run, as its state last had it, by its ID. */
  readonly runs: Observations['runs'];
  /** Whether the invocation must know which root element the first pages of its run have. */
  mustKnowRoot(process: Process, service: SimulatedService): boolean;
  /** Whether the newest run of the export has requested the children of the parent, if there are any. */
  isWalked(exportName: string, parent: string | undefined): boolean;
}

/** IAM does not separate the exports of a service, so the code must. */
function checkWriter({ world, writer, findExecution }: Observations, exportName: string): void {
  const { id, payload } = writer();
  const input = findExecution(payload.execution)?.input;
  const started = exportOf(input);
  if (started !== undefined && started !== exportName) {
    world.violate('an execution changes only its own export', `${id} of ${started} writes to ${exportName}`);
  }
}

/** The start of a bounded run takes a sequence in the state of its export, and changes nothing else there. */
function checkStateWriter(
  { world, writer, findExecution }: Observations,
  label: string,
  isBoundedState: boolean,
  state: StateItem,
  previous: StateItem | undefined,
): void {
  const { id, step, payload } = writer();
  const isOfBoundedRun = isBounded(findExecution(payload.execution)?.input);
  if (isOfBoundedRun === isBoundedState) return;
  const isAnnouncement = isOfBoundedRun && step === 'BeginRun' && state.beginning?.execution === payload.execution;
  const { version, sequence, beginning, export: exportName, addedBy } = state;
  // A later release adds its field to each state.
  const added = addedBy === undefined ? {} : { addedBy };
  const unchanged = { ...(previous ?? { export: exportName }), ...added, version, sequence, beginning };
  if (!isAnnouncement || !isDeepStrictEqual(state, unchanged)) {
    world.violate('a bounded run changes nothing of its export', `${id} writes ${label}`);
  }
}

/** A new bounded run overlaps none with the same request, unless its start says `again`, or it replaces a run. */
function checkOverlaps(
  { world, writer, dynamoDb, findExecution }: Observations,
  { requestMarks }: Seen,
  exportName: string,
  { active }: StateItem,
  previous: StateItem | undefined,
): void {
  const { step, payload } = writer();
  const { again } = (findExecution(payload.execution)?.input ?? {}) as { readonly again?: boolean };
  if (active === undefined || previous?.active !== undefined || step !== 'BeginRun' || again === true) return;
  const bounds = boundsOf(active);
  for (const other of boundedRuns(dynamoDb(), exportName)) {
    const isSame = isDeepStrictEqual(boundsOf(other), bounds);
    const isOfSameRequest = requestMarks.get(other.run) === requestMarks.get(active.run);
    if (isSame || !isOfSameRequest || !overlaps(boundsOf(other), bounds)) continue;
    const details = `${exportName}: ${active.run} overlaps ${other.run}`;
    world.violate('bounded runs overlap only if their start says so', details);
  }
}

/** A new run has the request of the version that begins it; after a rejected cursor, that of the run before. */
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

export function createWriteChecks(
  observations: Observations,
  starts: StartChecks,
  jobs: Pick<ReportJobChecks, 'onRecord'>,
): WriteChecks {
  const seen: Seen = {
    manifests: new Map(),
    firstPagesAt: new Map(),
    begunAt: new Map(),
    pagesStoredAt: new Map(),
    summaries: new Map(),
    latestSequences: new Map(),
    publishedReports: new Map(),
    completions: [],
    lowerBounds: new Map(),
    proofs: new Map(),
    requestMarks: new Map(),
    runOwners: new Set(),
    statesWrittenAt: new Map(),
    rootsKnownSince: new Map(),
    coverages: new Map(),
    namedSince: new Set(),
    newestRuns: new Map(),
  };
  return {
    onObject(key, object, existing) {
      checkWriter(observations, key.slice(observations.prefix.length).split('/')[0] ?? '');
      checkObject(observations, seen, key, object, existing);
    },
    onItem(item, existing) {
      const [service, name = ''] = text(item, 'pk').split('/');
      checkNoUrl(observations.world, text(item, 'sk'), JSON.stringify(item));
      if (service === 'acme' && name === '#slots') {
        const { world, maxConcurrentPages, maxSkewMs, writer } = observations;
        const exportName = stateNameIn(writer().payload.input) ?? '';
        checkSlots(world, maxConcurrentPages, maxSkewMs, exportName, recordOf<SlotItem>(item));
        return;
      }
      // What counts is what the service receives (`../world/traffic.ts`).
      if (service === 'acme' && name === '#rate') return;
      const observed = observations.exports.get(name);
      if (service !== 'acme' || observed === undefined) {
        observations.world.violate('every item has an expected key', text(item, 'pk'));
        return;
      }
      const sk = text(item, 'sk');
      checkWriter(observations, name);
      if (sk === 'state' || sk.startsWith('bounded#')) {
        const previous = existing === undefined ? undefined : recordOf<StateItem>(existing);
        const state = recordOf<StateItem>(item);
        const stateName = sk === 'state' ? name : `${name}/${sk.slice('bounded#'.length)}`;
        checkStateWriter(observations, `${sk} of ${name}`, sk !== 'state', state, previous);
        noteRequest(observations, seen, observed, state, previous);
        if (sk !== 'state') checkOverlaps(observations, seen, name, state, previous);
        checkOwner(observations, seen, `${name} ${sk}`, state, previous);
        checkDocumentRoot(observations, seen, observed, state, previous, sk !== 'state');
        checkParents(observations, seen, observed, state, previous);
        checkExportState(observations, seen, observed, stateName, state, previous);
        if (sk === 'state') starts.onState(observed, state, previous);
        if (state.active !== undefined) observations.runs.set(state.active.run, state.active);
      } else if (sk.startsWith('job#')) {
        jobs.onRecord(observed, item, existing);
      } else if (sk.startsWith('progress#')) {
        checkProgress(observations, name, recordOf<ProgressItem>(item));
      } else {
        const entry = recordOf<LogEntry | EndEntry>(item);
        checkLogEntry(observations, seen, observed, entry, existing !== undefined);
      }
    },
    publishedReports: (exportName) => seen.publishedReports.get(exportName) ?? new Set(),
    completions: seen.completions,
    lowerBound: (exportName) => seen.lowerBounds.get(exportName),
    mustKnowRoot: (process, service) => mustKnowRoot(observations, seen, process, service),
    isWalked: (exportName, parent) => seen.coverages.get(exportName)?.walked.has(parent ?? '') ?? true,
    runs: observations.runs,
    firstPageAt: (run) => seen.firstPagesAt.get(run),
    manifests: () => [...seen.manifests.values()],
  };
}
