/**
 * How the start of an export ended: for a program one JSON object, for a person a few lines, for a shell an exit
 * status.
 */

import { errorNames } from '../core/errors.ts';
import type { ExportDefinition, RunEnd } from '../core/model.ts';
import { toPrintable } from '../core/sanitize.ts';
import { stepNames } from '../core/state-machine/definition.ts';
import { findRetrier } from '../core/state-machine/retry-policy.ts';
import { instantOf } from '../core/timestamps.ts';
import { exitStatuses } from './context.ts';
import { missingCounts, plural, sliceCounts, totals } from './output/format.ts';
import type { ObservedRun } from './output/progress.ts';
import type { Style, TextStyle } from './output/terminal.ts';
import { isOutage, needsCorrection } from './run-view.ts';

/** `not-started`: an interruption kept the export from being started. It may have an unfinished run. */
type StartOutcome = RunEnd | { readonly status: 'not-started' };

/** How each outcome is shown, in the order in which they are counted. */
const outcomes = {
  failed: { label: 'Failed', color: 'red', exitStatus: exitStatuses.failed },
  interrupted: { label: 'Interrupted', color: 'yellow', exitStatus: exitStatuses.interrupted },
  'not-started': { label: 'Not started', color: 'yellow', exitStatus: exitStatuses.interrupted },
  started: { label: 'In progress', color: 'cyan', exitStatus: exitStatuses.ok },
  skipped: { label: 'Skipped', color: 'yellow', exitStatus: exitStatuses.ok },
  completed: { label: 'Completed', color: 'green', exitStatus: exitStatuses.ok },
} as const satisfies Record<StartOutcome['status'], { label: string; color: Style; exitStatus: number }>;

export const outcomeLabels = Object.values(outcomes).map(({ label }) => label.toLowerCase());
export const outcomeLabelOf = ({ json }: StartEnd): string => outcomes[json.status].label.toLowerCase();

/** The object of `--json`. Unknown values are null. */
export interface RunJson extends ObservedRun {
  readonly status: StartOutcome['status'];
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

export interface StartEnd {
  readonly json: RunJson;
  readonly exitStatus: number;
  /** The text in parentheses after the label and the name of the export. */
  readonly about?: string | undefined;
  readonly details: readonly string[];
  readonly hint?: string | undefined;
}

interface EndContext {
  /** Used if the failure report lacks these values. */
  readonly observed: ObservedRun;
  /** How the export chooses where its runs start; undefined if it could not be opened. */
  readonly since: ExportDefinition['since'] | undefined;
  /** How often the page that failed was retried. */
  readonly retries: number;
  readonly elapsedMs: number;
  /** Commands to try if the start was refused, and to see how a run progresses. */
  readonly hints: { readonly help?: string | undefined; readonly status: string };
}

export function startEnd(end: StartOutcome, context: EndContext): StartEnd {
  const { observed, elapsedMs, hints } = context;
  const { status } = end;
  const known: RunJson = { status, ...observed, watermark: null, manifest: null };
  const { exitStatus } = outcomes[status];
  switch (end.status) {
    case 'completed': {
      const slices = observed.slices && { ...observed.slices, done: observed.slices.count };
      const json = { ...known, ...end.result, slices, manifest: end.manifest };
      const about = `${totals(json)} in ${(elapsedMs / 1_000).toFixed(1)} s`;
      return { json, exitStatus, about, details: completedDetails(json, context.since) };
    }
    case 'skipped': {
      const { reason, done } = end;
      return { json: { ...known, reason, done }, exitStatus, details: reason.split('\n') };
    }
    case 'started': {
      const json = { ...known, run: end.run ?? observed.run, execution: end.execution };
      const run = json.run === null ? [] : [`run        ${json.run}`];
      return { json, exitStatus, details: [...run, `execution  ${end.execution}`], hint: hints.status };
    }
    case 'interrupted': {
      const about = known.pages === 0 ? 'before page 1 was stored' : placeIn(known);
      return {
        json: known,
        exitStatus,
        about,
        details: [known.pages === 0 ? 'Run again to continue.' : 'Run again to resume.'],
      };
    }
    case 'not-started':
      return { json: known, exitStatus, details: [] };
    case 'failed':
      return failedEnd(end.failed, known, context);
  }
}

function completedDetails(
  { run, slices, bounded, since, until, watermark, manifest }: RunJson,
  policy: EndContext['since'],
): readonly string[] {
  return [
    `run        ${run}`,
    ...(slices === undefined
      ? []
      : [
          `${slices.parents ? 'parents   ' : 'slices    '} ${[slices.count.toLocaleString('en'), ...missingCounts(slices)].join(', ')}`,
        ]),
    ...(bounded === true
      ? [`period     ${until === undefined ? 'the children of one run' : `bounded run from ${since} to ${until}`}`]
      : [`since      ${since}`, `watermark  ${nextStart(watermark, policy)}`]),
    // A directory is named as the operator has typed it.
    `manifest   ${toPrintable(manifest ?? 'none: a run without reports is not published (publishEmptyRuns is false)')}`,
  ];
}

/** The watermark, and where the next run starts because of it. */
function nextStart(watermark: string | null, policy: EndContext['since']): string {
  const first = policy?.from === 'lookback' ? 'the lookback window of the first start' : 'since.initial';
  if (watermark === null) return `none: the next run starts at ${first}, which is before the since of this run`;
  if (policy?.from === 'lookback') {
    return `${watermark}  (the next run starts here, or its lookbackWindow ago if that is earlier)`;
  }
  const next = instantOf(Math.max(0, Date.parse(watermark) - (policy?.overlapMs ?? 0)));
  return `${watermark}  (the next run starts ${next === watermark ? 'here' : `at ${next}, because of its overlap`})`;
}

function failedEnd(
  { error: name, message, resumable, ...ofRun }: Extract<RunEnd, { readonly status: 'failed' }>['failed'],
  known: RunJson,
  { retries, hints }: EndContext,
): StartEnd {
  // If the failure could not be recorded, the run is known only from its events.
  const json: RunJson = {
    ...known,
    ...(ofRun.run !== null && { ...ofRun, export: known.export }),
    error: { name, message },
  };
  const lines = message.split('\n');
  // Refused before a run was begun or resumed: the request contradicts the settings or the export state.
  if (json.run === null && name === 'ConfigurationError') {
    return { json, exitStatus: exitStatuses.usage, details: lines, hint: hints.help };
  }
  const advice = [
    ...(retries === 0 || !isRetried(name) ? [] : [`Gave up after ${retries} ${retries === 1 ? 'retry' : 'retries'}.`]),
    ...nextStep(json, { name, message }, resumable),
  ].join(' ');
  return {
    json,
    exitStatus: exitStatuses.failed,
    about: json.run === null ? undefined : `run ${json.run}, ${totals(json)}`,
    details: [`${name}: ${lines[0]}`, ...lines.slice(1), ...(advice === '' ? [] : [advice])],
    // If the failed execution no longer owned the run, another one may have published it by now.
    hint: ofRun.run === null && json.run !== null && !resumable ? hints.status : undefined,
  };
}

function nextStep(
  json: RunJson,
  { name, message }: { readonly name: string; readonly message: string },
  resumable: boolean,
): readonly string[] {
  // Where the message names a restart, a resumed run may fail again.
  if (!resumable || message.includes('--restart')) return [];
  const isOfParent = json.slices?.parents !== undefined && / of parent \d/.test(message);
  const skip = 'To export without this parent, add --skip-parent with its value, which status shows.';
  return [resumeAdvice(name, json), ...(isOfParent ? [skip] : [])];
}

/** Resuming alone helps after few errors: another attempt was made for those that pass. */
function resumeAdvice(error: string, json: RunJson): string {
  const isOnlySlice = json.slices === undefined && (error === 'CursorRejectedError' || error === 'RepeatedCursorError');
  const resumes = json.pages === 0 || isOnlySlice ? '' : `: the run resumes ${placeIn(json)}`;
  if (needsCorrection(error)) return `Correct this, then run again${resumes}.`;
  if (isOutage(error)) return `Run again once the service responds${resumes}.`;
  if (!(errorNames as readonly string[]).includes(error)) return `Run again${resumes}.`;
  return `Run again${resumes}. If it fails in the same way, see docs/runbook.md#${error.toLowerCase()} of the package.`;
}

/** A permanent error may follow others that were retried. */
const isRetried = (error: string): boolean =>
  stepNames.some((step) => (findRetrier(error, step)?.MaxAttempts ?? 0) > 0);

/** How far the run has come: pages are numbered within a slice. */
const placeIn = ({ pages, slices }: RunJson): string =>
  slices === undefined ? `after page ${pages}` : `after ${plural(pages, 'page')}, with ${sliceCounts(slices)} done`;

/** `Completed: nightly (3 pages, 250 reports, 123.5 kB in 1.2 s)`, and the details below it. */
export function endText({ json, about, details }: StartEnd, style: TextStyle): string {
  const { label, color } = json.done === true ? { label: 'Done', color: 'green' as const } : outcomes[json.status];
  const first = `${style(color, `${label}:`)} ${json.export}${about === undefined ? '' : ` (${about})`}`;
  return [first, ...details.map((line) => `  ${line}`)].map((line) => `${line}\n`).join('');
}
