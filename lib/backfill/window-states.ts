/** The states of the windows of a backfill, and which of them are done. */

import type { ExportState } from '../core/model.ts';
import type { Backfill, BackfillStore } from './store.ts';
import { type Window, windowName, windowsOf } from './windows.ts';

export type WindowStates = ReadonlyMap<string, ExportState>;

/** The states of the windows that were planned, by name. */
export async function readWindowStates(
  backfills: Pick<BackfillStore, 'windowStates'>,
  exportName: string,
): Promise<Map<string, ExportState>> {
  const states = new Map<string, ExportState>();
  for await (const state of backfills.windowStates(exportName)) states.set(state.export, state);
  return states;
}

/** A window that is exported again, with `restart`, is done once that run is completed, too. */
export function isDone(states: WindowStates, exportName: string, window: Window): boolean {
  const { active, lastCompleted } = states.get(windowName(exportName, window)) ?? {};
  return lastCompleted !== undefined && active === undefined;
}

/** The windows of the backfill that no run has exported yet, the oldest first. */
export async function remainingWindows(
  backfills: Pick<BackfillStore, 'windowStates'>,
  backfill: Backfill,
): Promise<readonly Window[]> {
  const states = await readWindowStates(backfills, backfill.export);
  return [...windowsOf(backfill)].filter((window) => !isDone(states, backfill.export, window));
}

export interface BackfillProgress {
  /** How many windows are done, also by earlier starts. */
  readonly done: number;
  readonly windows: number;
  /** Of the windows that are done. */
  readonly pages: number;
}

export const progressOf = (backfill: Backfill, states: WindowStates): BackfillProgress => {
  const windows = [...windowsOf(backfill)];
  const done = windows
    .filter((window) => isDone(states, backfill.export, window))
    .flatMap((window) => states.get(windowName(backfill.export, window))?.lastCompleted ?? []);
  const pages = done.reduce((sum, { result }) => sum + result.pages, 0);
  return { windows: windows.length, done: done.length, pages };
};
