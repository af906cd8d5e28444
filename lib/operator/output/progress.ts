/**
 * Shows the progress of long operations: on a terminal one line that is rewritten in place, elsewhere a line per minute
 * at most, with the time. Everything goes to stderr, so that stdout holds only the result.
 */

import type { Retry } from '../../target/target.ts';
import type { ExportEvent, SliceCounts } from '../../core/ports.ts';
import { bytes, coarseDuration, delay, plural, sliceCounts, totals } from './format.ts';
import { type Terminal, type TextStyle, timestampFor } from './terminal.ts';

export interface ProgressDisplay {
  readonly notify: (text: string) => void;
  readonly onEvent: (event: ExportEvent) => void;
  readonly onRetry: (retry: Retry) => void;
  /** Clears the line that is rewritten in place; the next output starts a line of its own. */
  readonly end: () => void;
}

/** Milliseconds between two lines about pages: on a terminal often enough to move, in a log seldom enough to read. */
const minIntervalMs = { terminal: 100, log: 60_000 };

/** The progress of one run, from its events. Only warnings if `quiet`. */
export function createProgressDisplay(
  stream: Terminal,
  style: TextStyle,
  now: () => number,
  { countsDown = true, quiet = false }: { readonly countsDown?: boolean; readonly quiet?: boolean } = {},
): ProgressDisplay {
  const status = createStatusLine(stream, now, { quiet });
  const countdown = createCountdown(countsDown && stream.isTTY === true ? status.show : () => {}, now);
  let rate = createRate(now());
  let timeLeft = createEstimate(now());

  return {
    notify: (text) => status.inform(style('dim', text)),
    onEvent(event) {
      countdown.stop();
      switch (event.event) {
        case 'run-started':
          rate = createRate(now());
          timeLeft = createEstimate(now());
          return status.inform(style('dim', `Run ${event.run}: exporting "${event.export}" ${periodOf(event)}`));
        case 'run-resumed': {
          const { run, pages, slices } = event;
          rate = createRate(now(), pages, event.bytes);
          timeLeft = createEstimate(now(), slices?.done);
          const done = slices === undefined ? `page ${pages}` : plural(pages, 'page');
          const place = pages === 0 ? 'at page 1' : `after ${done}`;
          return status.inform(style('dim', `Resuming run ${run} ${place} (${periodOf(event)})`));
        }
        case 'run-restarted': {
          rate = createRate(now());
          const { run, abandoned, reason } = event;
          const why = `run ${abandoned} cannot continue: ${reason}`;
          return status.print(style('yellow', `Starting over as run ${run}, because ${why}`));
        }
        case 'page-exported':
        case 'page-adopted': {
          const { page, slices, totalPages, totalReports, totalBytes } = event;
          const reports = totalReports === null ? [] : [plural(totalReports, 'report')];
          const parts =
            slices === undefined
              ? [`Page ${page}`, ...reports, bytes(totalBytes), ...rate(now(), page, totalBytes)]
              : [
                  sliceCounts(slices),
                  plural(totalPages, 'page'),
                  ...reports,
                  bytes(totalBytes),
                  ...timeLeft(now(), slices),
                ];
          return status.update(parts.join(' · '));
        }
        case 'slice-restarted': {
          const { slice, attempt, reason } = event;
          return status.print(style('yellow', `Slice ${slice} starts over (attempt ${attempt}), because ${reason}`));
        }
        case 'slice-set-aside': {
          const { slice, error, message } = event;
          return status.print(style('yellow', `Slice ${slice} waits while the others continue: ${error}: ${message}`));
        }
        case 'service-asked-to-wait': {
          const { seconds, page, slice } = event;
          const place = slice === undefined ? `page ${page}` : `page ${page} of slice ${slice}`;
          return status.print(style('yellow', `Waiting ${seconds} s before ${place} (Retry-After)`));
        }
        case 'pages-without-reports':
          return status.print(
            style('yellow', `${event.emptyPages} consecutive pages without reports, up to page ${event.page}`),
          );
        case 'run-completed': {
          // The summary says how the last run of a series ended.
          if (event.rest === undefined) return;
          const { run, since, until } = event;
          return status.inform(`${style('green', 'Completed:')} ${since} to ${until} (${totals(event)}, run ${run})`);
        }
        // Only functions emit it.
        case 'waiting-for-slot':
        // The summary says how the run ended.
        case 'run-failed':
        case 'run-skipped':
          return;
      }
    },
    onRetry(retry) {
      status.print(style('yellow', retryText(retry)));
      countdown.start(retry.delaySeconds ?? 0);
    },
    end() {
      countdown.stop();
      status.clear();
    },
  };
}

/** `Retrying in 4 s (attempt 2 of 9): ServiceUnavailableError: …`. */
function retryText({ error, message, attempt, maxAttempts, delaySeconds, maxDelaySeconds }: Retry): string {
  const when =
    delaySeconds !== undefined
      ? delaySeconds < 0.05
        ? ' now'
        : ` in ${delay(delaySeconds)}`
      : maxDelaySeconds !== undefined
        ? ` within ${delay(maxDelaySeconds)}`
        : '';
  // The first attempt was no retry.
  const attempts = `attempt ${attempt + 1} of ${maxAttempts + 1}`;
  return `Retrying${when} (${attempts}): ${error}: ${message}`;
}

/** Shows the seconds until the next attempt, and then that it is under way. Delays under a second are not shown. */
function createCountdown(show: (text: string) => void, now: () => number) {
  let timer: NodeJS.Timeout | undefined;
  const stop = () => clearInterval(timer);
  return {
    stop,
    start(seconds: number) {
      stop();
      if (seconds < 1) return;
      const endsAt = now() + seconds * 1_000;
      const tick = () => {
        const remaining = Math.round((endsAt - now()) / 1_000);
        if (remaining <= 0) stop();
        show(remaining <= 0 ? 'Retrying …' : `Retrying in ${remaining} s …`);
      };
      tick();
      // The display does not keep the process alive.
      timer = setInterval(tick, 1_000).unref();
    },
  };
}

/** Less time than this says nothing about the rate. */
const minRatedMs = 1_000;

/** `3.2 pages/s`, `1.1 MB/s`: the mean since its creation, when the run already had so many pages and bytes. */
function createRate(startedAt: number, pagesBefore = 0, bytesBefore = 0) {
  return (now: number, totalPages: number, totalBytes: number): readonly string[] => {
    if (now - startedAt < minRatedMs) return [];
    const seconds = (now - startedAt) / 1_000;
    const perSecond = (totalPages - pagesBefore) / seconds;
    return [
      perSecond >= 1 ? `${perSecond.toFixed(1)} pages/s` : `${(perSecond * 60).toFixed(1)} pages/min`,
      `${bytes(Math.round((totalBytes - bytesBefore) / seconds))}/s`,
    ];
  };
}

/** `2 min left`, by the slices that are done since its creation, when `doneBefore` were. Nothing before the first one. */
function createEstimate(startedAt: number, doneBefore = 0) {
  return (now: number, { done, count }: SliceCounts): readonly string[] => {
    const doneSince = done - doneBefore;
    if (doneSince <= 0) return [];
    return [`${coarseDuration(((now - startedAt) / doneSince) * (count - done))} left`];
  };
}

function periodOf({
  since,
  until,
  slices,
}: Extract<ExportEvent, { readonly event: 'run-started' | 'run-resumed' }>): string {
  const end = until === undefined ? '' : ` until ${until}`;
  return `since ${since}${end}${slices === undefined ? '' : ` in ${plural(slices.count, 'slice')}`}`;
}

export interface PageCounter {
  readonly add: (bytes: number) => void;
  readonly end: () => void;
}

/** Counts pages on a terminal, as in `Verified 120 pages · 8.4 MB`. Elsewhere it writes nothing. */
export function createPageCounter(stream: Terminal, verb: string, now: () => number): PageCounter {
  const status = createStatusLine(stream, now);
  let pages = 0;
  let totalBytes = 0;
  return {
    add(size) {
      pages += 1;
      totalBytes += size;
      if (stream.isTTY === true) status.update(`${verb} ${plural(pages, 'page')} · ${bytes(totalBytes)}`);
    },
    end: status.clear,
  };
}

/**
 * `show` rewrites the last line on a terminal, and so does `update`, unless it was called just before. `print` and `inform` write a
 * line that stays. If `quiet`, only `print` writes.
 */
export function createStatusLine(
  stream: Terminal,
  now: () => number,
  { quiet = false }: { readonly quiet?: boolean } = {},
) {
  const isTerminal = stream.isTTY === true;
  const intervalMs = isTerminal ? minIntervalMs.terminal : minIntervalMs.log;
  let updatedAt = Number.NEGATIVE_INFINITY;
  let isShown = false;

  const clear = () => {
    if (isShown) stream.write('\r\x1b[K');
    isShown = false;
  };
  const print = (text: string) => {
    clear();
    stream.write(`${timestampFor(stream, now())}${text}\n`);
  };
  const inform = (text: string) => {
    if (!quiet) print(text);
  };
  const show = (text: string) => {
    if (quiet) return;
    if (!isTerminal) return print(text);
    stream.write(`\r\x1b[K${text.slice(0, (stream.columns || 80) - 1)}`);
    isShown = true;
  };
  return {
    print,
    inform,
    clear,
    show,
    update(text: string) {
      if (now() - updatedAt < intervalMs) return;
      updatedAt = now();
      show(text);
    },
  };
}
