/** Checks the slices of runs before the state, or a run's first page, is stored; and the proofs of upper bounds. */

import { isDeepStrictEqual } from 'node:util';
import { recordOf } from '../world/dynamodb.ts';
import type { Process } from '../world/process.ts';
import type { Proof } from '../world/report-service.ts';
import type { SimulatedReport } from '../world/reports.ts';
import type { Command } from '../world/sdk-clients.ts';
import {
  type ActiveRun,
  type Chain,
  chainsOf,
  cutsOf,
  endOfChain,
  entriesOfChain,
  keyOfPage,
  type LogEntry,
  type Observations,
  type ObservedExport,
  type ProgressItem,
  requestedBounds,
  type Seen,
} from './observations.ts';

/** A new run is cut into all of its period. The newest slice is no longer than the others. */
export function checkCuts({ world }: Observations, name: string, active: ActiveRun): void {
  const { run, slices, since, until, startedAt } = active;
  // Each parent has all of it.
  if (hasParents(active)) return;
  const end = Date.parse(until ?? startedAt);
  const cuts = cutsOf(active).slice(1);
  const isOrdered = cuts.every((cut) => cut.since > Date.parse(since) && cut.since < end);
  const last = cuts.at(-1);
  const isWhole = slices?.lengthMs === undefined || (last !== undefined && end - last.since <= slices.lengthMs);
  if (!isOrdered || !isWhole) world.violate('the slices of a run never change', `${name}: ${run} has wrong cuts`);
}

/**
 * Every attempt of a run has the same slices. One starts over only on its own: when its cursor was rejected, or when
 * two of its pages have the same cursor.
 */
export function checkSlices(
  observations: Observations,
  { pagesStoredAt }: Pick<Seen, 'pagesStoredAt'>,
  { name, scenario, service }: Pick<ObservedExport, 'name' | 'scenario' | 'service'>,
  previous: ActiveRun,
  active: ActiveRun,
): void {
  const { world, writer, prefix, s3 } = observations;
  const { step, id, startedAt } = writer();
  const label = `${name}: ${active.run}`;
  const fixed = ({ since, until, bounded, lagMs, startedAt: at, compression, slices }: ActiveRun) => [
    [since, until, bounded, lagMs, at, compression],
    [slices?.count, slices?.lengthMs],
  ];
  // Its slices are those of its plan (`parents.ts`).
  const planned = previous.slices === undefined && active.parents ? { ...previous, slices: active.slices } : previous;
  if (!isDeepStrictEqual(fixed(active), fixed(planned as ActiveRun))) {
    world.violate('the slices of a run never change', `${label}, by ${id}`);
    return;
  }
  // The state is that of before this write.
  const before = chainsOf(observations, active.run);
  const restarted = before.filter(({ slice = 1, attempt }) => (active.attempts?.[slice] ?? attempt) !== attempt);
  for (const chain of restarted) {
    const { slice = 1, attempt = 1 } = chain;
    const entries = entriesOfChain(observations, name, active.run, chain);
    const repeats = entries.at(-1)?.repeats === true || hasRepeatedCursor(entries);
    const allowed = maxRestarts({ scenario, service });
    const wasRejected = step === 'BeginRun' && (previous.restarts?.[slice] ?? 0) > allowed;
    const isAllowed =
      active.attempts?.[slice] === attempt + 1 &&
      (step === 'ExportPage'
        ? restarted.length === 1
        : wasRejected || ((step === 'BeginRun' || step === 'FinishRun') && repeats));
    const restarts = active.restarts?.[slice] ?? 0;
    if (!isAllowed || restarts > allowed) {
      world.violate('a slice starts over only on its own', `${label}: slice ${slice} by ${id}`);
    }
    const last = entries.at(-1);
    // The last page of a pass is stored, and not logged.
    if (step !== 'ExportPage' || last === undefined || service.counts) continue;
    const nextKey = prefix + keyOfPage(last.key, last.page + 1);
    const isFound = s3().objects.has(nextKey) && (pagesStoredAt.get(nextKey) ?? Number.POSITIVE_INFINITY) < startedAt;
    const isDisturbed = world.injectedFaults.some(({ site }) => site.startsWith(`${id}/`) && !/fetch/.test(site));
    if (isFound && !isDisturbed) {
      world.violate('a run does not start over while its next page is stored', `${label}: ${nextKey}`);
    }
  }
}

/** How often pages may start over. The second pass of counted pages is none of them. */
export const maxRestarts = ({ scenario, service }: Pick<ObservedExport, 'scenario' | 'service'>): number =>
  scenario.settings.maxCursorRestarts + (service.counts ? 1 : 0);

function hasRepeatedCursor(entries: readonly LogEntry[]): boolean {
  const cursors = entries.flatMap(({ cursor }) => (cursor === null ? [] : [cursor]));
  return new Set(cursors).size < cursors.length;
}

/** What is recorded of complete slices is what their log has. A record of another generation does not count. */
export function checkProgress(observations: Observations, name: string, record: ProgressItem): void {
  const { world, runs } = observations;
  const active = runs.get(record.run);
  if (active?.slices === undefined || record.generation !== (active.generation ?? 0)) return;
  const open = new Set([...record.open, ...record.setAside]);
  const chains = chainsOf(observations, record.run).slice(0, record.begun);
  const complete = chains.filter(({ slice = 0 }) => !open.has(slice));
  const entries = complete.map((chain) => entriesOfChain(observations, name, record.run, chain));
  const hasEnds = complete.every(
    (chain, index) =>
      entries[index]?.at(-1)?.nextCursor === null || endOfChain(observations, name, record.run, chain) !== undefined,
  );
  const pages = entries.flat();
  const bytes = pages.reduce((sum, page) => sum + page.bytes, 0);
  if (!hasEnds || record.done.pages !== pages.length || record.done.bytes !== bytes) {
    world.violate('the recorded progress is what the log has', `${name}: ${record.run} up to ${record.begun}`);
  }
}

/** The recorded progress of the run; undefined if there is none. */
export function progressOf({ dynamoDb }: Observations, { export: name, run }: ActiveRun): ProgressItem | undefined {
  return dynamoDb()
    .items(`acme/${name}`, 'progress#')
    .map(recordOf<ProgressItem>)
    .find((record) => record.run === run);
}

/** A run with one slice has no log of slices to read, until it starts over. */
export function checkSlicesRead(
  { world, runs }: Pick<Observations, 'world' | 'runs'>,
  { id }: Process,
  { input }: Command,
): void {
  const { ExpressionAttributeValues: values = {}, Key } = input as {
    readonly ExpressionAttributeValues?: Record<string, { S?: string }>;
    readonly Key?: { readonly pk?: { S?: string }; readonly sk?: { S?: string } };
  };
  const [, run = ''] = /^run#([^#]+)#slice#/.exec(values[':from']?.S ?? values[':prefix']?.S ?? '') ?? [];
  const { slices, attempts } = runs.get(run) ?? {};
  if (run !== '' && slices === undefined && attempts === undefined) {
    world.violate('a run with one slice makes no request for slices', `${id}: ${run}`);
  }
  const isProgress = Key?.sk?.S?.startsWith('progress#') === true;
  const ofExport = [...runs.values()].filter((each) => `acme/${each.export}` === Key?.pk?.S);
  if (isProgress && ofExport.every((each) => each.slices === undefined)) {
    world.violate('a run with one slice makes no request for slices', `${id}: its progress`);
  }
}

export const hasParents = ({ slices }: Pick<ActiveRun, 'slices'>): boolean =>
  slices !== undefined && slices.lengthMs === undefined;

/** Slices of parents have the same bounds, so that no report can be in two of them. */
const dependsOnUpperBound = ({ slices, bounded, until }: ActiveRun): boolean =>
  slices?.lengthMs !== undefined || (bounded !== undefined && until !== undefined);

/** Checks a request for an empty interval. `earlier`: the responses to those that the process has sent before. */
export function checkProof(
  { world, runs }: Pick<Observations, 'world' | 'runs'>,
  observed: Pick<ObservedExport, 'service'>,
  { id, step }: Process,
  at: number,
  earlier: readonly Proof[],
): void {
  const isOfRun = [...runs.values()].some(
    (run) =>
      dependsOnUpperBound(run) &&
      provenInstants(run).includes(at) &&
      requestedBounds({ since: at, until: at }, run, observed).until === at,
  );
  const same = earlier.filter((proof) => proof.at === at);
  const isRepeated = same.some(({ page }) => page !== undefined) || same.length > 1;
  if (step !== 'ExportPage' || !isOfRun || isRepeated) {
    const details = isRepeated ? 'once more' : `for ${new Date(at).toISOString()}`;
    world.violate('an invocation proves its bounds once, for runs that depend on them', `${id}: ${details}`);
  }
}

/** Before the first page of a run is logged: the process has seen that the service honors the upper bound. */
export function checkFirstPage(
  { world, writer, runs }: Observations,
  { proofs }: Seen,
  { name, service }: Pick<ObservedExport, 'name' | 'service'>,
  run: string,
): void {
  const active = runs.get(run);
  // The requests of a proof would create jobs.
  if (active === undefined || !dependsOnUpperBound(active) || service.jobs !== undefined) return;
  const responses = service.proofs(writer().id);
  const [upper, lower] = provenInstants(active).map((at) => responses.filter((each) => each.at === at));
  proofs.set(run, upper?.at(-1)?.page);
  const isRejected = (answers: readonly Proof[] = []) => answers.length > 1 && answers.at(-1)?.page === undefined;
  const isEmpty = (answers: readonly Proof[] = []) => {
    const page = answers.at(-1)?.page;
    // Reports that are not counted are noticed by a second page.
    return page?.nextCursor === null && (page.reports.length === 0 || !isCounted(active));
  };
  const holds = isRejected(upper) || (isEmpty(upper) && (lower === undefined || isRejected(lower) || isEmpty(lower)));
  if (!holds) {
    world.violate('a run begins only if the service honors its upper bound', `${name}: ${run} by ${writer().id}`);
  }
}

/** The ends of the first slice and, of three or more, the last but one: they prove upper and lower bound. */
function provenInstants(run: ActiveRun): readonly number[] {
  const cuts = cutsOf(run);
  const ends = cuts.length > 2 && !hasParents(run) ? [cuts[0], cuts.at(-2)] : [cuts[0]];
  return ends.flatMap((cut) => cut?.until ?? []);
}

const isCounted = ({ request: { format, api } }: ActiveRun): boolean =>
  format === 'XML' || api.pagination !== undefined;

/**
 * Whether the report may be in several slices of the run, or outside its bounds: its date has changed, or the service
 * does not honor upper bounds and the proof could not show it. It shows that they are ignored by any report since the
 * end of the first slice, and that they are inclusive only by a report with exactly that date. Of a format whose
 * reports are not counted, it needs two reports.
 */
export function mayBeMisplaced(
  { runs }: Pick<Observations, 'runs'>,
  { proofs }: Pick<Seen, 'proofs'>,
  run: string,
  { date, visibleAt, isRedated, parent }: SimulatedReport,
): boolean {
  if (isRedated) return true;
  if (!proofs.has(run)) return false;
  const proof = proofs.get(run);
  // Rejected, as though the service compared the two bounds.
  if (proof === undefined) return true;
  const active = runs.get(run);
  // One report without a next page is not noticed.
  if (proof.reports.length > 0 && active !== undefined && !isCounted(active)) return true;
  // It is requested for one parent.
  const wasVisible = visibleAt <= proof.asOf && (proof.parent === undefined || proof.parent === parent);
  if (proof.upperBounds === 'ignored') return !wasVisible;
  const isEnd = active !== undefined && cutsOf(active).some(({ until }) => until === date);
  return proof.upperBounds === 'included' && isEnd && !(wasVisible && date === proof.since);
}

/** Whether a key is that of a page of an earlier attempt of its slice. */
export function isOfEarlierAttempt(observations: Observations, run: string, key: string): boolean {
  const { slice: number = 1, attempt = 1 } = chainOfKey(key);
  const current = chainsOf(observations, run).find(({ slice = 1 }) => slice === number);
  return attempt < (current?.attempt ?? 0);
}

/** Which attempt of which slice the key of a page names. */
export function chainOfKey(key: string): Chain {
  const [, slice, attempt = '1'] = /\/page-(\d{6})(?:\.(\d+))?-\d{6}\./.exec(key) ?? [];
  return slice === undefined ? {} : { slice: Number(slice), attempt: Number(attempt) };
}
