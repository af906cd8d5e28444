/** What the next start would do, without doing it: the same decision that BeginRun makes, with its reason. */

import { isExportError } from '../core/errors.ts';
import { type Cursor, type ExportState, emptyState, type Run, type RunId } from '../core/model.ts';
import type { SliceCounts, StoreReader } from '../core/ports.ts';
import { progressOf, type RunProgress } from '../core/run-progress.ts';
import { type Slice, sliceOf, slicesOf } from '../core/slices.ts';
import { type BeginRunDependencies, decide, definitionFor } from '../core/steps/begin-run.ts';
import { parseStartInput } from '../core/steps/start-input.ts';
import { pageKey } from '../core/storage/keys.ts';
import type { StartRequest } from '../target/target.ts';
import { type BoundableExport, findDone } from './bounded-start.ts';

export type Plan =
  /** Why the start would be skipped, or fail. */
  | { readonly act: 'skip' | 'refuse'; readonly reason: string }
  | {
      readonly act: 'start' | 'resume';
      readonly reason: string;
      readonly run: Run;
      readonly slices: SliceCounts;
      /** The unfinished run that the start would abandon. */
      readonly abandons: RunId | null;
      /** The page to request next; null if all pages are stored and the run only has to be published. */
      readonly next: NextPage | null;
    };

interface NextPage {
  readonly slice: Slice;
  readonly page: number;
  readonly cursor: Cursor | null;
}

type PlanDependencies = Omit<BeginRunDependencies, 'emit'> &
  BoundableExport & { readonly store: Pick<StoreReader, 'find'> };

/** A placeholder for the execution that a start would have. No execution has this name. */
const plannedExecution = 'plan';

/** Only reads. */
export async function planRun(deps: PlanDependencies, request: StartRequest = {}): Promise<Plan> {
  const { log, runtime } = deps;
  let state: ExportState | undefined;
  try {
    const done = await findDone(deps, request, runtime.now());
    if (done !== undefined) return { act: 'skip', reason: done };
    const input = parseStartInput(request);
    const definition = await definitionFor(deps, input, plannedExecution);
    state = (await log.exportState(definition.stateName)) ?? emptyState(definition.stateName);
    const { result } = await decide({ ...deps, definition }, state, input, plannedExecution);
    if (result.act === 'skip') return { act: 'skip', reason: result.reason };
    const { act, run } = result;
    if (act === 'start') {
      const { counts: slices } = progressOf(run, 0, []);
      const next = { slice: sliceOf(run, 1), page: 1, cursor: null };
      return { act, reason: result.reason, run, slices, abandons: state.active?.run ?? null, next };
    }
    const { next, unlogged } = await findNextPage(deps, run, result.progress);
    const failure = state.active?.lastFailure;
    const ended = failure === undefined ? 'was interrupted' : `failed (${failure.error})`;
    const stored =
      unlogged === 0 ? '' : `; pages after its log are stored already and only have to be logged: ${unlogged}`;
    const reason = `run ${run.run} ${ended} and is resumed${stored}`;
    return { act, reason, run, slices: result.progress.counts, abandons: null, next };
  } catch (error) {
    // A state that cannot be read is no refusal.
    const isConflict = state !== undefined && isExportError(error, 'PageConflictError');
    if (!isConflict && !isExportError(error, 'ConfigurationError')) throw error;
    return { act: 'refuse', reason: error.message };
  }
}

/**
 * The page to request next, of the oldest slice that is not complete: the first one after the log that no earlier attempt has stored; and
 * how many pages before it are stored, but not logged.
 */
async function findNextPage(
  { store }: PlanDependencies,
  run: Run,
  progress: RunProgress,
): Promise<{ readonly next: NextPage | null; readonly unlogged: number }> {
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
        return { next: { slice, page, cursor }, unlogged };
      }
      cursor = stored.nextCursor;
      unlogged += 1;
    }
  }
  return { next: null, unlogged };
}
