/**
 * The windows of a backfill: half-open intervals of report dates, `[since, until)`, that touch but never overlap. They are cut in
 * milliseconds since the epoch, so time zones, daylight saving time and leap days do not matter.
 */

import type { Backfill, ExportDefinition, ExportState, Instant, Window } from './model.ts';
import { epochMsOf, instantOf, instantSchema } from './timestamps.ts';

/**
 * The name of the state of a window: `nightly/2020-01-01T00:00:00Z/2020-01-08T00:00:00Z`. The name of an export has no slash.
 * A start input names a window like this, too.
 */
export const windowName = (exportName: string, window: Window): string => `${exportName}/${windowBounds(window)}`;

/** The bounds of a window, as its name has them: `2020-01-01T00:00:00Z/2020-01-08T00:00:00Z`. */
export const windowBounds = ({ since, until }: Window): string => `${since}/${until}`;

/** The name of the state that the runs of `definition` belong to. */
export const stateNameOf = ({ name, window }: Pick<ExportDefinition, 'name' | 'window'>): string =>
  window === undefined ? name : windowName(name, window);

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

/** The windows of a backfill as it begins, the oldest first. */
export function* firstWindows({ from, to, windowMs }: Bounds): Generator<Window> {
  const end = epochMsOf(to);
  for (let since = epochMsOf(from); since < end; since += windowMs) {
    yield { since: instantOf(since), until: instantOf(Math.min(since + windowMs, end)) };
  }
}

/** The number of `firstWindows`. */
export const countFirstWindows = ({ from, to, windowMs }: Bounds): number =>
  Math.max(0, Math.ceil((epochMsOf(to) - epochMsOf(from)) / windowMs));

/** Whether `window` is one of the windows that a backfill begins with, or that these can be split into. */
export const isWindowOf = (backfill: Bounds, window: Window): boolean => ancestorsOf(backfill, window) !== undefined;

/**
 * The windows of which `window` is a part, the longest first: each must have been split before `window` takes a place among the
 * windows of the backfill. undefined if it can never be one.
 */
export function ancestorsOf(backfill: Bounds, window: Window): readonly Window[] | undefined {
  const [from, since, until] = [backfill.from, window.since, window.until].map(epochMsOf) as [number, number, number];
  const first = from + Math.floor((since - from) / backfill.windowMs) * backfill.windowMs;
  let [low, high] = [first, Math.min(first + backfill.windowMs, epochMsOf(backfill.to))];
  if (since < from || since >= high) return undefined;
  const ancestors: Window[] = [];
  while (low !== since || high !== until) {
    const middle = middleOf(low, high);
    if (middle === undefined) return undefined;
    ancestors.push({ since: instantOf(low), until: instantOf(high) });
    if (since < middle) high = middle;
    else low = middle;
  }
  return ancestors;
}

/** Where a window is split; undefined if it is too short. Whole seconds, as the contract shows them (section 2.1). */
export function splitPoint({ since, until }: Window): Instant | undefined {
  const middle = middleOf(epochMsOf(since), epochMsOf(until));
  return middle === undefined ? undefined : instantOf(middle);
}

function middleOf(low: number, high: number): number | undefined {
  const middle = Math.floor((low + high) / 2_000) * 1_000;
  return middle > low && middle < high ? middle : undefined;
}

/** The two windows that replace one which is split at `at`. */
export const partsOf = ({ since, until }: Window, at: Instant): readonly [Window, Window] => [
  { since, until: at },
  { since: at, until },
];

/** The windows that take the place of `window`, oldest first: itself, or its parts, which may be split again. */
export function* currentWindows(
  exportName: string,
  window: Window,
  states: ReadonlyMap<string, Pick<ExportState, 'splitAt'>>,
): Generator<Window> {
  const splitAt = states.get(windowName(exportName, window))?.splitAt;
  if (splitAt === undefined) {
    yield window;
    return;
  }
  for (const part of partsOf(window, splitAt)) yield* currentWindows(exportName, part, states);
}
