/** What the next start would do, without doing it: the same decision that BeginRun makes, with its reason. */

import { isExportError } from '../core/errors.ts';
import { type ExportState, emptyState, type Run } from '../core/model.ts';
import type { PageRequest, StoreReader } from '../core/ports.ts';
import type { RunProgress } from '../core/run-progress.ts';
import { slicesOf } from '../core/slices.ts';
import { type BeginRunDependencies, decide, definitionFor } from '../core/steps/begin-run.ts';
import { parseStartInput } from '../core/steps/start-input.ts';
import { pageKey } from '../core/storage/keys.ts';
import { type BoundableExport, findStarts, type RequestedStart } from './bounded-start.ts';

/** `plan` of `--json`, and the next request. */
export type Plan = Awaited<ReturnType<typeof planRun>>;

type PlanDependencies = Omit<BeginRunDependencies, 'emit'> &
  BoundableExport & { readonly store: Pick<StoreReader, 'find'> };

/** A placeholder for the execution that a start would have. No execution has this name. */
const plannedExecution = 'plan';

/** Only reads. */
export async function planRun(deps: PlanDependencies, requested: RequestedStart = {}) {
  const { log, runtime } = deps;
  let state: ExportState | undefined;
  try {
    const starts = await findStarts(deps, requested, runtime.now());
    if (starts.kind === 'done') return notPlanned('skip', starts.reason);
    const input = parseStartInput(starts.left[0]);
    const definition = definitionFor(deps, input);
    state = (await log.exportState(definition.stateName)) ?? emptyState(definition.stateName);
    const { result } = await decide({ ...deps, definition }, state, input, plannedExecution);
    if (result.act === 'skip') return notPlanned('skip', result.reason);
    return await describeRun(deps, state, result);
  } catch (error) {
    // A state that cannot be read is no refusal.
    const isConflict = state !== undefined && isExportError(error, 'PageConflictError');
    if (!isConflict && !isExportError(error, 'ConfigurationError')) throw error;
    return notPlanned('refuse', error.message);
  }
}

type Decided = Exclude<Awaited<ReturnType<typeof decide>>['result'], { readonly act: 'skip' }>;

async function describeRun(deps: PlanDependencies, state: ExportState, { act, run, progress, reason }: Decided) {
  const isNew = act === 'start';
  // A new run has no pages.
  const { next, unlogged } = await findNextPage(isNew ? { find: async () => undefined } : deps.store, run, progress);
  const { since, until = null, bounded = false, slices } = run;
  const { slice = null, page = null, cursor = null } = next ?? {};
  return {
    act,
    reason: reason ?? reasonToResume(run, state, unlogged),
    /** The run that would be resumed; null for a new one. */
    run: isNew ? null : run.run,
    /** The unfinished run that the start would abandon. */
    abandons: isNew ? (state.active?.run ?? null) : null,
    since,
    until,
    bounded,
    slices: slices ? { ...progress.counts, lengthSeconds: slices.lengthMs / 1_000, parallel: slices.parallel } : null,
    slice,
    /** The page to request next; null if all pages are stored and the run only has to be published. */
    page,
    cursor,
    next,
    /** A run that would begin. */
    begun: isNew ? run : undefined,
  };
}

/** Why the start would be skipped, or fail. */
const notPlanned = (act: 'skip' | 'refuse', reason: string) => ({ act, reason }) as const;

function reasonToResume({ run }: Run, { active }: ExportState, unlogged: number): string {
  const failure = active?.lastFailure;
  const ended = failure === undefined ? 'was interrupted' : `failed (${failure.error})`;
  const stored =
    unlogged === 0 ? '' : `; pages after its log are stored already and only have to be logged: ${unlogged}`;
  return `run ${run} ${ended} and is resumed${stored}`;
}

interface NextPage extends PageRequest {
  readonly slice: number | undefined;
  readonly page: number;
}

/**
 * The page to request next, of the oldest slice that is not complete: the first one after the log that no earlier attempt has stored; and
 * how many pages before it are stored, but not logged.
 */
async function findNextPage(
  store: PlanDependencies['store'],
  run: Run,
  progress: RunProgress,
): Promise<{ readonly next: NextPage | undefined; readonly unlogged: number }> {
  const { request, startedAt: begunAt } = run;
  const lastPages = new Map(progress.slices.map(({ slice, last }) => [slice.slice, last]));
  let unlogged = 0;
  for (const ref of slicesOf(run)) {
    const { slice, since, until } = ref;
    const last = lastPages.get(slice);
    let page = last?.page ?? 0;
    let cursor = last?.nextCursor ?? null;
    while (page === 0 || cursor !== null) {
      page += 1;
      const stored = await store.find(pageKey(run, { ...ref, page }));
      // If only the hash of its next cursor is stored, the page is requested again.
      if (stored === undefined || (stored.nextCursor !== null && typeof stored.nextCursor !== 'string')) {
        return { next: { request, since, until, begunAt, cursor, label: `page ${page}`, slice, page }, unlogged };
      }
      cursor = stored.nextCursor;
      unlogged += 1;
    }
  }
  return { next: undefined, unlogged };
}
