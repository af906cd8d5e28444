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

/** The lines of a plan with what is covered of each parent, and those of covered parents that are not in it. */
export interface CoveredPlan {
  readonly lines: readonly string[];
  readonly absent: readonly string[];
}

const keyOf = ({ id, also }: Parent): string => JSON.stringify({ id, also });

/**
 * Adds to the lines of a plan what is covered, and where each chain begins. `covered` is that of completed runs, by the
 * keys of their parents.
 */
export function coverLines(lines: readonly string[], covered: ReadonlyMap<string, Instant>, rules: Rules): CoveredPlan {
  const left = new Map(covered);
  const planned = lines.map((line) => {
    const { id, also } = JSON.parse(line) as Parent;
    const key = keyOf({ id, also });
    const until = covered.get(key);
    left.delete(key);
    const since = rules.isSinceNamed ? undefined : sinceOf(until, rules);
    return `${JSON.stringify({ id, also, covered: until, since })}\n`;
  });
  // One that is no longer known begins where the first run does, so nothing is missed.
  const absent = [...left].slice(-maxParents).map(([key, until]) => lineOf(JSON.parse(key) as Parent, until));
  return { lines: planned, absent };
}

const lineOf = ({ id, also }: Parent, covered: Instant): string => `${JSON.stringify({ id, also, covered })}\n`;

/** Where a chain begins, so that it leaves no gap after what is covered. */
const sinceOf = (covered: Instant | undefined, { overlapMs, initial }: Rules): Instant =>
  covered === undefined ? (initial ?? instantOf(0)) : instantOf(Math.max(0, epochMsOf(covered) - overlapMs));

/** The line of a parent after a run whose chain of it ended. `reached`: how far the run has exported. */
function coveredLine(
  parent: Parent,
  {
    isWalked,
    reached,
    run,
  }: {
    readonly isWalked: boolean;
    readonly reached: Instant;
    readonly run: Pick<Run, 'since'> & { readonly rules: Rules };
  },
): string | undefined {
  const { covered, since = run.since } = parent;
  const leavesGap = epochMsOf(since) > epochMsOf(sinceOf(covered, run.rules));
  // With a slow clock, a run seems to end before its chain begins. Earlier children are not wanted.
  const end = isLater(reached, since) ? reached : since;
  const until = isWalked && !leavesGap && isLater(end, covered) ? end : covered;
  return until === undefined ? undefined : lineOf(parent, until);
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
      const walked = { isWalked: !unwalked.has(slice), reached, run: { since: run.since, rules } };
      const line = coveredLine(parent, walked);
      if (line !== undefined) lines.push(line);
    }
    if (lines.length > 0) stored.push(await storePart(store, run.export, lines));
  }
  return [...stored, ...absent];
}
