/** Exports the windows of a backfill in this process, several at the same time. */

import type { DocumentRoot, ExportDefinition } from '../core/model.ts';
import { assertSameBackfill, beginBackfill } from '../backfill/plan.ts';
import { type BackfillRequest, chooseParallel } from '../backfill/request.ts';
import { progressOf, readWindowStates, remainingWindows } from '../backfill/window-states.ts';
import type { BackfillEnd, BackfillOptions, DeployedService, RunEnd } from '../target/target.ts';
import { probeWindow } from '../backfill/probe-window.ts';
import type { Backfill, BackfillStore } from '../backfill/store.ts';
import { windowDefinition } from '../backfill/window-definition.ts';
import { type Window, windowName } from '../backfill/windows.ts';
import type { PageLog, ReportService, Runtime, StoreReader } from '../core/ports.ts';
import { acquireBackfillLock } from './lock.ts';
import { observeRun } from './run-observer.ts';
import { runLocally } from './run.ts';

interface LocalBackfill {
  readonly name: string;
  readonly definition: ExportDefinition;
  readonly service: DeployedService;
  readonly out: string;
  readonly log: PageLog;
  readonly backfills: BackfillStore;
  readonly store: StoreReader;
  readonly runtime: Runtime;
}

interface OpenBackfill extends LocalBackfill {
  readonly client: ReportService;
  /** How many pages of one window are in flight at most. Undefined: as many as of any run. */
  readonly maxInFlight: number | undefined;
}

/** @throws as `DeployedExport.startBackfill` */
export async function startLocalBackfill(
  backfill: LocalBackfill,
  request: BackfillRequest,
  options: BackfillOptions,
): Promise<BackfillEnd> {
  const { name, definition, service, out, log, backfills, store, runtime } = backfill;
  const lock = acquireBackfillLock(out, name);
  if (lock === undefined) {
    // Unless all its windows are done, the backfill that is recorded is the one whose windows are exported.
    const recorded = await backfills.read(name);
    const isOpen = recorded !== undefined && recorded.abandonedAt === undefined;
    if (isOpen && (await remainingWindows(backfills, recorded)).length > 0) {
      assertSameBackfill(recorded, request);
    }
    return { status: 'skipped', reason: `another process is exporting the windows of ${name} in ${out}` };
  }
  try {
    const maxInFlight = pagesPerWindow(service, request.parallel);
    await using client = await service.connect(options.say);
    const { untilOperator } = service;
    const { from: since, to: until } = request;
    let root: DocumentRoot | undefined;
    try {
      const probe = { definition, service: client, untilOperator, log, runtime };
      root = await probeWindow(probe, { since, until }, options.signal);
    } catch (error) {
      if (options.signal.aborted) return { status: 'interrupted' };
      throw error;
    }
    const begun = await beginBackfill({ log, backfills, store, runtime, definition, untilOperator }, request, root);
    await exportWindows({ ...backfill, client, maxInFlight }, begun, options);
    return { status: options.signal.aborted ? 'interrupted' : 'ended' };
  } finally {
    lock.release();
  }
}

/**
 * How many pages of each window may be in flight, so that all windows together respect `maxConcurrentPages`.
 * @throws ConfigurationError if that is less than one
 */
function pagesPerWindow(service: DeployedService, wanted: number): number | undefined {
  const parallel = chooseParallel(wanted, service);
  return service.maxConcurrentPages && Math.floor(service.maxConcurrentPages / parallel);
}

/**
 * Exports the windows that are left, the oldest first. One that fails does not stop the others,
 * except if it is because of the settings: those would fail, too.
 */
async function exportWindows(backfill: OpenBackfill, begun: Backfill, options: BackfillOptions): Promise<void> {
  const { name, log, backfills } = backfill;
  const pending = [...(await remainingWindows(backfills, begun))];
  let progress = progressOf(begun, await readWindowStates(backfills, name));
  const exporting = new Set<Promise<void>>();
  const errors: unknown[] = [];
  let isOver = false;
  const begin = (window: Window): void => {
    const one: Promise<void> = exportOne(window)
      .catch((error: unknown) => {
        errors.push(error);
        isOver = true;
      })
      .finally(() => exporting.delete(one));
    exporting.add(one);
  };
  const exportOne = async (window: Window): Promise<void> => {
    const end = await exportWindow(backfill, window, options);
    const state = await log.exportState(windowName(name, window));
    if (state?.lastCompleted !== undefined) {
      const pages = progress.pages + state.lastCompleted.result.pages;
      progress = { ...progress, done: progress.done + 1, pages };
    }
    options.onProgress(progress);
    const isAbandoned = state?.plan?.abandonedAt !== undefined;
    isOver ||= isAbandoned || (end.status === 'failed' && end.failed.error === 'ConfigurationError');
  };
  options.onProgress(progress);
  for (;;) {
    const next = isOver || options.signal.aborted || exporting.size === begun.parallel ? undefined : pending.shift();
    if (next !== undefined) begin(next);
    else if (exporting.size > 0) await Promise.race(exporting);
    else break;
  }
  if (errors.length > 0) throw errors[0];
}

async function exportWindow(
  { definition, service: { untilOperator }, client, maxInFlight, out, runtime }: OpenBackfill,
  window: Window,
  { signal, maxAttempts, emit, onRetry }: BackfillOptions,
): Promise<RunEnd> {
  return await runLocally({
    definition: windowDefinition(definition, window, untilOperator),
    service: client,
    out,
    startInput: {},
    runtime,
    signal,
    maxAttempts,
    maxInFlight,
    openObserver: (stateFile) => observeRun(stateFile, { emit, onRetry }, runtime),
  });
}
