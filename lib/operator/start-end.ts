/** How the start of an export ended: for a program one JSON object, for a person a few lines, for a shell an exit status. */

import type { FailedRun, RunTotals } from '../core/model.ts';
import { toPrintable } from '../core/sanitize.ts';
import { findRetrier } from '../core/state-machine/retry-policy.ts';
import type { Retry, RunEnd } from '../target/target.ts';
import { exitStatuses } from './context.ts';
import { plural, sliceCounts, totals } from './output/format.ts';
import type { ObservedRun } from './output/observed-run.ts';

/** The object of `--json`. Unknown values are null. */
export interface RunJson extends ObservedRun {
  readonly status: 'completed' | 'skipped' | 'failed' | 'interrupted' | 'started';
  readonly watermark: string | null;
  /** A path or URI that can be opened from here. */
  readonly manifest: string | null;
  /** Only for a skipped run. */
  readonly reason?: string;
  /** Set if it was skipped because its bounds have been exported already. */
  readonly done?: true | undefined;
  /** Only for a run that was started on AWS and not followed to its end. */
  readonly execution?: string;
  /** Only for a failed run. */
  readonly error?: { readonly name: string; readonly message: string };
}

/** An export that an interruption kept from being started. It may have an unfinished run. */
interface NotStartedJson {
  readonly status: 'not-started';
  readonly export: string;
}

export interface StartEnd {
  readonly json: RunJson | NotStartedJson;
  readonly exitStatus: number;
  /** What a person reads of it, below its label and the name of the export. */
  readonly text: { readonly about?: string; readonly details: readonly string[] };
  /** A command to try next. */
  readonly hint?: string | undefined;
}

interface EndContext {
  /** Used if the failure report lacks these values. */
  readonly observed: ObservedRun;
  /** The newest retry of the step that failed, as far as it was announced. */
  readonly lastRetry?: Retry | undefined;
  readonly elapsedMs: number;
  /** What to try if the start was refused, and to see how a run progresses. */
  readonly hints: { readonly help?: string | undefined; readonly watch: string };
}

/** `end` is an error if it prevented the start or the recording of its failure. */
export function startEnd(
  end: RunEnd | { readonly status: 'error'; readonly error: unknown },
  context: EndContext,
): StartEnd {
  const { observed, elapsedMs, hints } = context;
  const unfinished = { ...observed, watermark: null, manifest: null };
  switch (end.status) {
    case 'completed': {
      const slices = observed.slices && { done: observed.slices.count, count: observed.slices.count };
      const json = { status: 'completed', ...end.result, slices, manifest: end.manifest } as const;
      const about = `${totals(json)} in ${(elapsedMs / 1_000).toFixed(1)} s`;
      return { exitStatus: exitStatuses.ok, json, text: { about, details: completedDetails(json) } };
    }
    case 'skipped': {
      const { reason, done } = end;
      const json = { status: 'skipped', ...unfinished, reason, done } as const;
      return { exitStatus: exitStatuses.ok, json, text: { details: reason.split('\n') } };
    }
    case 'started': {
      const json = {
        status: 'started',
        ...unfinished,
        run: end.run ?? observed.run,
        execution: end.execution,
      } as const;
      const details = [...(json.run === null ? [] : [`run        ${json.run}`]), `execution  ${json.execution}`];
      return { exitStatus: exitStatuses.ok, json, text: { details }, hint: hints.watch };
    }
    case 'interrupted': {
      const json = { status: 'interrupted', ...unfinished } as const;
      const about = json.pages === 0 ? 'before page 1 was stored' : placeIn(json);
      return { exitStatus: exitStatuses.interrupted, json, text: { about, details: ['Run again to resume.'] } };
    }
    case 'failed':
      return failedEnd(end.failed, context);
    case 'error': {
      const { name: error, message } = end.error instanceof Error ? end.error : new Error(String(end.error));
      const { run, since, until, bounded, pages, reports, bytes } = observed;
      const known = { run, since, until, bounded, pages, reports, bytes };
      return failedEnd({ ...known, error, message, resumable: run !== null }, context);
    }
  }
}

export const notStarted = (exportName: string): StartEnd => ({
  exitStatus: exitStatuses.interrupted,
  json: { status: 'not-started', export: exportName },
  text: { details: [] },
});

function completedDetails({ run, slices, bounded, since, until, watermark, manifest }: RunJson): readonly string[] {
  const start =
    watermark === null
      ? 'none: the run started after since.initial, so no watermark is set'
      : `${watermark}  (the next run starts here)`;
  return [
    `run        ${run}`,
    ...(slices === undefined ? [] : [`slices     ${slices.count.toLocaleString('en')}`]),
    ...(bounded === true
      ? [`period     bounded run from ${since} to ${until}`]
      : [`since      ${since}`, `watermark  ${start}`]),
    // A directory is named as the operator has typed it.
    `manifest   ${toPrintable(manifest ?? 'none: a run without reports is not published (publishEmptyRuns is false)')}`,
  ];
}

type Failed = Pick<FailedRun, 'error' | 'message' | 'resumable'> &
  Pick<ObservedRun, 'run' | 'since' | 'until' | 'bounded'> &
  RunTotals;

function failedEnd(failed: Failed, { observed, lastRetry, hints }: EndContext): StartEnd {
  const { error: name, message, resumable, run, since, until, bounded, pages, reports, bytes } = failed;
  // A failure that could not be recorded says nothing about its run; the events do.
  const known = run === null ? {} : { run, since, until, bounded, pages, reports, bytes };
  const json = {
    status: 'failed',
    ...observed,
    watermark: null,
    manifest: null,
    ...known,
    error: { name, message },
  } as const;
  const lines = message.split('\n');
  // Refused before a run was begun or resumed: the request contradicts the settings or the export state.
  if (json.run === null && name === 'ConfigurationError') {
    return { exitStatus: exitStatuses.usage, json, text: { details: lines }, hint: hints.help };
  }
  const isFinal = run !== null && !resumable;
  const advice = [
    ...retriesText(name, lastRetry),
    ...(resumable ? resumeAdvice(json, message) : []),
    ...(isFinal ? ['Nothing was published, and the run is abandoned. The next start begins a new run.'] : []),
  ];
  return {
    exitStatus: exitStatuses.failed,
    json,
    text: {
      about: json.run === null ? undefined : `run ${json.run}, ${totals(json)}`,
      details: [`${name}: ${lines[0]}`, ...lines.slice(1), ...(advice.length === 0 ? [] : [advice.join(' ')])],
    },
    // If the failed execution no longer owned the run, another one may have published it by now.
    hint: resumable || isFinal || json.run === null ? undefined : hints.watch,
  };
}

/** Says that the retries of the step are used up, as far as they were announced. A permanent error has none. */
function retriesText(error: string, lastRetry: Retry | undefined): readonly string[] {
  const isRetried = lastRetry !== undefined && (findRetrier(error, lastRetry.state)?.MaxAttempts ?? 0) > 0;
  return isRetried ? [`Gave up after ${lastRetry.attempt} ${lastRetry.attempt === 1 ? 'retry' : 'retries'}.`] : [];
}

/** Nothing if the message says what to do: where a restart may be the only way out, a resumed run would fail again. */
function resumeAdvice(json: RunJson, message: string): readonly string[] {
  if (message.includes('--restart')) return [];
  return [json.pages === 0 ? 'Run again to resume.' : `Run again to resume ${placeIn(json)}.`];
}

/** How far the run has come: pages are numbered within a slice. */
const placeIn = ({ pages, slices }: RunJson): string =>
  slices === undefined ? `after page ${pages}` : `after ${plural(pages, 'page')}, with ${sliceCounts(slices)} done`;
