/**
 * Checks runs whose parents are reports of another export. Their plan is the newest run of that export, and stays. The
 * oracle keeps up to where the children of each parent are in completed runs. The next chain of the parent must begin
 * there: later would leave a gap, and earlier would request children again.
 */

import { isDeepStrictEqual } from 'node:util';
import {
  type ActiveRun,
  chainsOf,
  endOfChain,
  entriesOfChain,
  type LogEntry,
  type Observations,
  type ObservedExport,
  parentsOf,
  type Seen,
  type StateItem,
} from './observations.ts';
import type { ServedPage } from '../world/report-service.ts';
import { emptyJobs } from './report-jobs.ts';

/** For the state of an export, or of a bounded run, before it is stored. */
export function checkParents(
  observations: Observations,
  seen: Seen,
  observed: ObservedExport,
  state: StateItem,
  previous: StateItem | undefined,
): void {
  if (observed.scenario.settings.parents?.export === undefined) return;
  const { active } = state;
  const before = previous?.active;
  if (active !== undefined) {
    if (active.run !== before?.run) noteSince(observations, seen, active, before);
    else checkPlan(observations, seen, observed, active, before);
  }
  const isCompleted = before !== undefined && state.lastCompleted?.result.run === before.run;
  if (isCompleted && active === undefined && before.bounded === undefined) {
    checkCoverage(observations, seen, observed, before, state, previous);
  }
}

/** A run without a page that is replaced keeps its `since`, and who has named it. */
function noteSince(
  { writer }: Observations,
  { namedSince }: Seen,
  active: ActiveRun,
  replaced: ActiveRun | undefined,
): void {
  const { since } = (writer().payload.input ?? {}) as { readonly since?: string };
  const isKept = replaced !== undefined && namedSince.has(replaced.run) && active.since === replaced.since;
  if (since !== undefined || isKept) namedSince.add(active.run);
}

function checkPlan(
  observations: Observations,
  { newestRuns }: Seen,
  observed: ObservedExport,
  active: ActiveRun,
  before: ActiveRun | undefined,
): void {
  const { world, writer } = observations;
  const planOf = ({ parents, slices }: ActiveRun) => [parents?.run, parents?.parts, slices?.count];
  const isPlanned = before?.parents?.parts !== undefined;
  if (isPlanned && !isDeepStrictEqual(planOf(active), planOf(before))) {
    world.violate('the plan of a run never changes', `${active.run} of ${observed.name}`);
  }
  const { parts, run = '', isNamed } = active.parents ?? {};
  if (isPlanned || parts === undefined) return;
  const newest = newestRuns.get(observed.scenario.settings.parents?.export ?? '') ?? [];
  const after = (index: number) => newest[index + 1]?.at ?? Number.POSITIVE_INFINITY;
  const isNewest = newest.some((each, index) => each.run === run && after(index) >= writer().startedAt);
  if (isNamed !== true && !isNewest) {
    world.violate('a plan has the parents in the newest run of their export', `${active.run}: those of ${run}`);
  }
}

/** Whether each chain of the run begins where its parent is covered. */
export const hasCoverage = (
  { scenario }: Pick<ObservedExport, 'scenario'>,
  { bounded }: Pick<ActiveRun, 'bounded'>,
): boolean => {
  const { parents, since } = scenario.settings;
  return parents?.export !== undefined && since.lookbackWindow === undefined && bounded === undefined;
};

/** The first pages that the run can have received with these bytes, for the parent. Pages without reports are alike. */
export const firstPagesOf = (
  { service }: Pick<ObservedExport, 'service'>,
  run: string,
  first: LogEntry | undefined,
  parent: string | undefined,
): readonly ServedPage[] =>
  service
    .servedPages(null)
    .filter((page) => page.run === run && page.parent === parent && page.sha256 === first?.sha256);

/** A parent whose children a run has requested, and the first pages that it can have received. */
interface Walked {
  readonly parent: string;
  readonly pages: readonly Pick<ServedPage, 'since' | 'asOf'>[];
}

function checkCoverage(
  observations: Observations,
  seen: Seen,
  observed: ObservedExport,
  run: ActiveRun,
  state: StateItem,
  previous: StateItem | undefined,
): void {
  const { name, timeline, scenario, versions } = observed;
  const coverage = seen.coverages.get(name) ?? { covered: new Map(), walked: new Set() };
  const parents = parentsOf(observations, observed, run.run);
  const walked = chainsOf(observations, run.run).flatMap((chain, index): readonly Walked[] => {
    const parent = parents[index] ?? '';
    const [first] = entriesOfChain(observations, name, run.run, chain);
    const end = endOfChain(observations, name, run.run, chain);
    if (end?.page === 1 && end.reason === 'empty') return [{ parent, pages: emptyJobs(observed, end) }];
    return end?.page === 1 ? [] : [{ parent, pages: firstPagesOf(observed, run.run, first, parent) }];
  });
  coverage.walked = new Set(walked.map(({ parent }) => parent));
  seen.coverages.set(name, coverage);
  if (!hasCoverage(observed, run)) {
    // All parents have the period of the run, also those that are absent.
    const absent = timeline.reports.filter(({ parent = '' }) => !parents.includes(parent));
    for (const parent of new Set(absent.map((report) => report.parent)))
      passOver(observations, seen, observed, { run, parent });
    return;
  }
  const { initial } = scenario.settings.since;
  const isNamed = seen.namedSince.has(run.run);
  // Without `initial`, the start of the first run says where it begins.
  const isFirst = isNamed && initial === undefined && previous?.watermark === undefined;
  const watermark = Date.parse(state.watermark?.instant ?? '');
  const hasMoved = state.watermark?.instant !== previous?.watermark?.instant;
  const overlapMs = Math.max(...versions.map(({ since: { overlap = 0 } }) => Number(overlap)));
  const { dateUnitMs } = observed.service;
  for (const { parent, pages } of walked) {
    const begin = initial === undefined ? 0 : Date.parse(initial);
    const [least, most] = coverage.covered.get(parent) ?? [begin, begin];
    const sinces = pages.map(({ since }) => since);
    const isContinued = isFirst || Math.min(...sinces) <= most;
    if (!isContinued && !isNamed) violate(observations, `${run.run} leaves a gap of ${parent} after ${instant(most)}`);
    if (!isNamed && Math.max(...sinces) < Math.max(0, least - overlapMs - dateUnitMs)) {
      violate(observations, `${run.run} begins ${parent} at ${sinces.map(instant).join()}, before ${instant(least)}`);
    }
    if (!isContinued) continue;
    const reached = Math.min(
      Math.max(...pages.map(({ asOf }) => asOf)) - run.lagMs,
      run.until === undefined ? Number.POSITIVE_INFINITY : Date.parse(run.until),
    );
    // Reports before the `since` that an operator has named are not wanted, also if a slow clock has not reached it.
    const wanted = isFirst ? Date.parse(run.since) : 0;
    // By the clocks of the exporter, a named `since` may leave a gap.
    const sure = hasMoved && !isNamed ? Math.max(least, watermark) : least;
    coverage.covered.set(parent, [sure, Math.max(most, reached, wanted)]);
  }
}

const violate = ({ world }: Observations, details: string): void =>
  world.violate('a chain begins where its parent is covered', details);

const instant = (ms: number): string => (Number.isFinite(ms) ? new Date(ms).toISOString() : String(ms));

/**
 * The run moves the watermark past the reports that a parent without pages has now; past later ones, too, if no parent
 * has a page: then the watermark is the start of the run by the local clock.
 */
export function passOver(
  { world }: Pick<Observations, 'world'>,
  { publishedReports }: Seen,
  { name, timeline, scenario }: Pick<ObservedExport, 'name' | 'timeline' | 'scenario'>,
  { run, parent }: { readonly run: ActiveRun | undefined; readonly parent: string | undefined },
): void {
  const { since = '', startedAt = '' } = run ?? {};
  const until = Math.max(world.time.now() + scenario.service.skewMs, Date.parse(startedAt) || 0);
  const passed = timeline.matching(Date.parse(since) || 0, until, parent);
  publishedReports.set(name, new Set([...(publishedReports.get(name) ?? []), ...passed]));
}

/** Up to where the children of a parent must be in completed runs, if the watermark of the export is there. */
export function exportedUntil(
  { coverages }: Seen,
  observed: ObservedExport,
  parent: string | undefined,
  watermark: number,
): number {
  if (!hasCoverage(observed, {})) return watermark;
  const [least = Number.NEGATIVE_INFINITY] = coverages.get(observed.name)?.covered.get(parent ?? '') ?? [];
  return Math.min(watermark, least);
}
