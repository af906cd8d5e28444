/** What the next start would do, without doing it: the same decision that BeginRun makes, with its reason. */

import { isExportError } from '../core/errors.ts';
import { type ExportState, emptyState, type PageEntry, type Run } from '../core/model.ts';
import { withSince } from '../core/parents/coverage.ts';
import { isSkipped, type ParentOf, parentsOfRun } from '../core/parents/run-parents.ts';
import type { PageRequest, ReportReader, StoreReader } from '../core/ports.ts';
import { noProgress, type OpenSlice, type RunProgress } from '../core/run-progress.ts';
import { numberOf, shownNumber, sliceCountOf, sliceOf } from '../core/slices.ts';
import { definitionOfStart } from '../core/bounded-runs.ts';
import { type BeginRunDependencies, readFacts } from '../core/steps/begin-run.ts';
import { type Decision, decide } from '../core/start/decide.ts';
import { readPlan } from '../core/steps/plan-parents.ts';
import { parseStartInput } from '../core/start/start-input.ts';
import { identityAfter } from '../core/steps/page-pipeline.ts';
import { type Chain, requestOf } from '../core/slots/page-requests.ts';
import { withSinceOfParent } from '../core/steps/walk-slices.ts';
import { describePage } from '../core/storage/keys.ts';
import { type BoundableExport, findStarts, type RequestedStart } from './bounded-start.ts';

/** `plan` of `--json`, and the requests of the run. */
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

/** `abandons` is the unfinished run that a new run replaces. */
async function describeRun(deps: PlanDependencies, state: ExportState, decision: Accepted) {
  const planned = await withParents(deps, state, decision);
  const isNew = 'reason' in decision;
  const about = isNew
    ? ({ act: 'start', reason: decision.reason, run: null, abandons: state.active?.run ?? null } as const)
    : ({ act: 'resume', reason: reasonToResume(state, planned), run: planned.run.run, abandons: null } as const);
  const further = nextPages(deps.store, planned, isNew);
  const { value: first } = await further.next();
  const walk: PlannedWalk | undefined = first && { first, further, begun: isNew ? planned : undefined };
  return { ...about, ...(await describeBounds(planned)), ...placeOf(first), walk };
}

/** The requests of a planned run. */
export interface PlannedWalk {
  readonly first: NextPage;
  /** The next pages of further chains. Undefined: nothing is requested of them. */
  readonly further: AsyncIterator<NextPage, undefined> | undefined;
  /** A run that would begin. Its bounds are proved, too. */
  readonly begun: PlannedRun | undefined;
}

export interface PlannedRun {
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

async function describeBounds({ run, progress: { counts }, parentOf }: PlannedRun) {
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
  };
}

/** The page that the run requests next. null: all pages are stored, and the run only has to be published. */
const placeOf = (next: NextPage | undefined) => ({
  slice: next?.slice ?? null,
  page: next?.page ?? null,
  cursor: next?.cursor ?? null,
});

async function firstParents(parentOf: ParentOf): Promise<readonly string[]> {
  const first = await Promise.all([1, 2, 3].map((slice) => parentOf({ slice })));
  return first.flatMap((parent) => parent?.id ?? []);
}

const notPlanned = (act: 'skip' | 'refuse', reason: string) => ({ act, reason }) as const;

function reasonToResume({ active }: ExportState, { run: { run } }: PlannedRun): string {
  const failure = active?.lastFailure;
  return `run ${run} ${failure === undefined ? 'was interrupted' : `failed (${failure.error})`} and is resumed`;
}

interface NextPage extends PageRequest {
  readonly slice: number | undefined;
  readonly page: number;
}

/**
 * The next page of each chain that has one, the oldest first, without parents that the run skips. In a run that is
 * resumed, it is the first one that no earlier attempt has stored.
 */
async function* nextPages(
  store: PlanDependencies['store'],
  { run, progress, parentOf }: PlannedRun,
  isNew: boolean,
): AsyncGenerator<NextPage, undefined> {
  for (const { slice, last } of unfinishedSlices(run, progress)) {
    const parent = await parentOf(slice);
    if (isSkipped(run, parent)) continue;
    const chain = { run, slice: withSinceOfParent(slice, parent), parent };
    const newest = isNew ? undefined : await newestStored(store, chain, last);
    if (newest?.nextCursor === null) continue;
    const { page, cursor } = identityAfter(chain, newest);
    const label = describePage({ page, slice: shownNumber(run, slice), parent: parent?.id });
    yield { ...requestOf(chain, { cursor, label }), slice: slice.slice, page };
  }
}

type ChainEnd = Pick<PageEntry, 'page' | 'nextCursor'>;

/** The last page of the chain that is logged, or stored after the log. */
async function newestStored(
  store: PlanDependencies['store'],
  chain: Chain,
  last: ChainEnd | undefined,
): Promise<ChainEnd | undefined> {
  if (last?.nextCursor === null) return last;
  const { key, page } = identityAfter(chain, last);
  const stored = await store.find(key);
  // If only the hash of its next cursor is stored, the page is requested again.
  if (stored === undefined || (stored.nextCursor !== null && typeof stored.nextCursor !== 'string')) return last;
  return await newestStored(store, chain, { page, nextCursor: stored.nextCursor });
}

function* unfinishedSlices(run: Run, { open, begun }: RunProgress): Generator<OpenSlice> {
  yield* open;
  for (let number = begun + 1; number <= sliceCountOf(run); number += 1) {
    yield { slice: sliceOf(run, number), last: undefined };
  }
}
