/** What the next start would do, without doing it: the same decision that BeginRun makes, with its reason. */

import { isExportError } from '../core/errors.ts';
import { type ExportState, emptyState, type Parents, type Run } from '../core/model.ts';
import type { PageRequest, StoreReader } from '../core/ports.ts';
import type { OpenSlice, RunProgress } from '../core/run-progress.ts';
import { parentOf, sliceCountOf, sliceOf } from '../core/slices.ts';
import { definitionOfStart } from '../core/bounded-runs.ts';
import { type BeginRunDependencies, readFacts } from '../core/steps/begin-run.ts';
import { type Decision, decide } from '../core/start/decide.ts';
import { parseStartInput } from '../core/start/start-input.ts';
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
    const definition = definitionOfStart(deps.definition, input);
    state = (await log.exportState(definition.stateName)) ?? emptyState(definition.stateName);
    const start = { definition, input, execution: plannedExecution };
    const decision = decide(state, start, await readFacts(deps, state, start));
    if (decision.kind === 'skip') return notPlanned('skip', decision.reason);
    if (decision.kind === 'refuse') throw decision.error;
    return await describeRun(deps, state, decision);
  } catch (error) {
    // A state that cannot be read is no refusal.
    const isConflict = state !== undefined && isExportError(error, 'PageConflictError');
    if (!isConflict && !isExportError(error, 'ConfigurationError')) throw error;
    return notPlanned('refuse', error.message);
  }
}

type Accepted = Exclude<Decision, { readonly kind: 'skip' | 'refuse' }>;

/** `abandons` is the unfinished run that a new run replaces. `begun` is a run that would begin. */
async function describeRun(deps: PlanDependencies, state: ExportState, decision: Accepted) {
  const { run, progress } = decision;
  if ('reason' in decision) {
    // A new run has no pages.
    const { next } = await findNextPage({ find: async () => undefined }, deps, run, progress);
    const { reason } = decision;
    const abandons = state.active?.run ?? null;
    return { act: 'start', reason, run: null, abandons, ...place(deps, run, progress, next), begun: run } as const;
  }
  const { next, unlogged } = await findNextPage(deps.store, deps, run, progress);
  const reason = reasonToResume(run, state, unlogged);
  const about = { act: 'resume', reason, run: run.run, abandons: null } as const;
  return { ...about, ...place(deps, run, progress, next), begun: undefined };
}

/** The bounds of the run, and the page it requests next: null if all are stored and it only has to be published. */
function place(
  { definition }: Pick<PlanDependencies, 'definition'>,
  run: Run,
  { counts }: RunProgress,
  next: NextPage | undefined,
) {
  const { since, until, bounded, slices } = run;
  return {
    since,
    until: until ?? null,
    bounded: bounded ?? false,
    parents: definition.parents === undefined ? null : firstParents(definition.parents),
    slices: slices
      ? {
          ...counts,
          lengthSeconds: slices.lengthMs === undefined ? null : slices.lengthMs / 1_000,
          parallel: slices.parallel,
        }
      : null,
    slice: next?.slice ?? null,
    page: next?.page ?? null,
    cursor: next?.cursor ?? null,
    next,
  };
}

/** The first three. */
const firstParents = ({ values }: Parents): string =>
  [...values.slice(0, 3), ...(values.length > 3 ? ['…'] : [])].join(', ');

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
 * The page to request next, of the oldest slice that is not complete: the first one after the log that no earlier
 * attempt has stored; and how many pages before it are stored, but not logged.
 */
async function findNextPage(
  store: PlanDependencies['store'],
  { definition }: Pick<PlanDependencies, 'definition'>,
  run: Run,
  progress: RunProgress,
): Promise<{ readonly next: NextPage | undefined; readonly unlogged: number }> {
  const { request, startedAt: begunAt } = run;
  let unlogged = 0;
  for (const { slice: ref, last } of unfinishedSlices(run, progress)) {
    const { slice, since, until } = ref;
    let page = last?.page ?? 0;
    let cursor = last?.nextCursor ?? null;
    while (page === 0 || cursor !== null) {
      page += 1;
      const stored = await store.find(pageKey(run, { ...ref, page }));
      // If only the hash of its next cursor is stored, the page is requested again.
      if (stored === undefined || (stored.nextCursor !== null && typeof stored.nextCursor !== 'string')) {
        const parent = parentOf(definition, ref);
        const next = { request, since, until, begunAt, parent, cursor, label: `page ${page}`, slice, page };
        return { next, unlogged };
      }
      cursor = stored.nextCursor;
      unlogged += 1;
    }
  }
  return { next: undefined, unlogged };
}

/** The slices that are not complete, the oldest first. */
function* unfinishedSlices(run: Run, { open, begun }: RunProgress): Generator<OpenSlice> {
  yield* open;
  for (let number = begun + 1; number <= sliceCountOf(run); number += 1) {
    yield { slice: sliceOf(run, number), last: undefined };
  }
}
