/** Says how a run ended: to a person in a few lines, to a program as one JSON object, to a shell as an exit status. */

import { isExportError } from '../core/errors.ts';
import { type RunTotals, zeroTotals } from '../core/model.ts';
import type { Retry, RunEnd } from '../target/target.ts';
import type { ExportEvent, SliceCounts } from '../core/ports.ts';
import { findRetrier } from '../core/state-machine/retry-policy.ts';
import { exitStatuses } from './context.ts';
import { plural, sliceCounts, totals } from './output/format.ts';
import { errorLines, type TextStyle, withProblemCount } from './output/terminal.ts';

/** The object of `--json`. Unknown values are null. */
export interface RunJson {
  readonly status: 'completed' | 'skipped' | 'failed' | 'interrupted' | 'started';
  readonly export: string;
  readonly run: string | null;
  readonly since: string | null;
  /** Absent: it has no upper bound. */
  readonly until?: string | undefined;
  /** Of a run whose bounds an operator has named only. */
  readonly bounded?: true | undefined;
  /** Of a run with several slices only. */
  readonly slices?: SliceCounts | undefined;
  readonly watermark: string | null;
  readonly pages: number;
  readonly reports: number | null;
  readonly bytes: number;
  /** A path or URI that can be opened from here. */
  readonly manifest: string | null;
  /** Of a skipped run only. */
  readonly reason?: string;
  /** Set if it was skipped because its bounds have been exported already. */
  readonly done?: true | undefined;
  /** Of a run that was started on AWS and not followed to its end. */
  readonly execution?: string;
  /** Of a failed run only. */
  readonly error?: { readonly name: string; readonly message: string };
}

/** What the events of a run have shown so far. Used if the failure report lacks these values. */
export type ObservedRun = Pick<RunJson, 'export' | 'run' | 'since' | 'until' | 'bounded' | 'slices'> & RunTotals;

export const unobservedRun = (exportName: string): ObservedRun => ({
  export: exportName,
  run: null,
  since: null,
  pages: 0,
  reports: 0,
  bytes: 0,
});

export function observe(observed: ObservedRun, event: ExportEvent): ObservedRun {
  switch (event.event) {
    case 'run-started':
    case 'run-resumed': {
      const { run, since, until, bounded, slices, pages, reports, bytes } = event;
      return { ...observed, run, since, until, bounded, slices, pages, reports, bytes };
    }
    case 'run-restarted':
      return { ...observed, run: event.run, ...zeroTotals };
    case 'page-exported':
    case 'page-adopted':
      return {
        ...observed,
        slices: event.slices,
        pages: event.totalPages,
        reports: event.totalReports,
        bytes: event.totalBytes,
      };
    case 'slice-restarted':
    case 'slice-set-aside':
    case 'service-asked-to-wait':
    case 'waiting-for-slot':
    case 'pages-without-reports':
    case 'run-completed':
    case 'run-failed':
    case 'run-skipped':
      return observed;
  }
}

/** How a start ended, or the error that prevented it. */
export type StartOutcome = RunEnd | { readonly status: 'error'; readonly error: unknown };

/** Which commands to try next. */
export interface NextCommands {
  /** Shows the usage. */
  readonly help: string;
  /** Shows the state of the run. */
  readonly watch: string;
}

export interface StartSummary {
  readonly exitStatus: number;
  readonly json: RunJson;
  /** What to know or do next; empty if there is nothing to say. */
  readonly next: string;
}

/** `lastRetry` is the newest one of the step that failed, as far as it was announced. */
export function summarizeRun(
  outcome: StartOutcome,
  observed: ObservedRun,
  { help, watch }: NextCommands,
  lastRetry?: Retry,
): StartSummary {
  const unfinished = { ...observed, watermark: null, manifest: null };
  switch (outcome.status) {
    case 'completed': {
      const slices = observed.slices && { done: observed.slices.count, count: observed.slices.count };
      const json = { status: 'completed', ...outcome.result, slices, manifest: outcome.manifest } as const;
      return { exitStatus: exitStatuses.ok, json, next: '' };
    }
    case 'skipped': {
      const json = { status: 'skipped', ...unfinished, reason: outcome.reason, done: outcome.done } as const;
      return { exitStatus: exitStatuses.ok, json, next: '' };
    }
    case 'started': {
      const run = outcome.run ?? observed.run;
      const json = { status: 'started', ...unfinished, run, execution: outcome.execution } as const;
      return { exitStatus: exitStatuses.ok, json, next: `Watch it with: ${watch}` };
    }
    case 'interrupted':
      return { exitStatus: exitStatuses.interrupted, json: { status: 'interrupted', ...unfinished }, next: '' };
    case 'failed': {
      const { run, since, until, bounded, pages, reports, bytes, error: name, message, resumable } = outcome.failed;
      // A failure that could not be recorded says nothing about its run; the events do.
      const known = run === null ? {} : { run, since, until, bounded, pages, reports, bytes };
      const json = { status: 'failed', ...unfinished, ...known, error: { name, message } } as const;
      // Refused before a run was begun or resumed: the request contradicts the export state.
      if (json.run === null && name === 'ConfigurationError') return usageError(json, help);
      const next = resumable
        ? resumeHint(json, message)
        : afterFinalFailure(run === null && observed.run !== null, watch);
      return {
        exitStatus: exitStatuses.failed,
        json,
        next: `${gaveUp(name, lastRetry)}${next}`.trimEnd(),
      };
    }
    case 'error': {
      const { name, message } = outcome.error instanceof Error ? outcome.error : new Error(String(outcome.error));
      const json = { status: 'failed', ...unfinished, error: { name, message } } as const;
      if (json.run !== null) return { exitStatus: exitStatuses.failed, json, next: resumeHint(json, message) };
      if (isExportError(outcome.error, 'ConfigurationError')) return usageError(json, help);
      return { exitStatus: exitStatuses.failed, json, next: '' };
    }
  }
}

const usageError = (json: RunJson, help: string): StartSummary => ({
  exitStatus: exitStatuses.usage,
  json,
  next: `For help: ${help}`,
});

/** Says that the retries of the step are used up, as far as they were announced. A permanent error has none. */
function gaveUp(error: string, lastRetry: Retry | undefined): string {
  const isRetried = lastRetry !== undefined && (findRetrier(error, lastRetry.state)?.MaxAttempts ?? 0) > 0;
  if (!isRetried) return '';
  return `Gave up after ${lastRetry.attempt} ${lastRetry.attempt === 1 ? 'retry' : 'retries'}. `;
}

/** If the failed execution no longer owned the run, another one may have published it by now. */
const afterFinalFailure = (isOwnedByAnother: boolean, watch: string): string =>
  isOwnedByAnother
    ? `To see the state of the run: ${watch}`
    : 'Nothing was published, and the run is abandoned. The next start begins a new run.';

/** Nothing if the message says what to do: where a restart may be the only way out, a resumed run would fail again. */
function resumeHint(json: RunJson, message: string): string {
  if (message.includes('--restart')) return '';
  return json.pages === 0 ? 'Run again to resume.' : `Run again to resume ${placeIn(json)}.`;
}

/** How far the run has come: pages are numbered within a slice. */
export const placeIn = ({ pages, slices }: RunJson): string =>
  slices === undefined ? `after page ${pages}` : `after ${plural(pages, 'page')}, with ${sliceCounts(slices)} done`;

const watermarkLine = ({ watermark }: RunJson): string =>
  watermark === null
    ? '  watermark  none: the run started after since.initial, so no watermark is set'
    : `  watermark  ${watermark}  (the next run starts here)`;

/** The lines that a person reads at the end. */
export function formatSummary({ json, exitStatus, next }: StartSummary, elapsedMs: number, style: TextStyle): string {
  const hint = next === '' ? '' : `${next}\n`;
  switch (json.status) {
    case 'completed': {
      const lines = [
        `${style('green', 'Completed:')} ${totals(json)} in ${(elapsedMs / 1_000).toFixed(1)} s`,
        `  run        ${json.run}`,
        ...(json.slices === undefined ? [] : [`  slices     ${json.slices.count.toLocaleString('en')}`]),
        ...(json.bounded === true
          ? [`  period     bounded run from ${json.since} to ${json.until}`]
          : [`  since      ${json.since}`, watermarkLine(json)]),
        `  manifest   ${json.manifest ?? 'none: a run without reports is not published (publishEmptyRuns is false)'}`,
      ];
      return `${lines.join('\n')}\n${hint}`;
    }
    case 'skipped':
      return `${json.done === true ? style('green', 'Done:') : style('yellow', 'Skipped:')} ${json.reason}\n${hint}`;
    case 'started': {
      const run = json.run === null ? `Export ${json.export} has been started.` : `Run ${json.run} is in progress.`;
      return `${run}\n  execution  ${json.execution}\n${hint}`;
    }
    case 'interrupted': {
      const place = json.pages === 0 ? 'before page 1 was stored' : placeIn(json);
      return `${style('yellow', 'Interrupted')} ${place}. Run again to resume.\n${hint}`;
    }
    case 'failed': {
      const { name, message } = json.error ?? { name: '', message: '' };
      if (exitStatus === exitStatuses.usage) return errorLines(style, withProblemCount(message)) + hint;
      const about = json.run === null ? 'Run failed' : `Run ${json.run} failed after ${totals(json)}`;
      return errorLines(style, `${about}:\n${name}: ${message}`) + hint;
    }
  }
}
