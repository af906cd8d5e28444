/**
 * Shows the progress of long operations: on a terminal one line that is rewritten in place, elsewhere a line per minute
 * at most, with the time. Everything goes to stderr, so that stdout holds only the result.
 */

import type { SeenRun } from '../../aws/step-functions/follow-run.ts';
import { type FailedRun, sumTotals, zeroTotals } from '../../core/model.ts';
import type { ExportEvent, SliceCounts } from '../../core/ports.ts';
import type { Retry } from '../../local/execution.ts';
import { capitalize, toPrintable } from '../../core/sanitize.ts';
import { bytes, coarseDuration, delay, missingCounts, plural, sliceCounts, sliceName, sliceNoun } from './format.ts';
import { type Terminal, type TextStyle, timestampFor } from './terminal.ts';

/** What has been seen of a run. Unknown values are null. */
export interface ObservedRun extends Omit<FailedRun, 'export' | 'error' | 'message' | 'resumable'> {
  readonly export: string;
  /** Only for a run with several slices. */
  readonly slices?: SliceCounts | undefined;
}

/** A run in progress, and where it was when it began or was resumed. */
interface ShownRun {
  observed: ObservedRun;
  from?: Pick<ObservedRun, 'pages' | 'bytes' | 'slices'> & { readonly at: number };
  lastRetry?: Retry | undefined;
}

/** Shows any number of runs at the same time. Only warnings if `quiet`. */
export function createProgressDisplay(
  stream: Terminal,
  style: TextStyle,
  now: () => number,
  { quiet = false }: { readonly quiet?: boolean | undefined } = {},
) {
  const status = createStatusLine(stream, now);
  const runs = new Set<ShownRun>();

  /** Shows from now on what a start of this export reports of its run. */
  const begin = (exportName: string) => {
    const run: ShownRun = { observed: { export: exportName, run: null, since: null, ...zeroTotals } };
    runs.add(run);
    // Otherwise a line before has named the export.
    const named = (text: string) => (runs.size === 1 && !quiet ? text : `${exportName}: ${text}`);
    const warn = (text: string) => status.print(style('yellow', named(text)));
    const notify = (text: string) => {
      if (!quiet) status.print(style('dim', named(text)));
    };
    const showPages = () => {
      if (!quiet) status.update(progressText([...runs], now()));
    };
    return {
      notify,
      /** Shows a run in AWS that is another one than before, or has changed. */
      onProgress({ isResumed, ...seen }: SeenRun) {
        const isOther = run.observed.run !== seen.run;
        run.observed = seen;
        if (isOther) {
          notify((isResumed ? resumedText : startedText)(seen));
          run.from = { ...(isResumed ? seen : { ...seen, ...zeroTotals }), at: now() };
        }
        const hasOnlyBegun = isOther && (isResumed || seen.pages === 0);
        if (!hasOnlyBegun) showPages();
      },
      emit(event: ExportEvent) {
        run.observed = observe(run.observed, event);
        const isBeginning = event.event === 'run-started' || event.event === 'run-resumed';
        if (isBeginning || isRestart(event) || run.from === undefined) run.from = { ...run.observed, at: now() };
        if (event.event === 'page-exported' || event.event === 'page-adopted') {
          run.lastRetry = undefined;
          return showPages();
        }
        if (event.event === 'slice-ended') return showPages();
        const message = messageOf(event, run.observed.slices);
        if (message !== undefined) (notices.has(event.event) ? notify : warn)(message);
      },
      onRetry(retry: Retry) {
        run.lastRetry = countedOverErrors(retry, run.lastRetry);
        warn(retryText(run.lastRetry));
      },
      observed: () => run.observed,
      /** How often the page that is in progress was retried. */
      retries: () => run.lastRetry?.attempt ?? 0,
      /** Clears the line that is rewritten in place; the next output starts a line of its own. */
      end() {
        runs.delete(run);
        status.clear();
      },
    };
  };
  const count = () => runs.size;
  return { begin, count };
}

function observe(observed: ObservedRun, event: ExportEvent): ObservedRun {
  if (event.event === 'run-started' || event.event === 'run-resumed') {
    const { run, since, until, bounded, slices, pages, reports, bytes } = event;
    return { ...observed, run, since, until, bounded, slices, pages, reports, bytes };
  }
  if (event.event === 'page-exported' || event.event === 'page-adopted') {
    const { slices, totalPages: pages, totalReports: reports, totalBytes: bytes } = event;
    return { ...observed, slices, pages, reports, bytes };
  }
  // A run over parents has no slices before its plan is made.
  if (event.event === 'parents-planned')
    return { ...observed, slices: { done: 0, count: event.parents, parents: { gone: 0, skipped: 0 } } };
  if (event.event === 'slice-ended' || event.event === 'slice-set-aside') return { ...observed, slices: event.slices };
  return isRestart(event) ? { ...observed, ...zeroTotals } : observed;
}

/** Whether the only slice of the run starts over. */
const isRestart = (event: ExportEvent): boolean => event.event === 'slice-restarted' && event.slice === undefined;

/**
 * The retry, with its number among all of the same page: each sends a request, whatever the error. `maxAttempts` is how
 * many there are if this error stays.
 */
function countedOverErrors(retry: Retry, previous: Retry | undefined): Retry {
  const attempt = (previous?.state === retry.state ? previous.attempt : 0) + 1;
  const remaining = retry.hasProgressed === true ? retry.maxAttempts : retry.maxAttempts - retry.attempt;
  return { ...retry, attempt, maxAttempts: attempt + remaining };
}

const notices: ReadonlySet<ExportEvent['event']> = new Set(['run-started', 'run-resumed', 'waiting-for-job']);

type Message<Event> = (event: Event, slices: SliceCounts | undefined) => string | undefined;
type Messages = { readonly [Name in ExportEvent['event']]?: Message<Extract<ExportEvent, { event: Name }>> };

/** The messages about events. The start says how its run ends, pages are counted, and only functions wait for slots. */
const messages: Messages = {
  'run-started': ({ withoutJobsOf, ...run }) =>
    withoutJobsOf === undefined
      ? startedText(run)
      : `${startedText(run)}. It replaces run ${withoutJobsOf}, whose report jobs are not used`,
  'run-resumed': resumedText,
  'parents-planned': ({ run, parentExport, parentRun, parents }) =>
    parents === 0
      ? `Run ${run} has no parents: no report of run ${parentRun} of ${parentExport} is one. Check parents.where in the settings if there should be some`
      : undefined,
  'slice-restarted'({ slice, attempt, isPass, reason }, slices) {
    if (slice === undefined) return isPass ? reason : `The run starts over: ${reason}`;
    // Every slice that needs two passes begins another one.
    if (isPass && attempt === 2) return undefined;
    return `${capitalize(sliceName(slice, slices))} starts over (pass ${attempt}): ${reason}`;
  },
  'slice-set-aside': ({ slice, error, message }, slices) =>
    `${capitalize(sliceName(slice, slices))} is set aside: ${error}: ${message}`,
  'service-asked-to-wait'({ seconds, page, slice }, slices) {
    const place = slice === undefined ? `page ${page}` : `page ${page} of ${sliceName(slice, slices)}`;
    return `Waiting ${delay(seconds)} before ${place} (Retry-After)`;
  },
  'waiting-for-job'({ slice, job, status = '', statusSince, seconds }, slices) {
    const place = slice === undefined ? '' : ` of ${sliceName(slice, slices)}`;
    const next = `next poll in ${delay(seconds)}`;
    if (job === undefined)
      return `The request for the report job${place} has no response: sent again in ${delay(seconds)}`;
    return `Waiting for report ${toPrintable(job)}${place}: ${toPrintable(status)} since ${statusSince}, ${next}`;
  },
  'pages-without-reports': ({ emptyPages, page }) =>
    `${emptyPages} consecutive pages without reports, up to page ${page}`,
};

const messageOf = (event: ExportEvent, slices: SliceCounts | undefined): string | undefined =>
  (messages[event.event] as Message<ExportEvent> | undefined)?.(event, slices);

type BegunRun = Pick<SeenRun, 'export' | 'run' | 'since' | 'until' | 'slices' | 'pages'>;

function startedText(run: BegunRun): string {
  return `Run ${run.run}: exporting "${run.export}" ${periodOf(run)}`;
}

function resumedText(run: BegunRun): string {
  const done = run.slices === undefined ? `page ${run.pages}` : plural(run.pages, 'page');
  return `Resuming run ${run.run} ${run.pages === 0 ? 'at page 1' : `after ${done}`} (${periodOf(run)})`;
}

function periodOf({ since, until, slices }: BegunRun): string {
  const end = until === undefined ? '' : ` until ${until}`;
  return `since ${since}${end}${slices === undefined ? '' : ` ${slices.parents ? 'for' : 'in'} ${sliceNoun(slices)}`}`;
}

/** `Page 162 · 16,200 reports · 14.1 MB · 3.2 pages/s · 278.3 kB/s`; of several runs, how many there are. */
function progressText(runs: readonly ShownRun[], now: number): string {
  const [only, ...others] = runs;
  if (only !== undefined && others.length === 0) return runText(only, now);
  const { pages, bytes: size } = sumTotals(runs.map(({ observed }) => observed));
  return [`${plural(runs.length, 'run')} in progress`, plural(pages, 'page'), bytes(size)].join(' · ');
}

function runText({ observed, ...run }: ShownRun, now: number): string {
  const from = run.from ?? { ...observed, at: now };
  const { pages, reports, bytes: size, slices } = observed;
  const seconds = (now - from.at) / 1_000;
  const amounts = [...(reports === null ? [] : [plural(reports, 'report')]), bytes(size)];
  if (slices !== undefined) {
    const done = slices.done - (from.slices?.done ?? 0);
    const left = (seconds / done) * (slices.count - slices.done) * 1_000;
    const estimate = done > 0 ? [`${coarseDuration(left)} left`] : [];
    const parts = [sliceCounts(slices), plural(pages, 'page'), ...amounts, ...missingCounts(slices), ...estimate];
    return parts.join(' · ');
  }
  // Less time than a second says nothing about the rate.
  const perSecond = (pages - from.pages) / seconds;
  const rate = perSecond >= 1 ? `${perSecond.toFixed(1)} pages/s` : `${(perSecond * 60).toFixed(1)} pages/min`;
  const rates = seconds < 1 ? [] : [rate, `${bytes(Math.round((size - from.bytes) / seconds))}/s`];
  return [`Page ${pages}`, ...amounts, ...rates].join(' · ');
}

/** `Retrying in 4 s (attempt 2 of 9): ServiceUnavailableError: …`. */
function retryText({ error, message, attempt, maxAttempts, delaySeconds }: Retry): string {
  const when = delaySeconds < 0.05 ? 'now' : `in ${delay(delaySeconds)}`;
  // The first attempt was no retry.
  return `Retrying ${when} (attempt ${attempt + 1} of ${maxAttempts + 1}): ${error}: ${message}`;
}

/** Counts pages on a terminal, as in `Verified 120 pages · 8.4 MB`. Elsewhere it writes nothing. */
export function createPageCounter(stream: Terminal, verb: string, now: () => number) {
  const status = createStatusLine(stream, now);
  let pages = 0;
  let totalBytes = 0;
  return {
    add: (size: number) => {
      pages += 1;
      totalBytes += size;
      if (stream.isTTY === true) status.update(`${verb} ${plural(pages, 'page')} · ${bytes(totalBytes)}`);
    },
    end: status.clear,
  };
}

/** Milliseconds between two lines about pages: on a terminal often enough to move, in a log seldom enough to read. */
const minIntervalMs = { terminal: 100, log: 60_000 };

/**
 * `update` rewrites the last line on a terminal, unless it was called just before. `print` writes a line that stays.
 */
function createStatusLine(stream: Terminal, now: () => number) {
  const isTerminal = stream.isTTY === true;
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
  const update = (text: string) => {
    if (now() - updatedAt < (isTerminal ? minIntervalMs.terminal : minIntervalMs.log)) return;
    updatedAt = now();
    if (!isTerminal) return print(text);
    stream.write(`\r\x1b[K${text.slice(0, (stream.columns || 80) - 1)}`);
    isShown = true;
  };
  return { print, clear, update };
}
