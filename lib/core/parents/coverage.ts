/**
 * How far each parent is covered: all its children that are dated before are in completed runs. A parent that is new,
 * or comes back, needs earlier children than the others, so one watermark is not enough.
 *
 * The coverage is beside the watermark in the state, as digests of objects like the parts of a plan. It has every
 * parent that was ever covered. A parent without coverage begins where the first run does.
 */

import { ExportError, isExportError } from '../errors.ts';
import type { ExportState, Instant, Run } from '../model.ts';
import type { PageStore } from '../ports.ts';
import { selectsSame } from '../filter.ts';
import { planKey } from '../storage/keys.ts';
import type { DocumentReader } from '../storage/published-runs.ts';
import { epochMsOf, instantOf } from '../timestamps.ts';
import { maxParents, type Parent, parentsPerPart } from './plan.ts';
import { loadPart, storePart } from './run-parents.ts';

type Rules = NonNullable<NonNullable<Run['parents']>['coverage']>;

export interface CoveredPlan {
  /** The lines of the plan, with what is covered of each parent. */
  readonly lines: readonly string[];
  /** The lines of covered parents that are not in the plan. */
  readonly absent: readonly string[];
}

const keyOf = ({ id, also }: Parent): string => JSON.stringify({ id, also });

/**
 * Adds to the lines of a plan what is covered, and where each chain begins. `covered` is that of completed runs, by the
 * keys of their parents: first those of the newest plan, then those that are absent for longer and longer.
 */
export function coverLines(lines: readonly string[], covered: ReadonlyMap<string, Instant>, rules: Rules): CoveredPlan {
  const unplanned = new Map(covered);
  const planned = lines.map((line) => {
    const { id, also } = JSON.parse(line) as Parent;
    const key = keyOf({ id, also });
    const until = covered.get(key);
    unplanned.delete(key);
    const since = rules.isSinceNamed ? undefined : sinceOf(until, rules);
    return `${JSON.stringify({ id, also, covered: until, since })}\n`;
  });
  // The longest absent ones are forgotten. If one comes back, it begins where the first run does, so nothing is missed.
  const remembered = [...unplanned].slice(0, maxParents);
  const absent = remembered.map(([key, until]) => lineOf(JSON.parse(key) as Parent, until));
  return { lines: planned, absent };
}

const lineOf = ({ id, also }: Parent, covered: Instant): string => `${JSON.stringify({ id, also, covered })}\n`;

/** Where a chain begins, so that it leaves no gap after what is covered. */
const sinceOf = (covered: Instant | undefined, { overlapMs, initial }: Rules): Instant =>
  covered === undefined ? (initial ?? instantOf(0)) : instantOf(Math.max(0, epochMsOf(covered) - overlapMs));

interface CompletedRun {
  readonly since: Instant;
  /** How far it has exported. */
  readonly reached: Instant;
  readonly rules: Rules;
}

/** How far a parent is covered after a run that has walked its chain to the end. */
function coveredAfter(
  { covered, since: sinceOfParent }: Parent,
  { since: sinceOfRun, reached, rules }: CompletedRun,
): Instant | undefined {
  const since = sinceOfParent ?? sinceOfRun;
  const leavesGap = epochMsOf(since) > epochMsOf(sinceOf(covered, rules));
  if (leavesGap) return covered;
  // With a slow clock, a run seems to end before its chain begins. Earlier children are not wanted.
  const end = isLater(reached, since) ? reached : since;
  return isLater(end, covered) ? end : covered;
}

const isLater = (one: Instant, other: Instant | undefined): boolean =>
  other === undefined || epochMsOf(one) > epochMsOf(other);

/**
 * What completed runs have covered, by the keys of the parents.
 * @throws ConfigurationError if it was changed, unless a start has named where all chains begin
 */
export async function readCoverage(
  store: DocumentReader,
  run: Pick<Run, 'export' | 'request' | 'parents'>,
  { watermark }: Pick<ExportState, 'watermark'>,
): Promise<ReadonlyMap<string, Instant>> {
  const covered = new Map<string, Instant>();
  if (watermark?.coverage === undefined || !selectsSame(watermark, run.request)) return covered;
  try {
    for (const digest of watermark.coverage) {
      const parents = await loadPart(store, planKey(run.export, digest), digest);
      for (const parent of parents) if (parent.covered !== undefined) covered.set(keyOf(parent), parent.covered);
    }
    return covered;
  } catch (error) {
    if (!isExportError(error, 'PageConflictError')) throw error;
    const { isSinceNamed, initial } = run.parents?.coverage ?? {};
    if (isSinceNamed) return new Map();
    // From a later one on, no parent would be covered.
    const firstSince = initial ?? instantOf(0);
    throw new ExportError(
      'ConfigurationError',
      `It is not known how far the parents of export ${run.export} are covered: ${error.message.replace(/\. Restore.*$/s, '')}. ` +
        `Restore it from a bucket version or a backup. Or start with --restart and --since ${firstSince}: all parents are requested from there`,
      { cause: error },
    );
  }
}

/** Stores the lines in parts, and returns their digests. */
export async function storeLines(
  store: Pick<PageStore, 'putDocument'>,
  exportName: string,
  lines: readonly string[],
): Promise<readonly string[]> {
  const digests: string[] = [];
  for (let start = 0; start < lines.length; start += parentsPerPart) {
    digests.push(await storePart(store, exportName, lines.slice(start, start + parentsPerPart)));
  }
  return digests;
}

/**
 * Stores what is covered after a run, and returns the digests of its parts. `unwalked` are the slices that were not
 * walked, as their parents are gone or were skipped: they keep what was covered.
 */
export async function storeCoverage(
  store: Pick<PageStore, 'putDocument'> & DocumentReader,
  run: Run,
  { reached, unwalked }: { readonly reached: Instant; readonly unwalked: ReadonlySet<number> },
): Promise<readonly string[] | undefined> {
  const { coverage: rules, parts = [], absent = [] } = run.parents ?? {};
  if (rules === undefined) return undefined;
  const stored: string[] = [];
  let slice = 0;
  for (const digest of parts) {
    const lines: string[] = [];
    for (const parent of await loadPart(store, planKey(run.export, digest), digest)) {
      slice += 1;
      const isWalked = !unwalked.has(slice);
      const covered = isWalked ? coveredAfter(parent, { since: run.since, reached, rules }) : parent.covered;
      if (covered !== undefined) lines.push(lineOf(parent, covered));
    }
    if (lines.length > 0) stored.push(await storePart(store, run.export, lines));
  }
  return [...stored, ...absent];
}
