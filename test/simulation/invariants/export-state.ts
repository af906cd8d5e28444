/** Checks each export state before it is stored: its version, who may replace the active run, and the watermark. */

import {
  type ActiveRun,
  entriesOf,
  keyOfPage,
  findServedPage,
  isChangedTooLate,
  isStored,
  type Observations,
  type ObservedExport,
  type Seen,
  type StateItem,
  summaryKeyBeside,
} from './observations.ts';

export function checkExportState(
  observations: Observations,
  seen: Seen,
  observed: ObservedExport,
  state: StateItem,
  previous: StateItem | undefined,
): void {
  const { world } = observations;
  const { name } = observed;
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
  if (previous?.active !== undefined) checkActiveRun(observations, seen, observed, previous.active, state);
  checkCompletedRun(observations, seen, observed, state, previous);
  checkWatermark(observations, seen, observed, state, previous);
}

/** The status that DescribeExecution returns may be this old. */
const descriptionLagMs = 5_000;

/**
 * An execution has one run, however late its invocations act. Once it has ended, it begins none with `restart` or `since` unless it
 * could not know, because it read the state before its end. `label`: the export and the sort key.
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

/** An active run keeps its execution and its place in the state, unless one of the few reasons to replace it applies. */
function checkActiveRun(
  observations: Observations,
  { firstPagesAt, pagesStoredAt, requestMarks }: Seen,
  { name, scenario, service, requestMark }: ObservedExport,
  previous: ActiveRun,
  state: StateItem,
): void {
  const { world, writer, findExecution, prefix, s3 } = observations;
  const { step, payload, id, startedAt } = writer();
  const input = (payload.input ?? {}) as { restart?: boolean; since?: string; continues?: string; Error?: string };
  const { active } = state;
  if (step === 'FailRun' && previous.execution !== payload.execution) {
    world.violate('an export has one active run', `${name}: ${id} changes run ${previous.run} of another execution`);
  }
  if (active?.run === previous.run) {
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
  // A start with another `since` or request may abandon a run without pages. Pages may be logged after it has looked.
  const isContradicted =
    (input.since !== undefined && input.since !== previous.since) || requestMark(id) !== requestMarks.get(previous.run);
  const hasNoPages = last === undefined || (isContradicted && (firstPagesAt.get(previous.run) ?? 0) >= startedAt);
  const reports = countReports(observations, { name, service }, previous.run);
  const isTooSmall = last?.nextCursor === null && reports < minReportsOf(scenario) && previous.completion === undefined;
  const canNeverComplete = last?.repeats === true || isTooSmall;
  const isRestarted = step === 'BeginRun' && isOtherExecution && (restartRequested || hasNoPages || canNeverComplete);
  const isRestartedForCursor =
    step === 'ExportPage' &&
    active?.cursorRestarts === previous.cursorRestarts + 1 &&
    active.cursorRestarts <= scenario.settings.maxCursorRestarts &&
    active.since === previous.since;
  const cannotResume =
    step === 'FailRun' &&
    active === undefined &&
    (input.Error === 'CursorRejectedError' || input.Error === 'RepeatedCursorError' || canNeverComplete);
  if (isRestartedForCursor && last !== undefined) {
    const nextKey = prefix + keyOfPage(last.key, last.page + 1);
    const next = s3().objects.get(nextKey);
    // A stored page that names its next cursor only by its hash cannot be adopted after a refusal.
    const canBeAdopted = next !== undefined && next.metadata['next-cursor-sha256'] === undefined;
    const isFound = canBeAdopted && (pagesStoredAt.get(nextKey) ?? Number.POSITIVE_INFINITY) < startedAt;
    const isDisturbed = world.injectedFaults.some(({ site }) => site.startsWith(`${id}/`) && !/fetch/.test(site));
    if (isFound && !isDisturbed) {
      world.violate('a run does not start over while its next page is stored', `${name}: ${nextKey}`);
    }
  }
  if (isCompleted || isRestarted || isRestartedForCursor || cannotResume) return;
  world.violate(
    'an export has one active run',
    `${name}: ${step} ${id} replaced ${previous.run} by ${active?.run ?? 'no run'}`,
  );
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
  completions.push({ exportName: name, run: completed.run, execution, at: world.time.now(), isPublished });
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
 * Whether `latest.json` has a higher sequence of another deployment, which one of this export has reached: it cannot be distinguished
 * from one of our own.
 */
function isForeignPointer({ s3, prefix }: Observations, name: string, own: number, state: StateItem): boolean {
  const pointer = s3().objects.get(`${prefix}${name}/latest.json`);
  if (pointer === undefined) return false;
  const { sequence } = JSON.parse(pointer.body.toString()) as { readonly sequence: number };
  return sequence > own && sequence <= state.sequence;
}

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
export function checkEmptyRun(
  observations: Observations,
  { name, service }: Pick<ObservedExport, 'name' | 'service'>,
  run: string,
): void {
  const entries = entriesOf(observations, name, run);
  const isWhole = entries.at(-1)?.nextCursor === null;
  const isEmpty = entries.every((entry) => findServedPage(service, entry)?.reports.length === 0);
  if (!isWhole || !isEmpty) {
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
  { world }: Observations,
  { publishedReports, lowerBounds }: Seen,
  { name, timeline, scenario }: ObservedExport,
  state: StateItem,
  previous: StateItem | undefined,
): void {
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
  const { initial = previous.active.since } = scenario.settings.since;
  const lowerBound = lowerBounds.get(name) ?? Date.parse(initial);
  lowerBounds.set(name, lowerBound);
  const published = publishedReports.get(name) ?? new Set();
  const missed = timeline.reports.filter(
    (report) =>
      report.date >= lowerBound &&
      report.date < Date.parse(watermark) &&
      report.visibleAt <= Date.parse(watermark) &&
      report.goneAt === undefined &&
      !published.has(report),
  );
  if (missed.length > 0) {
    world.violate(
      'the watermark never passes a report that is not exported',
      `${name}: ${watermark} passes ${missed.map(({ id }) => id).join(', ')}`,
    );
  }
}
