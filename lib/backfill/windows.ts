/**
 * The windows of a backfill: half-open intervals of report dates, `[since, until)`, that touch but never overlap. They are cut in
 * milliseconds since the epoch, so time zones, daylight saving time and leap days do not matter.
 */

import type { Instant } from '../core/model.ts';
import { epochMsOf, instantOf, instantSchema } from '../core/timestamps.ts';
import type { Backfill } from './store.ts';

/** The reports of a half-open interval: dated at or after `since`, and before `until`. */
export interface Window {
  readonly since: Instant;
  readonly until: Instant;
}

/**
 * The name of the state of a window: `nightly/2020-01-01T00:00:00Z/2020-01-08T00:00:00Z`. The name of an export has no slash.
 * A start input names a window like this, too.
 */
export const windowName = (exportName: string, window: Window): string => `${exportName}/${windowBounds(window)}`;

/** The bounds of a window, as its name has them: `2020-01-01T00:00:00Z/2020-01-08T00:00:00Z`. */
export const windowBounds = ({ since, until }: Window): string => `${since}/${until}`;

/** The name of the state that `run` belongs to. */
export const stateNameOfRun = (run: {
  readonly export: string;
  readonly since?: Instant | null | undefined;
  readonly until?: Instant | null | undefined;
}): string => (run.since && run.until ? windowName(run.export, { since: run.since, until: run.until }) : run.export);

/** What all names of windows of the export begin with, and no other name. */
export const windowsPrefix = (exportName: string): string => `${exportName}/`;

/** The export and the window that `name` names; undefined if it is not exactly a `windowName`. */
export function parseWindowName(name: string): { readonly export: string; readonly window: Window } | undefined {
  const [exportName = '', ...bounds] = name.split('/');
  const [since, until] = bounds.map((bound) => instantSchema.safeParse(bound).data);
  if (since === undefined || until === undefined || epochMsOf(since) >= epochMsOf(until)) return undefined;
  const window = { since, until };
  // Each window has one name: another spelling would be another state.
  return windowName(exportName, window) === name ? { export: exportName, window } : undefined;
}

type Bounds = Pick<Backfill, 'from' | 'to' | 'windowMs'>;

/** The windows of a backfill, the oldest first. */
export function* windowsOf({ from, to, windowMs }: Bounds): Generator<Window> {
  const end = epochMsOf(to);
  for (let since = epochMsOf(from); since < end; since += windowMs) {
    yield { since: instantOf(since), until: instantOf(Math.min(since + windowMs, end)) };
  }
}

/** The number of `windowsOf`. */
export const countWindows = ({ from, to, windowMs }: Bounds): number =>
  Math.max(0, Math.ceil((epochMsOf(to) - epochMsOf(from)) / windowMs));
