/**
 * Begins and continues a backfill: the history of an export, cut into windows that are exported independently of each other, in any order
 * and several at a time. Each window is an export with bounds of its own, published as soon as it is whole (docs/backfill.md).
 */

import { mapConcurrently } from '../core/concurrency.ts';
import { ExportError } from '../core/errors.ts';
import { type DocumentRoot, emptyState, type ExportState } from '../core/model.ts';
import type { PageLog } from '../core/ports.ts';
import { type StateChange, updateState } from '../core/steps/export-state.ts';
import { epochMsOf, instantOf } from '../core/timestamps.ts';
import { abandonWindows, type BackfillDependencies, writeConcurrency } from './abandon.ts';
import { findLostWindows, type LostWindowsDependencies } from './lost-windows.ts';
import type { BackfillRequest } from './request.ts';
import type { Backfill } from './store.ts';
import { windowRequestChecksum } from './window-definition.ts';
import { isDone, readWindowStates, type WindowStates } from './window-states.ts';
import { parseWindowName, type Window, windowName, windowsOf } from './windows.ts';

interface NewBackfill extends BackfillDependencies, LostWindowsDependencies {}

/**
 * Records a backfill and plans its windows, or continues the one with these bounds. What its windows have exported already is not
 * exported again, also if only the store still knows. `root` is that of the service's responses, if they have one.
 *
 * The backfill is recorded first. So if this ends half-way, the same request plans the windows that are left, and `abandonBackfill`
 * knows all of them.
 * @throws ConfigurationError if another backfill is unfinished, or has exported a part of these windows, or these with another request;
 *   or if this one is abandoned meanwhile. PageConflictError if what says so in the store was changed
 */
export async function beginBackfill(
  deps: NewBackfill,
  request: BackfillRequest,
  root: DocumentRoot | undefined,
): Promise<Backfill> {
  const { log, backfills, definition } = deps;
  for (;;) {
    const previous = await backfills.read(definition.name);
    // The command that abandoned it may have ended half-way.
    if (previous?.abandonedAt !== undefined) await abandonWindows(deps, previous);
    const states = await readWindowStates(backfills, definition.name);
    const lost = await findLostWindows(deps, states);
    for (const state of lost) states.set(state.export, state);
    const next = nextBackfill(deps, request, previous, states);
    // First, so that no window of the backfill is exported again.
    const written = await mapConcurrently(lost, writeConcurrency, (state) => log.replaceState(state));
    if (!written.every(Boolean) || !(await backfills.replace(next))) continue;
    await planWindows(log, next, states, root);
    return next;
  }
}

/** Writes the plan to the states of the windows that do not have it. They take from the export what their runs need of it. */
async function planWindows(
  log: PageLog,
  backfill: Backfill,
  states: WindowStates,
  root: DocumentRoot | undefined,
): Promise<void> {
  const { export: exportName, plan: id, requestChecksum } = backfill;
  const ofExport = await recordRoot(log, exportName, root);
  const windows = [...windowsOf(backfill)].map((window) => ({ window, name: windowName(exportName, window) }));
  await mapConcurrently(windows, writeConcurrency, async ({ window, name }) => {
    const decide = (state: ExportState): StateChange<void> => {
      const { plan } = state;
      if (plan !== undefined && (plan.id > id || (plan.id === id && plan.abandonedAt !== undefined))) {
        throw new ExportError(
          'ConfigurationError',
          `The backfill of export ${exportName} was abandoned while it was started. Start it again to continue it`,
        );
      }
      assertSameRequest(exportName, window, state, requestChecksum);
      const documentRoot = ofExport.documentRoot ?? state.documentRoot;
      const isPlanned = plan?.id === id && plan.requestChecksum === requestChecksum;
      if (isPlanned && state.documentRoot === documentRoot) return { result: undefined };
      const sequence = Math.max(state.sequence, ofExport.sequence);
      const change = { ...state, sequence, documentRoot, plan: { id, requestChecksum } };
      return { change, result: undefined };
    };
    await updateState(log, name, decide, states.get(name) ?? emptyState(name));
  });
}

/** The state of the export, which has the root of its windows, so that its first run is compared with them. */
async function recordRoot(log: PageLog, exportName: string, root: DocumentRoot | undefined): Promise<ExportState> {
  return await updateState(log, exportName, (state) => {
    if (root === undefined || state.documentRoot !== undefined) return { result: state };
    const change = { ...state, documentRoot: root };
    return { change, result: change };
  });
}

export interface PlannedWindow extends Window {
  readonly done: boolean;
}

/** The windows that `beginBackfill` would begin with, the oldest first. Only reads. @throws as `beginBackfill` */
export async function planBackfill(deps: NewBackfill, request: BackfillRequest): Promise<readonly PlannedWindow[]> {
  const { backfills, definition } = deps;
  const previous = await backfills.read(definition.name);
  const states = await readWindowStates(backfills, definition.name);
  if (previous?.abandonedAt !== undefined) {
    // A start abandons these windows.
    for (const [name, { active, plan, ...idle }] of states) {
      const abandoned = plan && { ...plan, abandonedAt: previous.abandonedAt };
      if (active?.completion === undefined) states.set(name, { ...idle, plan: abandoned });
    }
  }
  for (const state of await findLostWindows(deps, states)) states.set(state.export, state);
  const next = nextBackfill(deps, request, previous, states);
  return [...windowsOf(next)].map((window) => ({ ...window, done: isDone(states, next.export, window) }));
}

/** @throws ConfigurationError if `previous` is unfinished, or has exported a part of the windows, or them with another request */
function nextBackfill(
  { runtime, definition, untilOperator }: NewBackfill,
  request: BackfillRequest,
  previous: Backfill | undefined,
  states: WindowStates,
): Backfill {
  const isContinued = previous !== undefined && previous.abandonedAt === undefined && hasSameWindows(previous, request);
  if (previous !== undefined && !isContinued) assertReplaceable(previous, states);
  // Of the states, too: someone may have deleted the record of the backfill.
  const newest = [...states.values()].reduce((id, { plan }) => Math.max(id, plan?.id ?? 0), previous?.plan ?? 0);
  const next: Backfill = {
    export: definition.name,
    version: (previous?.version ?? 0) + 1,
    plan: isContinued && previous.plan === newest ? newest : newest + 1,
    ...request,
    requestChecksum: windowRequestChecksum(definition, untilOperator),
    startedAt: isContinued ? previous.startedAt : instantOf(runtime.now()),
  };
  assertNoOverlap(next, states);
  return next;
}

type Bounds = Pick<BackfillRequest, 'from' | 'to' | 'windowMs'>;

/**
 * Must hold of a request while something else exports the windows of the newest backfill.
 * @throws ConfigurationError if that has other windows
 */
export function assertSameBackfill(running: Backfill | undefined, request: BackfillRequest): void {
  if (running === undefined || hasSameWindows(running, request)) return;
  const { export: exportName, from, to } = running;
  throw new ExportError(
    'ConfigurationError',
    `The windows of the backfill of export ${exportName} from ${from} to ${to} are being exported. Wait for its end, or abandon it ` +
      '(abandon --backfill)',
  );
}

const hasSameWindows = (one: Bounds, other: Bounds): boolean =>
  one.from === other.from && one.to === other.to && one.windowMs === other.windowMs;

function assertReplaceable(backfill: Backfill, states: WindowStates): void {
  if (backfill.abandonedAt !== undefined) return;
  const { export: exportName, from, to } = backfill;
  const left = [...windowsOf(backfill)].filter((window) => !isDone(states, exportName, window)).length;
  if (left === 0) return;
  throw new ExportError(
    'ConfigurationError',
    `The backfill of export ${exportName} from ${from} to ${to} is unfinished: ${left.toLocaleString('en')} of its windows are left. ` +
      'Continue it with the same --from, --to and --window, or abandon it first (abandon --backfill)',
  );
}

/** A report must not be in two windows: consumers of the windows would see it twice. Nor may windows of one backfill have several requests. */
function assertNoOverlap(backfill: Backfill, states: WindowStates): void {
  const { export: exportName, from, to, requestChecksum } = backfill;
  const windows = new Set([...windowsOf(backfill)].map((window) => windowName(exportName, window)));
  const overlapping: Window[] = [];
  for (const [name, state] of states) {
    const window = parseWindowName(name)?.window;
    if (window === undefined) continue;
    const isOutside = epochMsOf(window.until) <= epochMsOf(from) || epochMsOf(window.since) >= epochMsOf(to);
    if (isOutside) continue;
    if (windows.has(name)) assertSameRequest(exportName, window, state, requestChecksum);
    // A window that is left of another backfill could still begin, if someone has deleted the record of that.
    else if (hasBegun(state) || state.plan?.abandonedAt === undefined) overlapping.push(window);
  }
  const [first] = overlapping;
  if (first === undefined) return;
  const end = overlapping.reduce((latest, { until }) => (epochMsOf(until) > epochMsOf(latest) ? until : latest), from);
  throw new ExportError(
    'ConfigurationError',
    `An earlier backfill of export ${exportName} has begun to export ${first.since} to ${first.until}, which is none of these ` +
      'windows. Its reports would be exported twice. Use the same --from, --to and --window as before' +
      (epochMsOf(end) < epochMsOf(to) ? `, or --from ${end} for what follows` : ', or choose other bounds'),
  );
}

const hasBegun = ({ active, lastCompleted }: ExportState): boolean =>
  active !== undefined || lastCompleted !== undefined;

/** @throws ConfigurationError if the window has begun with another request */
function assertSameRequest(
  exportName: string,
  { since, until }: Window,
  state: ExportState,
  requestChecksum: string,
): void {
  if (!hasBegun(state) || state.plan?.requestChecksum === requestChecksum) return;
  const isExported = state.lastCompleted !== undefined;
  const remedy = isExported
    ? 'Restore the settings to export the rest; or give the export another name in the settings, to export the period again'
    : 'Restore the settings, or abandon the backfill first (abandon --backfill)';
  throw new ExportError(
    'ConfigurationError',
    `A backfill of export ${exportName} has ${isExported ? 'exported' : 'begun to export'} ${since} to ${until} with another service, filter ` +
      `or format. ${remedy}`,
  );
}
