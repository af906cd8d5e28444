/** What the next start would do, without doing it: the same decision that BeginRun makes, with its reason. */

import { isExportError } from '../core/errors.ts';
import { type ExportState, emptyState, type Run } from '../core/model.ts';
import { withSince } from '../core/parents/coverage.ts';
import { isSkipped, type ParentOf, parentsOfRun } from '../core/parents/run-parents.ts';
import type { PageRequest, ReportReader, StoreReader } from '../core/ports.ts';
import { noProgress, type OpenSlice, type RunProgress } from '../core/run-progress.ts';
import { numberOf, sliceCountOf, sliceOf } from '../core/slices.ts';
import { definitionOfStart } from '../core/bounded-runs.ts';
import { type BeginRunDependencies, readFacts } from '../core/steps/begin-run.ts';
import { type Decision, decide } from '../core/start/decide.ts';
import { readPlan } from '../core/steps/plan-parents.ts';
import { parseStartInput } from '../core/start/start-input.ts';
import { pageKey } from '../core/storage/keys.ts';
import { type BoundableExport, findStarts, type RequestedStart } from './bounded-start.ts';

/** `plan` of `--json`, and the next request. */
export type Plan = Awaited<ReturnType<typeof planRun>>;

type PlanDependencies = Omit<BeginRunDependencies, 'emit'> &
  BoundableExport & {
    readonly store: Pick<StoreReader, 'find' | 'read' | 'locate'>;
    readonly loadReportReader?: () => Promise<ReportReader | undefined>;
  };

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
  const planned = await withParents(deps, state, decision);
  const { run } = planned;
  if ('reason' in decision) {
    // A new run has no pages.
    const { next } = await findNextPage({ find: async () => undefined }, planned);
    const { reason } = decision;
    const abandons = state.active?.run ?? null;
    return {
      act: 'start',
      reason,
      run: null,
      abandons,
      ...(await place(planned, next)),
      begun: run,
      parentOf: planned.parentOf,
    } as const;
  }
  const { next, unlogged } = await findNextPage(deps.store, planned);
  const reason = reasonToResume(run, state, unlogged);
  const about = { act: 'resume', reason, run: run.run, abandons: null } as const;
  return { ...about, ...(await place(planned, next)), begun: undefined, parentOf: planned.parentOf };
}

interface PlannedRun {
  readonly run: Run;
  readonly progress: RunProgress;
  readonly parentOf: ParentOf;
}

/** The run with its parents. Those of a run without a plan are read as its first invocation would. */
async function withParents(
  deps: PlanDependencies,
  state: ExportState,
  { run, progress }: Pick<Accepted, 'run' | 'progress'>,
): Promise<PlannedRun> {
  const needsPlan = run.parents !== undefined && run.parents.parts === undefined;
  const reportReader = needsPlan ? await deps.loadReportReader?.() : undefined;
  if (!needsPlan || reportReader === undefined) return { run, progress, parentOf: parentsOfRun(deps, run) };
  const plan = await readPlan({ ...deps, reportReader }, { run, state });
  const { parallel } = run.parents;
  const slices = { count: plan.parents.length, parallel };
  const planned: Run = { ...run, slices, parents: { ...run.parents, run: plan.run } };
  const parentOf: ParentOf = async (slice) => {
    const parent = plan.parents[numberOf(slice) - 1];
    return parent && withSince(parent, run);
  };
  return { run: planned, progress: noProgress(planned), parentOf };
}

/** The bounds of the run, and the page it requests next: null if all are stored and it only has to be published. */
async function place({ run, progress: { counts }, parentOf }: PlannedRun, next: NextPage | undefined) {
  const { since, until, bounded, slices, parents } = run;
  return {
    since,
    until: until ?? null,
    bounded: bounded ?? false,
    parentRun: parents === undefined ? null : { export: parents.export, run: parents.run ?? null },
    parents: counts.parents ? await firstParents(parentOf) : null,
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

async function firstParents(parentOf: ParentOf): Promise<readonly string[]> {
  const first = await Promise.all([1, 2, 3].map((slice) => parentOf({ slice })));
  return first.flatMap((parent) => parent?.id ?? []);
}

const notPlanned = (act: 'skip' | 'refuse', reason: string) => ({ act, reason }) as const;

function reasonToResume({ run }: Run, { active }: ExportState, unlogged: number): string {
  const failure = active?.lastFailure;
  const ended = failure === undefined ? 'was interrupted' : `failed (${failure.error})`;
  const stored =
    unlogged === 0 ? '' : `; pages after its log are stored already and only have to be logged: ${unlogged}`;
  return `run ${run} ${ended} and is resumed${stored}`;
}

export interface NextPage extends PageRequest {
  readonly slice: number | undefined;
  readonly page: number;
}

/**
 * The page to request next, of the oldest slice that is not complete: the first one after the log that no earlier
 * attempt has stored; and how many pages before it are stored, but not logged.
 */
async function findNextPage(
  store: Pick<PlanDependencies['store'], 'find'>,
  planned: PlannedRun,
): Promise<{ readonly next: NextPage | undefined; readonly unlogged: number }> {
  const { run } = planned;
  const { request, startedAt: begunAt } = run;
  let unlogged = 0;
  for await (const { slice: ref, last, parent } of walkedSlices(planned)) {
    const { slice, until } = ref;
    let page = last?.page ?? 0;
    let cursor = last?.nextCursor ?? null;
    while (page === 0 || cursor !== null) {
      page += 1;
      const stored = await store.find(pageKey(run, { ...ref, page }));
      // If only the hash of its next cursor is stored, the page is requested again.
      if (stored === undefined || (stored.nextCursor !== null && typeof stored.nextCursor !== 'string')) {
        const ofParent = { parent: parent?.id, parentAlso: parent?.also };
        const since = parent?.since ?? ref.since;
        const next = { request, since, until, begunAt, ...ofParent, cursor, label: `page ${page}`, slice, page };
        return { next, unlogged };
      }
      cursor = stored.nextCursor;
      unlogged += 1;
    }
  }
  return { next: undefined, unlogged };
}

/** The unfinished slices with their parents, without those that the run skips. */
async function* walkedSlices({ run, progress, parentOf }: PlannedRun) {
  for (const each of unfinishedSlices(run, progress)) {
    const parent = await parentOf(each.slice);
    if (!isSkipped(run, parent)) yield { ...each, parent };
  }
}

function* unfinishedSlices(run: Run, { open, begun }: RunProgress): Generator<OpenSlice> {
  yield* open;
  for (let number = begun + 1; number <= sliceCountOf(run); number += 1) {
    yield { slice: sliceOf(run, number), last: undefined };
  }
}
