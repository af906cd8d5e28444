/**
 * The windows that one execution of the state machine of backfills exports at the same time: its input
 * (`../state-machine/backfill-definition.ts`).
 */

import { ExportError } from '../errors.ts';
import type { Backfill, Window } from '../model.ts';
import type { PageLog, RunHistory } from '../ports.ts';
import { windowBounds, windowName } from '../windows.ts';
import { maxWindows, remainingWindows } from './backfill.ts';

export interface BackfillRound {
  readonly export: string;
  /** How many windows are exported at the same time. */
  readonly parallel: number;
  /** Without the name of the export, so that 4,000 of them take at most 208 kB of the 256 KiB that an input may have. */
  readonly windows: readonly string[];
}

/** The windows that no run has exported yet, or the oldest 4,000 of them, and how many there are in all. */
export async function firstRound(
  log: Pick<RunHistory, 'windowStates'>,
  backfill: Backfill,
): Promise<{ readonly round: BackfillRound; readonly left: number }> {
  const windows = await remainingWindows(log, backfill);
  return { round: roundOf(backfill, windows), left: windows.length };
}

/**
 * The windows that have not begun: after a round, the parts of windows that were split in it. None, if the backfill was abandoned.
 * @throws ConfigurationError if the export has no backfill
 */
export async function nextRound(
  log: Pick<PageLog, 'backfill'> & Pick<RunHistory, 'windowStates'>,
  exportName: string,
): Promise<BackfillRound> {
  const backfill = await log.backfill(exportName);
  if (backfill === undefined) throw new ExportError('ConfigurationError', `Export ${exportName} has no backfill`);
  if (backfill.abandonedAt !== undefined) return roundOf(backfill, []);
  const begun = new Set<string>();
  for await (const { export: name, active, lastCompleted, lastAbandoned } of log.windowStates(exportName)) {
    if ((active ?? lastCompleted ?? lastAbandoned) !== undefined) begun.add(name);
  }
  const windows = await remainingWindows(log, backfill);
  return roundOf(
    backfill,
    windows.filter((window) => !begun.has(windowName(exportName, window))),
  );
}

const roundOf = ({ export: exportName, parallel }: Backfill, windows: readonly Window[]): BackfillRound => ({
  export: exportName,
  parallel,
  windows: windows.slice(0, maxWindows).map(windowBounds),
});
