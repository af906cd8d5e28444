/** What the next start would do, without doing it: the same decision that BeginRun makes, with its reason. */

import { isExportError } from '../core/errors.ts';
import {
  type Cursor,
  type ExportRequest,
  type ExportState,
  emptyState,
  type Instant,
  type Run,
  type RunId,
} from '../core/model.ts';
import type { SliceCounts, StepDependencies, StoreReader } from '../core/ports.ts';
import { type Slice, sliceOf, slicesOf } from '../core/slices.ts';
import { decide, definitionFor } from '../core/steps/begin-run.ts';
import { progressOf, type RunProgress } from '../core/run-progress.ts';
import type { StartInput } from '../core/steps/start-input.ts';
import { pageKey } from '../core/storage/keys.ts';

export type Plan =
  | { readonly act: 'skip'; readonly reason: string }
  /** The start would fail. `reason` says why, and what to do. */
  | { readonly act: 'refuse'; readonly reason: string }
  | ({
      readonly act: 'start';
      /** The unfinished run that the start would abandon. */
      readonly abandons: RunId | null;
    } & PlannedRun)
  | ({
      readonly act: 'resume';
      readonly run: RunId;
      /** The page to request next, within its slice; null if all pages are stored and the run only has to be published. */
      readonly page: number | null;
      readonly cursor: Cursor | null;
    } & PlannedRun);

interface PlannedRun extends PlannedBounds {
  readonly reason: string;
  readonly bounded: boolean;
  /** null: the run has one. */
  readonly slices: PlannedSlices | null;
  /** The slice of the next request; the run, if it has one slice. */
  readonly next: PlannedBounds & { readonly slice: number | null };
  readonly begunAt: Instant;
  readonly request: ExportRequest;
}

interface PlannedBounds {
  readonly since: Instant;
  /** null: there is no upper bound. */
  readonly until: Instant | null;
}

interface PlannedSlices extends SliceCounts {
  readonly lengthSeconds: number;
  readonly parallel: number;
  readonly first: PlannedBounds;
  readonly last: PlannedBounds;
}

type PlanDependencies = Pick<StepDependencies, 'definition' | 'log' | 'executions' | 'runtime'> & {
  readonly store: Pick<StoreReader, 'find'>;
};

/** A placeholder for the execution that a start would have. No execution has this name. */
const plannedExecution = 'plan';

/** Only reads. `input` is the start input to plan for. */
export async function planRun(deps: PlanDependencies, input: StartInput = {}): Promise<Plan> {
  const { log } = deps;
  let state: ExportState | undefined;
  try {
    const definition = await definitionFor(deps, input, plannedExecution);
    state = (await log.exportState(definition.stateName)) ?? emptyState(definition.stateName);
    const { result } = await decide({ ...deps, definition }, state, input, plannedExecution);
    if (result.act === 'skip') return { act: 'skip', reason: result.reason };
    const { run } = result;
    if (result.act === 'start') {
      const planned = plannedRun(run, progressOf(run, 0, []), sliceOf(run, 1));
      return { act: 'start', ...planned, reason: result.reason, abandons: state.active?.run ?? null };
    }
    const failure = state.active?.lastFailure;
    const { slice, page, cursor, unlogged } = await findNextPage(deps, run, result.progress);
    const ended = failure === undefined ? 'was interrupted' : `failed (${failure.error})`;
    const reason = `run ${run.run} ${ended} and is resumed${unloggedPages(unlogged)}`;
    return { act: 'resume', run: run.run, ...plannedRun(run, result.progress, slice), reason, page, cursor };
  } catch (error) {
    // A state that cannot be read is no refusal.
    const isConflict = state !== undefined && isExportError(error, 'PageConflictError');
    if (!isConflict && !isExportError(error, 'ConfigurationError')) throw error;
    return { act: 'refuse', reason: error.message };
  }
}

function plannedRun(run: Run, { counts }: RunProgress, next: Slice): Omit<PlannedRun, 'reason'> {
  const { slices, bounded = false, startedAt: begunAt, request } = run;
  return {
    ...boundsOf(run),
    bounded,
    slices:
      slices === undefined
        ? null
        : {
            ...counts,
            lengthSeconds: slices.lengthMs / 1_000,
            parallel: slices.parallel,
            first: boundsOf(sliceOf(run, 1)),
            last: boundsOf(sliceOf(run, slices.count)),
          },
    next: { slice: next.slice ?? null, ...boundsOf(next) },
    begunAt,
    request,
  };
}

const boundsOf = ({ since, until }: Pick<Run, 'since' | 'until'>): PlannedBounds => ({ since, until: until ?? null });

function unloggedPages(count: number): string {
  if (count === 0) return '';
  return count === 1
    ? '; 1 page after its log is stored already and only has to be logged'
    : `; ${count} pages after its log are stored already and only have to be logged`;
}

interface NextPage {
  readonly slice: Slice;
  readonly page: number | null;
  readonly cursor: Cursor | null;
  /** How many pages before it are stored, but not logged. */
  readonly unlogged: number;
}

/** The page to request next, of the oldest slice that is not complete: the first one after the log that no earlier attempt has stored. */
async function findNextPage({ store }: PlanDependencies, run: Run, progress: RunProgress): Promise<NextPage> {
  const lastPages = new Map(progress.slices.map(({ slice, last }) => [slice.slice, last]));
  let unlogged = 0;
  for (const slice of slicesOf(run)) {
    const last = lastPages.get(slice.slice);
    let page = last?.page ?? 0;
    let cursor = last?.nextCursor ?? null;
    while (page === 0 || cursor !== null) {
      page += 1;
      const stored = await store.find(pageKey(run, { ...slice, page }));
      // If only the hash of its next cursor is stored, the page is requested again.
      if (stored === undefined || (stored.nextCursor !== null && typeof stored.nextCursor !== 'string')) {
        return { slice, page, cursor, unlogged };
      }
      cursor = stored.nextCursor;
      unlogged += 1;
    }
  }
  return { slice: sliceOf(run, 1), page: null, cursor: null, unlogged };
}
