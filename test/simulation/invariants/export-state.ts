/** Checks each export state before it is stored: its version, who may replace the active run, and the watermark. */

import { isDeepStrictEqual } from 'node:util';
import {
  type ActiveRun,
  chainsOf,
  cutsOf,
  entriesOf,
  endOfChain,
  entriesOfChain,
  findServedPage,
  isChangedTooLate,
  isStored,
  isWhole,
  type Observations,
  type ObservedExport,
  requestedBounds,
  type Seen,
  type StateItem,
  summaryKeyBeside,
} from './observations.ts';
import type { ServedPage } from '../world/report-service.ts';
import { operatorId } from '../histories/abandon.ts';
import { exportedUntil, hasCoverage } from './parents.ts';
import { checkCuts, checkSlices, maxRestarts, progressOf } from './slices.ts';

/** `name`: of the export, or of a bounded run of it. */
export function checkExportState(
  observations: Observations,
  seen: Seen,
  observed: ObservedExport,
  name: string,
  state: StateItem,
  previous: StateItem | undefined,
): void {
  const { world } = observations;
  if (state.version !== (previous?.version ?? 0) + 1) {
    world.violate('export state replaces the version that was read', `${name}: version ${state.version}`);
  }
  if (previous?.addedBy !== undefined && state.addedBy === undefined) {
    world.violate('export state keeps the fields of a later release', name);
  }
  const previousSequence = previous?.sequence ?? 0;
  if (state.sequence < previousSequence) world.violate('sequence numbers of runs increase', name);
  const begins = state.active !== undefined && state.active.run !== previous?.active?.run;
  if (begins && (state.sequence <= previousSequence || state.active?.sequence !== state.sequence)) {
    world.violate('sequence numbers of runs increase', `${name}: run ${state.active?.run}`);
  }
  if (state.active !== undefined && begins) {
    checkCuts(observations, name, state.active);
    seen.begunAt.set(state.active.run, observed.service.now());
  }
  if (previous?.active !== undefined) checkActiveRun(observations, seen, observed, previous.active, state);
  if (name === observed.name) {
    checkCompletedRun(observations, seen, observed, state, previous);
    checkWatermark(observations, seen, observed, state, previous);
  } else checkBoundedRun(observations, seen, observed, name, state, previous);
}

/** The status that DescribeExecution returns may be this old. */
const descriptionLagMs = 5_000;

/**
 * An execution has one run, however late its invocations act. Once it has ended, it begins none with `restart` or
 * `since` unless it could not know, because it read the state before its end. `label`: the export and the sort key.
 */
export function checkOwner(
  { world, writer, findExecution }: Observations,
  { runOwners, statesWrittenAt }: Seen,
  label: string,
  { active }: StateItem,
  previous: StateItem | undefined,
): void {
  const readAfter = statesWrittenAt.get(label);
  statesWrittenAt.set(label, world.time.now());
  const { step, payload, id } = writer();
  const input = (payload.input ?? {}) as {
    readonly continues?: string;
    readonly since?: string;
    readonly restart?: boolean;
  };
  const isOwned = active !== undefined && active.execution === payload.execution;
  if (step !== 'BeginRun' || !isOwned || input.continues !== undefined) return;
  if (active.run !== previous?.active?.run) {
    if (runOwners.has(active.execution)) {
      world.violate('an execution begins one run at most', `${label}: ${id} begins ${active.run}`);
    }
    const { endedAt = Number.POSITIVE_INFINITY, status } = findExecution(active.execution) ?? {};
    const hasEnded = status !== 'RUNNING' && readAfter !== undefined && readAfter > endedAt + descriptionLagMs;
    if (hasEnded && (input.restart === true || input.since !== undefined)) {
      world.violate(
        'an execution that has ended begins no run with restart or since',
        `${label}: ${id} begins ${active.run}`,
      );
    }
  }
  runOwners.add(active.execution);
}

/** An active run keeps its execution and its place in the state, unless a reason to replace it applies. */
function checkActiveRun(
  observations: Observations,
  seen: Seen,
  { name, scenario, service, requestMark }: ObservedExport,
  previous: ActiveRun,
  state: StateItem,
): void {
  const { world, writer, findExecution } = observations;
  const { firstPagesAt, requestMarks } = seen;
  const { step, payload, id, startedAt } = writer();
  const input = (payload.input ?? {}) as {
    restart?: boolean;
    since?: string;
    slice?: string;
    continues?: string;
    Error?: string;
  };
  const { active } = state;
  const isOther = step === 'FailRun' && previous.execution !== payload.execution && id !== operatorId;
  if (isOther && !isDeepStrictEqual(active, previous)) {
    world.violate('an export has one active run', `${name}: ${id} changes run ${previous.run} of another execution`);
  }
  if (active?.run === previous.run) {
    checkSlices(observations, seen, { name, scenario, service }, previous, active);
    const isTakenOver = active.execution !== previous.execution;
    const owner = findExecution(previous.execution);
    // It had ended when the start looked.
    const wasRedriven = (owner?.redrivenAt ?? Number.NEGATIVE_INFINITY) >= startedAt;
    const isOwnerRunning = owner?.status === 'RUNNING' && !wasRedriven;
    const isContinuation = input.continues === previous.execution;
    const sawStaleStatus = world.injectedFaults.some(
      ({ kind, site }) => kind === 'stale-execution-status' && site.includes(id),
    );
    if (isTakenOver && isOwnerRunning && !isContinuation && !sawStaleStatus) {
      world.violate('an export has one active run', `${name}: ${previous.run} was taken from a running execution`);
    }
    return;
  }
  const last = entriesOf(observations, name, previous.run).at(-1);
  const isOwner = previous.execution === payload.execution;
  const isCompleted = state.lastCompleted?.result.run === previous.run && step === 'FinishRun' && isOwner;
  // BeginRun never abandons the run that its own execution began.
  const isOtherExecution = previous.startedBy !== payload.execution;
  const restartRequested = input.restart === true && isOtherExecution;
  // A start with another `since` or request may abandon a bounded run without pages, and any start another run without
  // pages. Pages may be logged after it has looked.
  const isContradicted =
    (input.since !== undefined && input.since !== previous.since) ||
    input.slice !== undefined ||
    requestMark(id) !== requestMarks.get(previous.run);
  const isReplaceable = previous.bounded === undefined || isContradicted;
  const hadNoPages = last === undefined || (firstPagesAt.get(previous.run) ?? 0) >= startedAt;
  const reports = countReports(observations, { name, service }, previous.run);
  const isTooSmall =
    previous.bounded === undefined &&
    isWhole(observations, name, previous.run) &&
    reports < minReportsOf(scenario) &&
    previous.completion === undefined;
  const keepsNothing = isReplaceable && (hadNoPages || startsOver(observations, { name, scenario, service }, previous));
  const isDoubtful = wasRefusedAtFirst(observations, name, previous);
  const isRestarted =
    step === 'BeginRun' && isOtherExecution && (restartRequested || keepsNothing || isDoubtful || isTooSmall);
  const isAbandoned = id === operatorId && active === undefined;
  if (isCompleted || isRestarted || isAbandoned) return;
  world.violate(
    'an export has one active run',
    `${name}: ${step} ${id} replaced ${previous.run} by ${active?.run ?? 'no run'}`,
  );
}

/** Whether every slice with pages starts over with the next start, so that nothing is left of the run. */
function startsOver(
  observations: Observations,
  { name, scenario, service }: Pick<ObservedExport, 'name' | 'scenario' | 'service'>,
  run: ActiveRun,
): boolean {
  return chainsOf(observations, run.run).every((chain) => {
    const last = entriesOfChain(observations, name, run.run, chain).at(-1);
    const wasRejected = (run.restarts?.[chain.slice ?? 1] ?? 0) > maxRestarts({ scenario, service });
    const isOver = last?.nextCursor === null || endOfChain(observations, name, run.run, chain) !== undefined;
    return last === undefined || (!isOver && (last.repeats || wasRejected));
  });
}

/** Whether other first pages were refused, so that those of the run may be error documents. */
function wasRefusedAtFirst(observations: Observations, name: string, run: ActiveRun): boolean {
  const wasRefused = progressOf(observations, run)?.failures.some(({ error }) => error === 'ContractError') === true;
  const chains = chainsOf(observations, run.run).map((chain) => entriesOfChain(observations, name, run.run, chain));
  return wasRefused && chains.every(({ length }) => length <= 1);
}

function checkCompletedRun(
  observations: Observations,
  { manifests, summaries, completions, latestSequences }: Seen,
  { name, scenario, service, reportsExpectedUntil }: ObservedExport,
  state: StateItem,
  previous: StateItem | undefined,
): void {
  const completed = state.lastCompleted?.result;
  if (completed === undefined || completed.run === previous?.lastCompleted?.result.run) return;
  const { world, prefix } = observations;
  const reports = countReports(observations, { name, service }, completed.run);
  if (reports < minReportsOf(scenario) && world.time.now() < reportsExpectedUntil) {
    const details = `${name}: ${completed.run} with ${reports} instead of ${minReportsOf(scenario)}`;
    world.violate('a run with fewer reports than expected does not complete', details);
  }
  const isPublished = completed.manifest !== null;
  const execution = state.lastCompleted?.execution ?? '';
  completions.push({ stateName: name, run: completed.run, execution, at: world.time.now(), isPublished });
  if (!isPublished) {
    const key = `${prefix}${name}/date=`;
    if ([...manifests].some(([each, { run }]) => each.startsWith(key) && run === completed.run)) {
      world.violate('a completed run has a manifest', `${name}: ${completed.run} is completed as if it had none`);
    }
    const isChanged = world.injectedFaults.some(({ kind }) => kind === 'settings-changed' || kind === 'deployment');
    if (scenario.settings.publishEmptyRuns && !isChanged) {
      world.violate('a completed run has a manifest', `${name}: ${completed.run}, although publishEmptyRuns is true`);
    }
    checkEmptyRun(observations, { name, service }, completed.run);
    return;
  }
  const manifest = manifests.get(prefix + completed.manifest);
  if (manifest === undefined) {
    world.violate('a completed run has a manifest', `${name}: ${completed.run}`);
    return;
  }
  const summary = summaries.get(summaryKeyBeside(prefix + completed.manifest));
  const watermark = state.watermark?.instant ?? null;
  if (summary === undefined || summary.watermark !== watermark || completed.watermark !== watermark) {
    world.violate('a completed run is listed with its watermark', `${name}: ${completed.run}`);
  }
  // Another deployment with the same prefix may have replaced it since.
  const isWritten = (latestSequences.get(name) ?? 0) >= manifest.sequence;
  if (!isWritten && !isForeignPointer(observations, name, manifest.sequence, state)) {
    world.violate('latest.json points to the newest completed run', `${name}: ${completed.run}`);
  }
}

/**
 * Whether `latest.json` has had a higher sequence of another deployment, which one of this export has reached: it
 * cannot be distinguished from one of our own. The other deployment may have replaced it since.
 */
const isForeignPointer = ({ s3, prefix }: Observations, name: string, own: number, state: StateItem): boolean =>
  s3()
    .versions(`${prefix}${name}/latest.json`)
    .map(({ body }) => (JSON.parse(body.toString()) as { readonly sequence: number }).sequence)
    .some((sequence) => sequence > own && sequence <= state.sequence);

const minReportsOf = ({ settings }: ObservedExport['scenario']): number => settings.expect?.minReports ?? 0;

/** In the pages of its log, as they were served. */
const countReports = (
  observations: Observations,
  { name, service }: Pick<ObservedExport, 'name' | 'service'>,
  run: string,
): number =>
  entriesOf(observations, name, run).reduce(
    (sum, entry) => sum + (findServedPage(service, entry)?.reports.length ?? 0),
    0,
  );

/** A completed run that is not published, so that its pages are never read. */
function checkEmptyRun(
  observations: Observations,
  { name, service }: Pick<ObservedExport, 'name' | 'service'>,
  run: string,
): void {
  const entries = entriesOf(observations, name, run);
  const isEmpty = entries.every((entry) => findServedPage(service, entry)?.reports.length === 0);
  if (!isWhole(observations, name, run) || !isEmpty) {
    observations.world.violate('a completed run without a manifest has no reports', `${name}: ${run}`);
  }
  if (
    entries.some(
      (entry) => !isStored(observations, entry) && !isChangedTooLate(observations, observations.prefix + entry.key),
    )
  ) {
    observations.world.violate('a run completes only while its pages are stored', `${name}: ${run}`);
  }
}

function checkWatermark(
  observations: Observations,
  seen: Seen,
  observed: ObservedExport,
  state: StateItem,
  previous: StateItem | undefined,
): void {
  const { publishedReports, lowerBounds } = seen;
  const { world } = observations;
  const { name, timeline, scenario } = observed;
  const watermark = state.watermark?.instant;
  const before = previous?.watermark?.instant;
  if (watermark === before) return;
  if (watermark === undefined || (before !== undefined && Date.parse(watermark) < Date.parse(before))) {
    world.violate('the watermark never moves back', `${name}: from ${before} to ${watermark}`);
    return;
  }
  if (previous?.active === undefined || state.active !== undefined) {
    world.violate('the watermark moves only when a run completes', `${name}: to ${watermark}`);
    return;
  }
  const { lagMs } = previous.active;
  const { since } = scenario.settings;
  const initial = ('initial' in since ? since.initial : undefined) ?? previous.active.since;
  // A first run may begin before `since.initial`, and end before it.
  // But a parent that comes later begins at `since.initial`.
  const first = hasCoverage(observed, {}) ? initial : previous.active.since;
  const lowerBound = lowerBounds.get(name) ?? Math.min(Date.parse(initial), Date.parse(first));
  lowerBounds.set(name, lowerBound);
  const published = publishedReports.get(name) ?? new Set();
  const missed = timeline.reports.filter((report) => {
    // A parent that has no pages in this run begins where an earlier run has left it.
    const until = exportedUntil(seen, observed, report.parent, Date.parse(watermark));
    return (
      report.date >= lowerBound &&
      report.date < until &&
      report.visibleAt <= until + lagMs &&
      !report.isRedated &&
      report.goneAt === undefined &&
      !published.has(report)
    );
  });
  if (missed.length > 0) {
    world.violate(
      'the watermark never passes a report that is not exported',
      `${name}: ${watermark} passes ${missed.map(({ id, parent = '' }) => `${id} ${parent}`).join(', ')}`,
    );
  }
  checkRequestedUpTo(observations, observed, previous.active, Date.parse(watermark));
}

/**
 * Everything from the run's `since` to the watermark was requested, without a gap, and each part after it had been
 * dated for as long as the lag.
 */
function checkRequestedUpTo(
  observations: Observations,
  observed: ObservedExport,
  run: ActiveRun,
  watermark: number,
): void {
  const { name, service } = observed;
  const violate = (details: string) =>
    observations.world.violate('the watermark passes nothing that was not requested', `${name}: ${run.run} ${details}`);
  const chains = chainsOf(observations, run.run);
  let end = Date.parse(run.since);
  for (const [index, bounds] of cutsOf(run).entries()) {
    if (bounds.since > end) violate(`has a gap before slice ${index + 1}`);
    const requested = requestedBounds(bounds, run, observed);
    end = requested.until;
    const [first] = entriesOfChain(observations, name, run.run, chains[index] ?? {});
    // Pages without reports are all the same. Of counted pages, two passes have the reports: the earlier one counts.
    const isFirst = (page: ServedPage): boolean =>
      service.counts
        ? first !== undefined && page.run === run.run && page.parent === first.parent && page.since < page.until
        : page.sha256 === first?.sha256;
    const pages = service.servedPages(null).filter((page) => isFirst(page) && page.until === requested.until);
    const times = pages.map((page) => page.asOf).toSorted((one, other) => one - other);
    const asOf = times.at(service.counts ? -2 : -1);
    if (bounds.since < watermark && asOf !== undefined && asOf < watermark + run.lagMs) {
      violate(`has requested slice ${index + 1} at ${new Date(asOf).toISOString()}`);
    }
  }
  // A run whose plan has no parents requests nothing.
  if (run.slices?.count === 0) return;
  // A run from an instant that is a little in the future ends before it begins. Nothing before its `since` is wanted.
  if (Math.max(end, Date.parse(run.since)) < watermark) violate(`ends at ${new Date(end).toISOString()}`);
}

/** A completed bounded run has a manifest and `bounded.json`, and nothing from which scheduled runs continue. */
function checkBoundedRun(
  observations: Observations,
  { manifests, summaries, completions }: Seen,
  observed: ObservedExport,
  stateName: string,
  state: StateItem,
  previous: StateItem | undefined,
): void {
  const { world, prefix } = observations;
  const completed = state.lastCompleted?.result;
  const violate = (details: string) =>
    world.violate('a bounded run changes nothing of its export', `${stateName}: ${details}`);
  if (state.watermark !== undefined || (completed?.watermark ?? null) !== null) violate('it has a watermark');
  if (completed === undefined || completed.run === previous?.lastCompleted?.result.run) return;
  const isPublished = completed.manifest !== null;
  const execution = state.lastCompleted?.execution ?? '';
  completions.push({ stateName, run: completed.run, execution, at: world.time.now(), isPublished });
  if (!isPublished) {
    checkEmptyRun(observations, observed, completed.run);
    return;
  }
  const key = prefix + completed.manifest;
  if (manifests.get(key)?.run !== completed.run || !summaries.has(key.replace(/manifest\.json$/, 'bounded.json'))) {
    world.violate('a completed run has a manifest', `${stateName}: ${completed.run}`);
  }
}
