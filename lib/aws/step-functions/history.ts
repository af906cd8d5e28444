/**
 * Extracts incidents from the history of an execution: failed attempts, waits, and how the execution failed.
 *
 * No event has all of it. The run and the page are in the input of the state that was entered last, and only later events
 * show whether a failed attempt was retried.
 */

import type { HistoryEvent } from '@aws-sdk/client-sfn';
import * as z from 'zod';
import type { Incident } from '../../target/target.ts';
import { toPrintable, truncate } from '../../core/sanitize.ts';
import type { Retrier } from '../../core/state-machine/asl.ts';
import type { StateName } from '../../core/state-machine/definition.ts';
import { findRetrier } from '../../core/state-machine/retry-policy.ts';
import { instantOf } from '../../core/timestamps.ts';

/** An incident, and where in its execution it happened. */
export interface IncidentEvent {
  /** Numbers the events of the execution. */
  readonly eventId: number;
  readonly state: string;
  readonly run: string;
  readonly incident: Incident;
  /** Counts the failures since the state was entered that share a retrier, as far as the events that were read show. */
  readonly attempt: number;
}

export interface HistoryReader {
  /** Takes the next event. Returns the incidents that it completes. */
  read(event: HistoryEvent): readonly IncidentEvent[];
  /** The last incident, if it is incomplete: an attempt that failed and whose retry has not begun. */
  pending(): readonly IncidentEvent[];
}

/** `run` is the run of the events before the first one that names a run. */
export function createHistoryReader(run?: string): HistoryReader {
  let current: { readonly state: string; readonly run: string | undefined; readonly page: number | null } = {
    state: '',
    run,
    page: null,
  };
  let attempts = new Map<Retrier | undefined, number>();
  let failedAttempt: IncidentWithoutRun | undefined;
  /** Until BeginRun has returned the run. */
  let withoutRun: IncidentWithoutRun[] = [];

  const addRun = (incidents: readonly (IncidentWithoutRun | undefined)[]): IncidentEvent[] => {
    withoutRun.push(...incidents.filter((each) => each !== undefined));
    const { run } = current;
    if (run === undefined) return [];
    const complete = withoutRun.map((each) => ({ ...each, run }));
    withoutRun = [];
    return complete;
  };
  const incidentAt = (
    event: HistoryEvent,
    createIncident: (where: { at: Incident['at']; page: number | null }) => Incident,
    attempt = 0,
  ): IncidentWithoutRun => ({
    eventId: event.id ?? 0,
    state: current.state,
    incident: createIncident({ at: instantOf(event.timestamp?.getTime() ?? 0), page: current.page }),
    attempt,
  });

  return {
    read(event) {
      const { type = '', stateEnteredEventDetails: entered } = event;
      if (entered !== undefined) {
        const { name = '' } = entered;
        const input = stateInputSchema.parse(parseJson(entered.input));
        current = { state: name, run: input.run ?? current.run, page: pageOf(name, input.page, current.page) };
        attempts = new Map();
        // It was not retried, and the events that follow show its consequence.
        failedAttempt = undefined;
        const { waitSeconds } = input;
        // In WaitForSlot, the run waits for other exports, not for the service.
        if (name !== ('WaitForService' satisfies StateName) || waitSeconds === undefined) return addRun([]);
        return addRun([incidentAt(event, (where) => ({ kind: 'wait', ...where, seconds: waitSeconds }))]);
      }
      const failure = attemptFailureIn(event);
      if (failure !== undefined) {
        const retrier = findRetrier(failure.error, current.state);
        const attempt = (attempts.get(retrier) ?? 0) + 1;
        attempts.set(retrier, attempt);
        failedAttempt = incidentAt(event, (where) => ({ kind: 'failed-attempt', ...where, ...failure }), attempt);
        return [];
      }
      const end = executionFailureIn(event);
      if (end !== undefined) {
        // A failed execution repeats the error of its last attempt. One that was stopped does not: report both.
        const attempt = type === 'ExecutionFailed' ? undefined : failedAttempt;
        failedAttempt = undefined;
        return addRun([attempt, incidentAt(event, (where) => ({ kind: 'failed-run', ...where, ...end }))]);
      }
      if (type !== 'TaskScheduled' && type !== 'LambdaFunctionScheduled') return [];
      const retried = failedAttempt;
      failedAttempt = undefined;
      return addRun([retried]);
    },
    pending: () => addRun([failedAttempt]),
  };
}

/** A run that waits for its turn, because other exports use all slots of the service. */
export interface SlotWait {
  readonly eventId: number;
  readonly run: string;
  readonly page: number;
  readonly seconds: number;
}

/** The wait that `event` begins; undefined if it begins none. */
export function slotWaitIn({ id = 0, stateEnteredEventDetails: entered }: HistoryEvent): SlotWait | undefined {
  if (entered?.name !== ('WaitForSlot' satisfies StateName)) return undefined;
  const { run, page = 0, waitSeconds: seconds = 0 } = stateInputSchema.parse(parseJson(entered.input));
  return run === undefined ? undefined : { eventId: id, run, page, seconds };
}

type IncidentWithoutRun = Omit<IncidentEvent, 'run'>;

/** The relevant part of a state's input, which may be anything at all. */
const stateInputSchema = z
  .object({
    run: z.string().optional().catch(undefined),
    page: z.int().optional().catch(undefined),
    waitSeconds: z.number().optional().catch(undefined),
  })
  .catch({});

/** The input of other states has a page too, but they do not concern it. Those that end an execution keep the previous page. */
function pageOf(state: string, page: number | undefined, previous: number | null): number | null {
  if (state === 'ExportPage' || state === 'WaitForService' || state === 'WaitForSlot') return page ?? null;
  return state === 'BeginRun' || state === 'FinishRun' ? null : previous;
}

export interface Failure {
  readonly error: string;
  readonly message: string;
}

/** How an attempt failed. RunSupersededError is not a failure: the execution ends without one. */
function attemptFailureIn(event: HistoryEvent): Failure | undefined {
  const failed =
    event.taskFailedEventDetails ??
    event.taskStartFailedEventDetails ??
    event.taskSubmitFailedEventDetails ??
    event.lambdaFunctionFailedEventDetails ??
    event.lambdaFunctionScheduleFailedEventDetails ??
    event.lambdaFunctionStartFailedEventDetails;
  if (failed !== undefined) {
    return failed.error === 'RunSupersededError' ? undefined : toFailure(failed, 'States.Unknown');
  }
  const timedOut = event.taskTimedOutEventDetails ?? event.lambdaFunctionTimedOutEventDetails;
  return timedOut && toFailure(timedOut, 'States.Timeout');
}

function executionFailureIn(event: HistoryEvent): Failure | undefined {
  if (event.type === 'ExecutionFailed') return toFailure(event.executionFailedEventDetails, 'States.Unknown');
  if (event.type === 'ExecutionTimedOut') return toFailure(event.executionTimedOutEventDetails, 'States.Timeout');
  if (event.type === 'ExecutionAborted') return toFailure(event.executionAbortedEventDetails, 'ExecutionAborted');
  return undefined;
}

/** For failures without a cause. */
const defaultMessages: Readonly<Record<string, string>> = {
  'States.Timeout': 'Timed out',
  ExecutionAborted: 'The execution was stopped',
};

const maxMessageLength = 1_000;
const lambdaCauseSchema = z.object({ errorMessage: z.string() });

/** Takes the message from the JSON that Lambda returns as the cause, and makes both fit for a terminal. */
export function toFailure(
  details: { readonly error?: string | undefined; readonly cause?: string | undefined } = {},
  defaultError: string,
): Failure {
  const error = truncate(toPrintable(details.error || defaultError), 100);
  const cause = details.cause ?? '';
  const text = lambdaCauseSchema.safeParse(parseJson(cause)).data?.errorMessage ?? cause;
  const message = truncate(toPrintable(text).trim(), maxMessageLength);
  return { error, message: message === '' ? (defaultMessages[error] ?? 'Step Functions reported no cause') : message };
}

/** undefined if `text` is not JSON. */
export function parseJson(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? '');
  } catch {
    return undefined;
  }
}
