/**
 * Up to which instant each parent is covered: all its earlier children are in completed runs. A parent that is new, or
 * comes back, needs earlier children than the others, so one watermark is not enough.
 *
 * The coverage is beside the watermark in the state, in parts like those of a plan. It has the covered parents of
 * the newest plan, and up to `maxParents` absent ones. A parent without coverage begins where the first run does.
 */

import { ExportError, isExportError } from '../errors.ts';
import type { ExportState, Instant, Run } from '../model.ts';
import type { PageStore } from '../ports.ts';
import { selectsSame } from '../filter.ts';
import type { DocumentReader } from '../storage/published-runs.ts';
import { epochMsOf, instantOf } from '../timestamps.ts';
import { keyOf, maxParents, type Parent } from './plan.ts';
import { loadParents, storeParents } from './plan-parts.ts';

type Rules = NonNullable<NonNullable<Run['parents']>['coverage']>;

/** The covered parents, by what distinguishes them: those of the newest plan first, then the absent ones. */
type Coverage = ReadonlyMap<string, Parent>;

export const coverParents = (parents: readonly Parent[], coverage: Coverage): readonly Parent[] =>
  parents.map((parent) => ({ ...parent, covered: coverage.get(keyOf(parent))?.covered }));

/** Where a chain begins, so that it leaves no gap after what is covered. */
const sinceOf = ({ covered }: Parent, { overlapMs, initial }: Rules): Instant =>
  covered === undefined ? (initial ?? instantOf(0)) : instantOf(Math.max(0, epochMsOf(covered) - overlapMs));

/** The parent with the beginning of its chain. */
export const withSince = (parent: Parent, { parents }: Pick<Run, 'parents'>): Parent =>
  parents?.coverage === undefined || parents.coverage.isSinceNamed
    ? parent
    : { ...parent, since: sinceOf(parent, parents.coverage) };

/** How far a parent is covered after a run that has walked its chain to the end, and has exported up to `reached`. */
function coveredAfter(run: Run, rules: Rules, parent: Parent, reached: Instant): Instant | undefined {
  const { covered } = parent;
  const { since = run.since } = withSince(parent, run);
  const leavesGap = epochMsOf(since) > epochMsOf(sinceOf(parent, rules));
  if (leavesGap) return covered;
  // With a slow clock, a run seems to end before its chain begins. Earlier children are not wanted.
  return instantOf(Math.max(...[reached, since, covered ?? since].map(epochMsOf)));
}

/**
 * What completed runs have covered.
 * @throws ConfigurationError if it was changed, unless a start has named where all chains begin
 */
export async function readCoverage(
  store: DocumentReader,
  run: Pick<Run, 'export' | 'request' | 'parents'>,
  state: Pick<ExportState, 'watermark'> | undefined,
): Promise<Coverage> {
  const rules = run.parents?.coverage;
  const watermark = state?.watermark;
  const covered = new Map<string, Parent>();
  if (rules === undefined || watermark === undefined || !selectsSame(watermark, run.request)) return covered;
  try {
    for await (const parent of loadParents(store, run.export, watermark.coverage)) covered.set(keyOf(parent), parent);
    return covered;
  } catch (error) {
    if (!isExportError(error, 'PageConflictError')) throw error;
    if (rules.isSinceNamed) return new Map();
    // A later --since would leave a gap, so no parent would count as covered.
    const firstSince = rules.initial ?? instantOf(0);
    throw new ExportError(
      'ConfigurationError',
      `${error.message} and --since ${firstSince}: all parents are requested from there, as it is not known how far they are covered`,
      { cause: error },
    );
  }
}

/**
 * Stores what is covered after a run, and returns the digests of its parts. `unwalked` are the slices that were not
 * walked, as their parents are gone or were skipped: they keep what was covered, as those that are not in the plan do.
 */
export async function storeCoverage(
  store: Pick<PageStore, 'putDocument'> & DocumentReader,
  run: Run,
  state: Pick<ExportState, 'watermark'>,
  { reached, unwalked }: { readonly reached: Instant; readonly unwalked: ReadonlySet<number> },
): Promise<readonly string[] | undefined> {
  const rules = run.parents?.coverage;
  if (rules === undefined) return undefined;
  const absent = new Map(await readCoverage(store, run, state));
  const planned: Parent[] = [];
  let slice = 0;
  for await (const parent of loadParents(store, run.export, run.parents?.parts)) {
    slice += 1;
    absent.delete(keyOf(parent));
    const covered = unwalked.has(slice) ? parent.covered : coveredAfter(run, rules, parent, reached);
    if (covered !== undefined) planned.push({ ...parent, covered });
  }
  // The longest absent ones are forgotten. If one comes back, it begins where the first run does, so nothing is missed.
  const remembered = [...absent.values()].slice(0, maxParents);
  return await storeParents(store, run.export, [...planned, ...remembered]);
}
