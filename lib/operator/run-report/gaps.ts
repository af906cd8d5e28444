/** Finds the gaps of a run: periods without a page in progress, when its process was stopped or it waited. */

import type { PageEntry } from '../../core/model.ts';
import { epochMsOf } from '../../core/timestamps.ts';

/** Two moments, in milliseconds since the epoch. */
export type Period = readonly [from: number, to: number];

/** Shorter periods without a page in progress are normal: a function starts, or the machine takes its next step. */
const minGapMs = 5_000;
/** The longest delay before a retry. */
const maxRetryDelayMs = 300_000;
/** So many periods are kept. If there are more, the shortest gaps are forgotten. */
const maxPeriods = 500;

/** Collects the pages of a run in bounded memory: those of a slice in order, the slices one after the other. */
export function createGapFinder(startedAt: number) {
  let active: Period[] = [[startedAt, startedAt]];
  let minMs = minGapMs;
  let previous: Pick<PageEntry, 'page' | 'loggedAt'> | undefined;
  return {
    add(entry: PageEntry): void {
      // The slices share the time of the run, but a delay is that of one of them.
      const earliest = previous === undefined || entry.page === 1 ? startedAt : epochMsOf(previous.loggedAt);
      previous = entry;
      active.push(periodOf(entry, earliest));
      if (active.length <= 2 * maxPeriods) return;
      for (active = merged(active, minMs); active.length > maxPeriods; active = merged(active, minMs)) minMs *= 2;
    },
    /** In order of time. */
    gaps(): readonly Period[] {
      active = merged(active, minMs);
      return active.slice(1).map(([to], index) => [(active[index] as Period)[1], to]);
    },
  };
}

/** From the request to the log entry; from `earliest`, if waits and retries explain why it was not requested before. */
function periodOf({ timing, loggedAt, waitedSeconds = 0, failedAttempts = 0 }: PageEntry, earliest: number): Period {
  const to = epochMsOf(loggedAt);
  // Another attempt has requested an adopted page.
  if (timing === null) return [to, to];
  const requestedAt = Math.min(epochMsOf(timing.requestedAt), to);
  const delayMs = waitedSeconds * 1_000 + failedAttempts * maxRetryDelayMs;
  const isExplained = delayMs > 0 && requestedAt - earliest < delayMs + minGapMs;
  return [isExplained ? Math.min(requestedAt, earliest) : requestedAt, to];
}

/** The periods in order, joined if less than `minMs` lies between them. */
function merged(periods: readonly Period[], minMs: number): Period[] {
  const result: Period[] = [];
  for (const [from, to] of periods.toSorted(([one], [other]) => one - other)) {
    const last = result.at(-1);
    if (last === undefined || from - last[1] >= minMs) result.push([from, to]);
    else result[result.length - 1] = [last[0], Math.max(last[1], to)];
  }
  return result;
}
