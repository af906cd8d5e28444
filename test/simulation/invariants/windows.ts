/** Checks the windows of backfills: their states, what they publish, and what they request. */

import { isDeepStrictEqual } from 'node:util';
import { unmarshall } from '@aws-sdk/util-dynamodb';
import type { Backfill } from '../../../lib/backfill/store.ts';
import type { Item } from '../world/dynamodb.ts';
import type { Process } from '../world/process.ts';
import type { ServiceRequest } from '../world/report-service.ts';
import type { World } from '../world/world.ts';
import { checkEmptyRun } from './export-state.ts';
import {
  type ActiveRun,
  type BackfillItem,
  backfillOf,
  entriesOf,
  type Observations,
  type ObservedExport,
  parseBounds,
  partitionOf,
  type Seen,
  type StateItem,
  windowIn,
  windowKey,
  type WindowBounds,
  type WindowManifest,
} from './observations.ts';

const nameOf = (exportName: string, { since, until }: WindowBounds): string =>
  `${exportName} from ${new Date(since).toISOString()} to ${new Date(until).toISOString()}`;

/** Checks the active run of an export state, or of a window, before it is stored. */
export function checkRunId(
  { world }: Observations,
  { runs }: Seen,
  name: string,
  sortKey: string,
  { active }: StateItem,
): void {
  if (active === undefined) return;
  const key = `${name} ${active.run}`;
  const other = runs.get(key) ?? sortKey;
  runs.set(key, other);
  if (other !== sortKey) {
    world.violate('no two runs of an export have the same ID', `${key}: ${other} and ${sortKey}`);
  }
}

export function checkBackfillItem(
  { world, abandonments }: Observations,
  name: string,
  { version, abandonedAt }: BackfillItem,
  existing: Item | undefined,
): void {
  const previous = existing && (unmarshall({ ...existing }) as BackfillItem);
  if (version !== (previous?.version ?? 0) + 1) {
    world.violate('export state replaces the version that was read', `backfill of ${name}: version ${version}`);
  }
  if (abandonedAt === undefined) abandonments.delete(name);
}

export function checkWindowState(
  observations: Observations,
  seen: Seen,
  { name, service }: ObservedExport,
  window: WindowBounds,
  state: StateItem,
  previous: StateItem | undefined,
): void {
  const { world, prefix } = observations;
  const label = nameOf(name, window);
  if (state.version !== (previous?.version ?? 0) + 1) {
    world.violate('export state replaces the version that was read', `${label}: version ${state.version}`);
  }
  const begins = state.active !== undefined && state.active.run !== previous?.active?.run;
  if (begins && (state.sequence <= (previous?.sequence ?? 0) || state.active?.sequence !== state.sequence)) {
    world.violate('sequence numbers of runs increase', `${label}: run ${state.active?.run}`);
  }
  checkPlan(observations, label, state, previous);
  if (begins && (previous?.plan === undefined || previous.plan.abandonedAt !== undefined)) {
    world.violate('no run of a window begins after its backfill was abandoned', `${label}: run ${state.active?.run}`);
  }
  if (state.watermark !== undefined) {
    world.violate('a window leaves the runs of its export as they are', `${label} has a watermark`);
  }
  if (previous?.active !== undefined && previous.active.run !== state.active?.run) {
    checkReplacedRun(observations, seen, { name, label }, previous.active, state);
  }
  const { restart } = (observations.writer().payload.input ?? {}) as { readonly restart?: boolean };
  // Also if the run before has completed since the operator decided.
  if (begins && restart === true) seen.restartedWindows.add(windowKey(name, window));
  const result = state.lastCompleted?.result;
  if (result === undefined || result.run === previous?.lastCompleted?.result.run) return;
  if (result.watermark !== null) {
    world.violate('a window leaves the runs of its export as they are', `${label}: the result has a watermark`);
  }
  const published = (seen.windows.get(name) ?? []).find(({ run }) => run === result.run);
  const isOwn = published?.since === window.since && published.until === window.until;
  if (result.manifest === null && published === undefined) checkEmptyRun(observations, { name, service }, result.run);
  else if (!isOwn || result.manifest === null || !seen.manifests.has(prefix + result.manifest)) {
    world.violate('a completed run has a manifest', `${label}: ${result.run}`);
  }
}

/** An abandoned plan stays abandoned, until a later one replaces it. What has begun keeps its request. */
function checkPlan(
  { world, writer }: Observations,
  label: string,
  { plan }: StateItem,
  previous: StateItem | undefined,
): void {
  const violate = (details: string) =>
    world.violate(
      'only an operator changes the plan of a window, and never to an earlier one',
      `${label}: ${details} by ${writer().id}`,
    );
  if (plan === undefined) return violate('none');
  const before = previous?.plan;
  if (isDeepStrictEqual(plan, before)) return;
  if (writer().step !== 'Operator') violate('changed');
  if (before === undefined) return;
  const isOpenedAgain = before.abandonedAt !== undefined && plan.abandonedAt === undefined;
  if (plan.id < before.id || (plan.id === before.id && isOpenedAgain)) violate(`${before.id}, then ${plan.id}`);
  const hasBegun = previous?.active !== undefined || previous?.lastCompleted !== undefined;
  if (hasBegun && plan.requestChecksum !== before.requestChecksum) violate('another request');
}

/** A run of a window is replaced for few reasons. One that may be published already is not. */
function checkReplacedRun(
  observations: Observations,
  { manifests }: Seen,
  { name, label }: { readonly name: string; readonly label: string },
  previous: ActiveRun,
  state: StateItem,
): void {
  const { step, payload, id } = observations.writer();
  const input = (payload.input ?? {}) as { readonly restart?: boolean; readonly Error?: string };
  const last = entriesOf(observations, name, previous.run).at(-1);
  const isOwner = previous.execution === payload.execution;
  const { active } = state;
  const isNotPublished = previous.completion === undefined && active === undefined;
  // For how long is measured with clocks that may be wrong: what must not happen is checked when a manifest is written.
  const isPublished = [...manifests.keys()].some((key) => key.includes(`/run=${previous.run}/`));
  const isUnpublishable = previous.lastFailure !== undefined && !isPublished;
  const hasBackfill = backfillOf(observations, name)?.abandonedAt === undefined;
  const reasons = {
    completed: step === 'FinishRun' && isOwner && state.lastCompleted?.result.run === previous.run,
    abandoned: step === 'Operator' && (isNotPublished || (active === undefined && isUnpublishable)),
    restarted: step === 'BeginRun' && !isOwner && (input.restart === true || last === undefined || last.repeats),
    cursorRejected: step === 'ExportPage' && isOwner && active?.cursorRestarts === previous.cursorRestarts + 1,
    cannotResume:
      step === 'FailRun' &&
      isOwner &&
      active === undefined &&
      (/^(CursorRejected|RepeatedCursor)Error$/.test(input.Error ?? '') || last?.repeats === true),
  };
  if (Object.values(reasons).includes(true)) return;
  const how = hasBackfill ? '' : ', after the backfill was abandoned';
  observations.world.violate(
    'an export has one active run',
    `${label}: ${step} ${id} replaced ${previous.run} by ${active?.run ?? 'no run'}${how}`,
  );
}

/** Checks a window before its manifest is stored. */
export function checkPublishedWindow(
  observations: Observations,
  { windows, restartedWindows }: Seen,
  name: string,
  manifest: WindowManifest,
): void {
  const { world, abandonments, writer } = observations;
  const published = windows.get(name) ?? [];
  const label = nameOf(name, manifest);
  // An operator who starts a window over cannot know whether its run is being published.
  const isRestarted = ({ since, until }: WindowBounds) =>
    since === manifest.since && until === manifest.until && restartedWindows.has(windowKey(name, manifest));
  const other = published.find(
    (each) => each.since < manifest.until && each.until > manifest.since && !isRestarted(each),
  );
  if (other !== undefined) {
    world.violate(
      'windows that are published do not overlap',
      `${label}, run ${manifest.run}, and ${nameOf(name, other)}, run ${other.run}`,
    );
  }
  const own = windowIn(findStart(observations, writer()));
  if (own?.since !== manifest.since || own.until !== manifest.until) {
    world.violate('a run requests what its manifest states', `${label}, run ${manifest.run}`);
  }
  const backfill = backfillOf(observations, name);
  const settled = abandonments.get(name);
  const isSettled = backfill?.abandonedAt !== undefined && settled?.version === backfill.version;
  if (backfill === undefined || (isSettled && !settled.mayBePublished.has(windowKey(name, manifest)))) {
    world.violate('no window is published after its backfill was abandoned', `${label}, run ${manifest.run}`);
  }
  windows.set(name, [...published, manifest]);
}

const findStart = ({ findExecution }: Observations, { payload }: Process): unknown =>
  findExecution(payload.execution)?.input;

/**
 * A command has abandoned the backfill and returns: each of its windows is abandoned, or part of a later plan, and from now on only
 * windows are published that have begun to be.
 */
export function settleAbandonment(observations: Observations, name: string, abandoned: Backfill): void {
  const { from, to, windowMs, version } = abandoned;
  for (let since = Date.parse(from); since < Date.parse(to); since += windowMs) {
    const window = { since, until: Math.min(since + windowMs, Date.parse(to)) };
    const bounds = [window.since, window.until].map((moment) => new Date(moment).toISOString().replace('.000Z', 'Z'));
    const item = observations.dynamoDb().item(partitionOf(name), `window#${bounds.join('/')}`);
    const plan = item && (unmarshall({ ...item }) as StateItem).plan;
    if (plan === undefined || plan.id < abandoned.plan || (plan.id === abandoned.plan && !plan.abandonedAt)) {
      observations.world.violate(
        'no run of a window begins after its backfill was abandoned',
        `${nameOf(name, window)} has the plan ${JSON.stringify(plan)}`,
      );
    }
  }
  const states = observations
    .dynamoDb()
    .items(partitionOf(name), 'window#')
    .map((item) => unmarshall({ ...item }) as StateItem & { readonly sk: string });
  const begun = states.filter(
    ({ active, lastCompleted }) => lastCompleted !== undefined || active?.completion !== undefined,
  );
  const windows = begun.map(({ sk }) => parseBounds(sk)).filter((bounds) => bounds !== undefined);
  observations.abandonments.set(name, {
    version,
    mayBePublished: new Set(windows.map((each) => windowKey(name, each))),
  });
}

/** Checks a request before the service responds: the run of a window asks for nothing outside it, and other runs have no upper bound. */
export function checkBounds(world: World, { id, payload, step }: Process, { method, body }: ServiceRequest): void {
  // An API that is requested with GET has no windows here.
  if (step === 'Operator' || method === 'GET') return;
  const { date } = (JSON.parse(body) as { readonly filter: { readonly date: { gte: string; lt?: string } } }).filter;
  const window = windowIn(payload.input);
  const isOwn =
    window === undefined
      ? date.lt === undefined
      : Date.parse(date.gte) === window.since && Date.parse(date.lt ?? '') === window.until;
  if (!isOwn) world.violate('a window requests only its own reports', `${id}: since ${date.gte}, until ${date.lt}`);
}

/** What a backfill must have done in the end. `mustComplete`: an operator has started it when no faults were left. */
export function checkBackfill(
  observations: Observations,
  { name, scenario, timeline, stepFunctions }: ObservedExport,
  windows: readonly WindowManifest[],
): void {
  const { world } = observations;
  const { backfill: plan } = scenario;
  if (plan === undefined || world.violation() !== undefined) return;
  const backfill = backfillOf(observations, name);
  if (plan.upperBounds !== 'honoured') {
    if (backfill !== undefined || windows.length > 0) {
      world.violate('a backfill begins only if the service honors the upper bound', `${name}: ${plan.upperBounds}`);
    }
    return;
  }
  const planned = timeline.reports.filter(
    ({ date, goneAt }) => date >= plan.from && date < plan.to && goneAt === undefined,
  );
  if (backfill === undefined) {
    // The probe sees no difference if the period has no reports, or, in a format without a count, only one.
    const canBeProbed = planned.length > 1;
    if (canBeProbed && !plan.isGivenUp) world.violate('every backfill completes', `${name}: it has never begun`);
    return;
  }
  if (backfill.abandonedAt !== undefined) {
    if (!plan.isGivenUp) world.violate('every backfill completes', `${name}: it is abandoned`);
    return;
  }
  const [from, to] = [Date.parse(backfill.from), Date.parse(backfill.to)];
  const running = stepFunctions.executions.filter(({ input, status }) => status === 'RUNNING' && windowIn(input));
  const states = observations
    .dynamoDb()
    .items(partitionOf(name), 'window#')
    .map((item) => unmarshall({ ...item }) as StateItem & { readonly sk: string });
  // Each moment of the backfill is in one window that is done.
  let end = from;
  for (const { sk, lastCompleted, active } of states.sort((one, other) => startOf(one) - startOf(other))) {
    const bounds = parseBounds(sk);
    if (bounds === undefined || bounds.since < from || bounds.until > to || lastCompleted === undefined) continue;
    if (active !== undefined) world.violate('every backfill completes', `${nameOf(name, bounds)} is not complete`);
    if (bounds.since === end) end = bounds.until;
  }
  if (end !== to || running.length > 0) {
    const left = running.map((execution) => execution.name).join(', ');
    world.violate(
      'every backfill completes',
      `${name}: nothing from ${new Date(end).toISOString()} on; ${left} running`,
    );
  }
  const counts = new Map<string, number>();
  for (const { reports } of windows) for (const { id } of reports) counts.set(id, (counts.get(id) ?? 0) + 1);
  const wrong = timeline.reports.filter(({ id, date, goneAt }) => {
    const count = counts.get(id) ?? 0;
    return count > 1 || (count === 0 && date >= from && date < to && goneAt === undefined);
  });
  if (wrong.length > 0) {
    const details = wrong.map(({ id }) => `${id} ${counts.get(id) ?? 0} times`).join(', ');
    world.violate('a completed backfill has each report once', `${name} has ${details}`);
  }
}

const startOf = ({ sk }: { readonly sk: string }): number => parseBounds(sk)?.since ?? 0;
