/**
 * Reads out of an execution's history what held its run up: attempts that failed, waits, and how it gave up.
 *
 * Each event says little by itself. Which run and page it is about stands in the input of the state that was entered
 * last, and whether a failed attempt was repeated in what comes behind it.
 */

import type { HistoryEvent } from '@aws-sdk/client-sfn';
import * as z from 'zod';
import type { Incident } from '../../core/operations/deployment.ts';
import { toPrintable, truncate } from '../../core/sanitize.ts';
import { instantOf } from '../../core/timestamps.ts';

/** A incident, and where in the execution it was met. */
export interface IncidentEvent {
  /** Counts the events of the execution. */
  readonly event: number;
  readonly state: string;
  readonly run: string;
  readonly incident: Incident;
  /** How often this state has failed in a row, as far as the events read show. */
  readonly attempt: number;
}

export interface HistoryReading {
  /** To be told every event, in order. Yields what is certain from here on. */
  read(event: HistoryEvent): readonly IncidentEvent[];
  /** What was the last word, at least so far: an attempt that has failed and may be repeated yet. */
  rest(): readonly IncidentEvent[];
}

/** `run`: the one that it is about until an event names another. */
export function createHistoryReading(run?: string): HistoryReading {
  let about: { readonly state: string; readonly run: string | undefined; readonly page: number | null } = {
    state: '',
    run,
    page: null,
  };
  let attempt = 0;
  let failed: Unplaced | undefined;
  /** Before BeginRun has said which run it is about. */
  let unplaced: Unplaced[] = [];

  const place = (incidentEvents: readonly (Unplaced | undefined)[]): IncidentEvent[] => {
    unplaced.push(...incidentEvents.filter((each) => each !== undefined));
    const { run } = about;
    if (run === undefined) return [];
    const placed = unplaced.map((each) => ({ ...each, run }));
    unplaced = [];
    return placed;
  };
  const incidentEvent = (
    event: HistoryEvent,
    incident: (at: { at: Incident['at']; page: number | null }) => Incident,
  ) => ({
    event: event.id ?? 0,
    state: about.state,
    incident: incident({ at: instantOf(event.timestamp?.getTime() ?? 0), page: about.page }),
    attempt,
  });

  return {
    read(event) {
      const { type = '', stateEnteredEventDetails: entered } = event;
      if (entered !== undefined) {
        const input = inputSchema.parse(parsed(entered.input));
        const { name = '' } = entered;
        about = { state: name, run: input.run ?? about.run, page: pageIn(name, input.page, about.page) };
        attempt = 0;
        // It was not repeated: what comes of it stands behind.
        failed = undefined;
        const { waitSeconds } = input;
        if (type !== 'WaitStateEntered' || waitSeconds === undefined) return place([]);
        return place([incidentEvent(event, (at) => ({ kind: 'wait', ...at, seconds: waitSeconds }))]);
      }
      const failure = failureIn(event);
      if (failure !== undefined) {
        attempt += 1;
        failed = incidentEvent(event, (at) => ({ kind: 'failed-attempt', ...at, ...failure }));
        return [];
      }
      const end = endIn(event);
      if (end !== undefined) {
        // The attempt that it failed with is told once; one that was to be repeated when it was stopped, as well.
        const attempted = type === 'ExecutionFailed' ? undefined : failed;
        failed = undefined;
        return place([attempted, incidentEvent(event, (at) => ({ kind: 'failed-run', ...at, ...end }))]);
      }
      if (type !== 'TaskScheduled' && type !== 'LambdaFunctionScheduled') return [];
      const repeated = failed;
      failed = undefined;
      return place([repeated]);
    },
    rest: () => place([failed]),
  };
}

type Unplaced = Omit<IncidentEvent, 'run'>;

/** Of what travels from state to state; whatever else it is, it says nothing of a run. */
const inputSchema = z
  .object({
    run: z.string().optional().catch(undefined),
    page: z.int().optional().catch(undefined),
    waitSeconds: z.number().optional().catch(undefined),
  })
  .catch({});

/** Other states have a page in their input too, but are not about it; the ends of an execution are about where it was. */
function pageIn(state: string, page: number | undefined, before: number | null): number | null {
  if (state === 'ExportPage' || state === 'WaitForService') return page ?? null;
  return state === 'BeginRun' || state === 'FinishRun' ? null : before;
}

// MERGED history-failures.ts: What the events of an execution say about a failure: its name, and a message for a person.

export interface Failure {
  readonly error: string;
  readonly message: string;
}

/** How an attempt failed. A superseded execution ends quietly: nothing has failed. */
function failureIn(event: HistoryEvent): Failure | undefined {
  const details =
    event.taskFailedEventDetails ??
    event.taskStartFailedEventDetails ??
    event.taskSubmitFailedEventDetails ??
    event.lambdaFunctionFailedEventDetails ??
    event.lambdaFunctionScheduleFailedEventDetails ??
    event.lambdaFunctionStartFailedEventDetails;
  if (details !== undefined)
    return details.error === 'RunSupersededError' ? undefined : failureOf(details, 'States.Unknown');
  const late = event.taskTimedOutEventDetails ?? event.lambdaFunctionTimedOutEventDetails;
  return late && failureOf(late, 'States.Timeout');
}

/** How an execution gave up. */
function endIn(event: HistoryEvent): Failure | undefined {
  if (event.type === 'ExecutionFailed') return failureOf(event.executionFailedEventDetails, 'States.Unknown');
  if (event.type === 'ExecutionTimedOut') return failureOf(event.executionTimedOutEventDetails, 'States.Timeout');
  if (event.type === 'ExecutionAborted') return failureOf(event.executionAbortedEventDetails, 'ExecutionAborted');
  return undefined;
}

/** Where Step Functions has no word for it. */
const inOurWords: Readonly<Record<string, string>> = {
  'States.Timeout': 'It took more time than it may',
  ExecutionAborted: 'Somebody stopped the execution',
};

const maxMessageLength = 1_000;
const lambdaCauseSchema = z.object({ errorMessage: z.string() });

/** The cause of a Lambda's error is JSON. Whatever it says may be long, and is for a terminal. */
export function failureOf(
  details: { readonly error?: string | undefined; readonly cause?: string | undefined } = {},
  otherwise: string,
): Failure {
  const error = truncate(toPrintable(details.error || otherwise), 100);
  const cause = details.cause ?? '';
  const said = lambdaCauseSchema.safeParse(parsed(cause)).data?.errorMessage ?? cause;
  const message = truncate(toPrintable(said).trim(), maxMessageLength);
  return { error, message: message === '' ? (inOurWords[error] ?? 'Step Functions says no more') : message };
}

/** undefined where it is no JSON. */
export function parsed(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? '');
  } catch {
    return undefined;
  }
}
